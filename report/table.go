// Package report prints what the other packages computed: terminal tables, SVG, HTML, DOT and Mermaid. It decides
// nothing. Output is deterministic; names from inputs are printed without control characters.
package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Align is how a column is set.
type Align uint8

// The alignments.
const (
	Left Align = iota
	Right
)

// Column is a column of a table. Columns with a higher Drop go first when the terminal is too narrow; 0 never goes.
type Column struct {
	Title string
	Align Align
	Drop  int
}

// Table is rows of text under titles.
type Table struct {
	Columns []Column
	Rows    [][]string
}

// Add appends a row.
func (t *Table) Add(cells ...string) {
	for i, c := range cells {
		cells[i] = Clean(c)
	}
	t.Rows = append(t.Rows, cells)
}

// Write prints the table with an indent. Width 0 means unlimited.
func (t *Table) Write(w io.Writer, indent string, width int) error {
	show := make([]bool, len(t.Columns))
	size := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		show[i] = true
		size[i] = utf8.RuneCountInString(c.Title)
		for _, r := range t.Rows {
			if i < len(r) {
				size[i] = max(size[i], utf8.RuneCountInString(r[i]))
			}
		}
	}
	total := func() int {
		n := len(indent)
		for i := range size {
			if show[i] {
				n += size[i] + 2
			}
		}
		return n - 2
	}
	for width > 0 && total() > width {
		drop := -1
		for i, c := range t.Columns {
			if show[i] && c.Drop > 0 && (drop < 0 || c.Drop > t.Columns[drop].Drop) {
				drop = i
			}
		}
		if drop < 0 {
			break
		}
		show[drop] = false
	}
	titles := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		titles[i] = c.Title
	}
	for _, r := range append([][]string{titles}, t.Rows...) {
		var b strings.Builder
		b.WriteString(indent)
		for i, c := range t.Columns {
			if !show[i] {
				continue
			}
			cell := ""
			if i < len(r) {
				cell = r[i]
			}
			pad := strings.Repeat(" ", size[i]-utf8.RuneCountInString(cell))
			if c.Align == Right {
				b.WriteString(pad + cell + "  ")
			} else {
				b.WriteString(cell + pad + "  ")
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// Clean removes control characters and bidirectional overrides, so that a name cannot drive the terminal.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0), r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return -1
		}
		return r
	}, s)
}
