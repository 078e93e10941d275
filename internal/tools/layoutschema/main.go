// Command layoutschema writes the JSON Schema of the rank layout: go run ./internal/tools/layoutschema > layout/schema.json
package main

import (
	"fmt"
	"os"

	"rankmap/layout"
)

func main() {
	b, err := layout.GenerateSchema()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Stdout.Write(b)
}
