package smi

import "strings"

// unwrap undoes the cutting of lines at the width of a terminal, which may fall inside a word. The width is that of the
// longest line of the table; a shorter first part lost blanks at its end, which are put back. It returns nil where no
// line goes on.
func (p *prepared) unwrap() []line {
	width := 0
	for i := range p.lines {
		if l := &p.lines[i]; startsTableLine(l) {
			width = max(width, len(l.text)-l.cut)
		}
	}
	const narrowest = 20
	if width < narrowest {
		return nil
	}
	for i := 1; i < len(p.lines); i++ {
		l, next := &p.lines[i-1], &p.lines[i]
		if startsTableLine(l) && len(l.text)-l.cut == width && !startsTableLine(next) && !blank(next) && goesOn(next) && !startsRow(next) {
			return glue(p.lines, width, p.indent())
		}
	}
	return nil
}

// indent is by how many blanks every row is indented, as a block that was wrapped before may be.
func (p *prepared) indent() int {
	least := -1
	for i := range p.lines {
		l := &p.lines[i]
		if s := l.text[l.cut:]; startsTableLine(l) {
			if n := len(s) - len(strings.TrimLeft(s, " ")); least < 0 || n < least {
				least = n
			}
		}
	}
	return max(least, 0)
}

// blank says that a line holds nothing, or a rule.
func blank(l *line) bool { return strings.Trim(l.text[l.cut:], " \t|-=+:") == "" }

// startsTableLine says that a line starts with the name of a device: a row, or a header that stands flush left.
func startsTableLine(l *line) bool {
	s := strings.TrimLeft(l.text[l.cut:], " \t|")
	if s == "" {
		return false
	}
	if u, n := unit(s); n > 0 && (u.kind == kGPU || u.kind == kNIC) {
		return n == len(s) || s[n] != ':' && s[n] != '='
	}
	return false
}

// glue joins every line of the table with the lines that go on.
func glue(lines []line, width, indent int) []line {
	out := make([]line, 0, len(lines))
	for i := 0; i < len(lines); i++ {
		l := lines[i]
		if !startsTableLine(&l) {
			out = append(out, l)
			continue
		}
		part := len(l.text) - l.cut // of the last physical line
		for i+1 < len(lines) {
			next := &lines[i+1]
			s := strings.TrimSpace(next.text[next.cut:])
			if s == "" || blank(next) || part > width || len(l.text) > maxLine {
				break
			}
			// A full line goes on; a shorter one does if what follows starts no line of its own.
			if part < width && (startsTableLine(next) || !goesOn(next)) {
				break
			}
			if startsRow(next) {
				break
			}
			text := l.text + strings.Repeat(" ", width-part)
			padded, seams := l.padded || part < width, append(l.seams[:len(l.seams):len(l.seams)], len(text))
			l = join(&l, text, next, indent)
			l.padded, l.seams = padded, seams
			part = len(next.text) - next.cut
			i++
		}
		out = append(out, l)
	}
	return out
}

// startsRow says that a device name and a cell stand together in a line: a row, whatever stands before it.
func startsRow(l *line) bool {
	toks, _ := tokenize(l, nil)
	for i := 1; i < len(toks); i++ {
		if (toks[i-1].kind == kGPU || toks[i-1].kind == kNIC) && isCell(&toks[i]) {
			return true
		}
	}
	return false
}

// goesOn says that a line holds cells, values, names or parts of them, and no prose.
func goesOn(l *line) bool {
	toks, _ := tokenize(l, nil)
	for i := range toks {
		if toks[i].colon || toks[i].kind == kEnd || toks[i].kind == kWord && i > 0 && !strings.EqualFold(toks[i].text, "GPU") {
			return false
		}
	}
	return true
}

func join(l *line, text string, next *line, indent int) line {
	cut := next.cut
	for cut < len(next.text) && cut < next.cut+indent && next.text[cut] == ' ' {
		cut++
	}
	spans := append([]span(nil), l.spans...)
	for _, s := range next.spans {
		if s.from < cut {
			s.at.off += cut - s.from
			s.from = cut
		}
		spans = append(spans, span{s.from - cut + len(text), s.at})
	}
	return line{text: text + next.text[cut:], cut: l.cut, spans: spans, torn: l.torn || next.torn}
}
