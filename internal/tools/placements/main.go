// Placements confronts the planner with published placements and writes docs/placements.md.
//
//	go run ./internal/tools/placements --data ../shared/placements
//	go run ./internal/tools/placements --row mlperf-405b-007    # one row, part by part
//
// Without the tables (a clean clone) the document stays as it is.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"rankmap/configs"
	"rankmap/internal/accuracy"
	"rankmap/internal/measured"
)

func main() {
	data := flag.String("data", "../shared/placements", "folder of dev.csv and models.tsv; configurations in ../models/dev of it")
	out := flag.String("out", "docs/placements.md", "document to write, - for standard output")
	row := flag.String("row", "", "explain one row instead")
	flag.Parse()
	if err := run(*data, *out, *row); err != nil {
		fmt.Fprintln(os.Stderr, "placements:", err)
		os.Exit(1)
	}
}

func run(data, out, row string) error {
	file := filepath.Join(data, "dev.csv")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(os.Stderr, "placements: no tables at %s: %s stays as it is\n", data, out)
		return nil
	}
	rows, err := read(file, measured.ReadPlacements)
	if err != nil {
		return err
	}
	names, err := read(filepath.Join(data, "models.tsv"), measured.ReadModelMap)
	if err != nil {
		return err
	}
	p, err := accuracy.NewPlacer(configs.FS, accuracy.Models{Map: names, Folders: []fs.FS{os.DirFS(filepath.Join(data, "../models/dev"))}})
	if err != nil {
		return err
	}
	ctx := context.Background()
	if row != "" {
		for i := range rows {
			if rows[i].ID == row {
				return p.Explain(ctx, os.Stdout, &rows[i])
			}
		}
		return fmt.Errorf("no row %q", row)
	}
	res, err := p.Rows(ctx, rows, nil)
	if err != nil {
		return err
	}
	var doc bytes.Buffer
	if err := res.WriteMarkdown(&doc, "`make placements`"); err != nil {
		return err
	}
	if out == "-" {
		_, err = os.Stdout.Write(doc.Bytes())
		return err
	}
	return os.WriteFile(out, doc.Bytes(), 0o644)
}

// read opens a file and reads it.
func read[T any](name string, f func(r io.Reader, name string) (T, error)) (T, error) {
	r, err := os.Open(name)
	if err != nil {
		var zero T
		return zero, err
	}
	defer r.Close()
	return f(r, name)
}
