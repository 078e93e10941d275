package smi

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxInput caps a text; pasted tables have a few kilobytes.
const maxInput = 4 << 20

// readText returns the input as UTF-8 without a byte order mark. PowerShell's ">" writes UTF-16.
func readText(r io.Reader, name string) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if len(b) > maxInput {
		return "", &Error{File: name, Msg: "larger than 4 MiB: not a pasted table; give the output of \"nvidia-smi topo -m\" alone"}
	}
	text := decode(b)
	if f := foreignBytes(text); f != nil {
		f.File = name
		return "", f
	}
	return text, nil
}

func decode(b []byte) string {
	switch {
	case len(b) >= 2 && b[0] == 0xff && b[1] == 0xfe:
		return decode16(b[2:], 0, 1)
	case len(b) >= 2 && b[0] == 0xfe && b[1] == 0xff:
		return decode16(b[2:], 1, 0)
	}
	return strings.TrimPrefix(string(b), "\ufeff")
}

func decode16(b []byte, low, high int) string {
	u := make([]uint16, len(b)/2)
	for i := range u {
		u[i] = uint16(b[2*i+low]) | uint16(b[2*i+high])<<8
	}
	return string(utf16.Decode(u))
}

// splitLines cuts at LF, CRLF and a lone CR.
func splitLines(text string) []string {
	lines := make([]string, 0, strings.Count(text, "\n")+1)
	for len(text) > 0 {
		i := strings.IndexAny(text, "\r\n")
		if i < 0 {
			return append(lines, text)
		}
		lines = append(lines, text[:i])
		if strings.HasPrefix(text[i:], "\r\n") {
			i++
		}
		text = text[i+1:]
	}
	return lines
}

// place is a byte of the text as read: a line from 1 and an offset in it.
type place struct{ line, off int }

// line is one line after cleaning. spans maps its bytes to places: each span holds from its start to the next one.
type line struct {
	text  string
	cut   int // bytes at the front that are quoting or comment marks
	spans []span
	// padded says that blanks were put in by guess: positions in the line prove nothing.
	padded bool
	seams  []int // where lines were joined
	torn   bool  // a quoted value of a CSV file is cut by the end of the line
}

type span struct {
	from int
	at   place
}

func (l *line) place(off int) place {
	for i := len(l.spans) - 1; i > 0; i-- {
		if s := l.spans[i]; s.from <= off {
			return place{s.at.line, s.at.off + off - s.from}
		}
	}
	s := l.spans[0]
	return place{s.at.line, s.at.off + off - s.from}
}

// cleaner turns raw lines into clean ones: escapes and control bytes out, odd blanks and box bars into plain ones.
type cleaner struct {
	csv     byte // separator of a CSV file, which becomes a tab; 0 for none
	literal bool // the text spells tabs as \t, as JSON strings and some logs do
	out     strings.Builder
}

// clean handles raw, whose first byte is at the given place. It is length-preserving where nothing must go.
func (c *cleaner) clean(raw string, at place) line {
	if c.csv == 0 && plain(raw) {
		l := line{text: raw, spans: []span{{0, at}}}
		l.cut = quoting(l.text)
		return l
	}
	c.out.Reset()
	spans := []span{{0, at}}
	skip := func(i, n int, as string) int {
		c.out.WriteString(as)
		if n != len(as) {
			spans = append(spans, span{c.out.Len(), place{at.line, at.off + i + n}})
		}
		return i + n
	}
	quoted := false
	for i := 0; i < len(raw); {
		b := raw[i]
		if n := escape(raw[i:]); n > 0 {
			i = skip(i, n, "")
			continue
		}
		switch {
		case c.literal && b == '\\' && i+1 < len(raw) && raw[i+1] == 't':
			i = skip(i, 2, "\t")
		case b == '\t' || b >= ' ' && b < 0x7f && c.csv == 0:
			c.out.WriteByte(b)
			i++
		case b < ' ' || b == 0x7f:
			i = skip(i, 1, "")
		case b < 0x7f:
			switch {
			case b == '"':
				quoted = !quoted
				b = ' '
			case b == c.csv && !quoted:
				b = '\t'
			}
			c.out.WriteByte(b)
			i++
		default:
			r, n := utf8.DecodeRuneInString(raw[i:])
			i = skip(i, n, plainRune(r, raw[i:i+n]))
		}
	}
	l := line{text: strings.Clone(c.out.String()), spans: spans, torn: quoted}
	l.cut = quoting(l.text)
	return l
}

// plain says that a line holds printable ASCII and tabs, and nothing that looks like an escape.
func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		switch b := s[i]; {
		case b == '\t':
		case b < ' ', b >= 0x7f, b == '\\', b == '^':
			return false
		case b == '[' && escape(s[i:]) > 0:
			return false
		}
	}
	return true
}

// plainRune replaces look-alikes of blanks, bars and dashes.
func plainRune(r rune, s string) string {
	switch r {
	case '\u00a0', '\u1680', '\u202f', '\u205f', '\u3000':
		return " "
	case '\u200b', '\u200c', '\u200d', '\u2060', '\ufeff':
		return ""
	case '│', '┃', '║', '｜', '├', '┤', '┼', '╠', '╣', '╬', '┣', '┫', '╋':
		return "|"
	case '─', '━', '═', '–', '—', '−', '┌', '┐', '└', '┘', '┬', '┴', '╔', '╗', '╚', '╝', '╦', '╩':
		return "-"
	case '：':
		return ":"
	case '＝':
		return "="
	case '，':
		return ","
	}
	if r >= '\u2000' && r <= '\u200a' {
		return " "
	}
	return s
}

// escapeLeads are the ways in which the ESC byte survives in text.
var escapeLeads = []string{"\x1b", "^[", `\x1b`, `\x1B`, `\033`, `\e`, `\u001b`, `\u001B`, "␛", ""}

// escape returns the length of a terminal escape at the start of s, 0 if there is none. Where the ESC byte is lost, only
// the form of a colour or underline, "[4m", is taken for one.
func escape(s string) int {
	switch s[0] {
	case '\x1b', '^', '\\', '[', 0xe2:
	default:
		return 0
	}
	for _, lead := range escapeLeads {
		if !strings.HasPrefix(s, lead) {
			continue
		}
		rest := s[len(lead):]
		if n := control(rest, lead != ""); n > 0 {
			return len(lead) + n
		}
		if lead == "\x1b" {
			return 1
		}
	}
	return 0
}

// control returns the length of what follows ESC. With any set, every kind of sequence counts, else only "[...m".
func control(s string, any bool) int {
	if s == "" {
		return 0
	}
	if any && (s[0] == '(' || s[0] == ')') {
		return min(2, len(s))
	}
	if any && s[0] == ']' { // window title, ends with BEL
		if i := strings.IndexByte(s, '\a'); i >= 0 {
			return i + 1
		}
		return 1
	}
	if s[0] != '[' {
		return 0
	}
	i := 1
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == ';' || any && s[i] == '?') {
		i++
	}
	switch {
	case i == len(s):
		return 0
	case any && s[i] >= '@' && s[i] <= '~':
		return i + 1
	case s[i] == 'm' && i > 1:
		return i + 1
	case s[i] == 'm' && (i+1 == len(s) || strings.IndexByte("[ \t", s[i+1]) >= 0):
		return i + 1
	case s[i] == 'K' && (i+1 == len(s) || strings.IndexByte("[ \tG", s[i+1]) >= 0):
		return i + 1
	}
	return 0
}

// quoting returns how many bytes at the front are mail quoting or comment marks, with one blank behind each.
func quoting(s string) int {
	cut := 0
	for {
		i := cut
		for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
			i++
		}
		n := 0
		for i+n < len(s) && (s[i+n] == '>' || s[i+n] == '#' || s[i+n] == ';' || s[i+n] == '%') {
			n++
		}
		if n == 0 && strings.HasPrefix(s[i:], "//") {
			n = 2
		}
		if n == 0 {
			return cut
		}
		cut = i + n
		if cut < len(s) && s[cut] == ' ' {
			cut++
		}
	}
}
