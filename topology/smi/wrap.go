package smi

import "strings"

// unwrap undoes the cutting of lines at the width of a terminal, which may fall inside a word. It returns readings to
// try, in order. The width is that of the longest line of the table; a shorter first part lost blanks at its end, which
// are put back.
func (p *prepared) unwrap() [][]line {
	width := 0
	for i := range p.lines {
		if l := &p.lines[i]; startsTableLine(l) {
			width = max(width, len(l.text)-l.cut)
		}
	}
	if width < 20 {
		return nil
	}
	return [][]line{glue(p.lines, width)}
}

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
func glue(lines []line, width int) []line {
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
			if s == "" || part > width {
				break
			}
			// A full line goes on; a shorter one does if what follows starts no line of its own.
			if part < width && (startsTableLine(next) || !goesOn(next)) {
				break
			}
			if part == width && startsRow(next) {
				break
			}
			text := l.text + strings.Repeat(" ", width-part)
			l = join(&l, text, next)
			part = len(next.text) - next.cut
			i++
		}
		out = append(out, l)
	}
	return out
}

// startsRow says that a line starts with a device name and a cell.
func startsRow(l *line) bool {
	toks, _ := tokenize(l, nil)
	return len(toks) > 1 && (toks[0].kind == kGPU || toks[0].kind == kNIC) && isCell(&toks[1])
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

func join(l *line, text string, next *line) line {
	spans := append([]span(nil), l.spans...)
	for _, s := range next.spans {
		if s.from < next.cut {
			s.at.off += next.cut - s.from
			s.from = next.cut
		}
		spans = append(spans, span{s.from - next.cut + len(text), s.at})
	}
	return line{text: text + next.text[next.cut:], cut: l.cut, spans: spans}
}
