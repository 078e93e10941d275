package report

import (
	"strings"
	"unicode/utf8"
)

// minFold is the least width that is folded to: below it every line would be in pieces.
const minFold = 40

// Fold breaks sentences that are longer than width at their blanks, where a terminal would break in the middle of a word.
// What goes on stands under the start of an item ("  - ...") or of the last cell of a row. Rows whose last cell begins in the
// right third are numbers side by side and stay as they are, so do lines without blanks; a width below 40 changes nothing.
func Fold(text string, width int) string {
	if width < minFold {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		body := strings.TrimSuffix(line, "\n")
		foldLine(&b, body, width)
		if len(body) < len(line) {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func foldLine(b *strings.Builder, line string, width int) {
	indent := hang(line)
	for indent*3 <= width*2 && utf8.RuneCountInString(line) > width {
		cut := lastBlank(line, width, indent)
		if cut < 0 {
			break
		}
		b.WriteString(strings.TrimRight(line[:cut], " "))
		b.WriteByte('\n')
		line = strings.Repeat(" ", indent) + strings.TrimLeft(line[cut:], " ")
	}
	b.WriteString(line)
}

// hang is the column at which a folded line goes on: behind the mark of an item, else where the last cell begins. Cells are
// two blanks apart.
func hang(line string) int {
	start := len(line) - len(strings.TrimLeft(line, " "))
	if strings.HasPrefix(line[start:], "- ") {
		return start + 2
	}
	at, column := start+2, 0
	for i, r := range line {
		if r != ' ' && i > start && i >= 2 && line[i-2:i] == "  " {
			at = column
		}
		column++
	}
	return at
}

// lastBlank is the byte of the last blank at which a line can be cut so that its first part fits; -1 = none beyond the indent.
func lastBlank(line string, width, indent int) int {
	at, column := -1, 0
	for i, r := range line {
		if column > width {
			break
		}
		if r == ' ' && column > indent {
			at = i
		}
		column++
	}
	return at
}
