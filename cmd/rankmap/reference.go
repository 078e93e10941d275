package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// reference writes docs/commands.md from the commands themselves; a test keeps the file current.
func reference(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Commands\n\nWritten by `make golden` from the program's own help.\n\n")
	b.WriteString("```\n" + exitCodesHelp + "\n```\n")
	for _, c := range root.Commands() {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" || !c.Runnable() {
			continue
		}
		fmt.Fprintf(&b, "\n## rankmap %s\n\n%s.\n", strings.TrimPrefix(c.UseLine(), "rankmap "), strings.TrimSuffix(c.Short, "."))
		if c.Long != "" {
			fmt.Fprintf(&b, "\n%s\n", c.Long)
		}
		if c.Example != "" {
			fmt.Fprintf(&b, "\n```\n%s\n```\n", c.Example)
		}
		b.WriteString("\n| flag | default | what |\n|---|---|---|\n")
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			name := "`--" + f.Name
			if t := f.Value.Type(); t != "bool" {
				name += " " + t
			}
			name += "`"
			if f.Shorthand != "" {
				name = "`-" + f.Shorthand + "`, " + name
			}
			def := f.DefValue
			if def == "" || def == "[]" || def == "0" || def == "0s" || def == "false" {
				def = ""
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", name, def, strings.ReplaceAll(f.Usage, "|", "\\|"))
		})
	}
	return b.String()
}
