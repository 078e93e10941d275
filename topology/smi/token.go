package smi

import (
	"strconv"
	"strings"

	"rankmap/topology"
)

// kind says what a word of the text can be.
type kind uint8

const (
	kWord  kind = iota
	kGPU        // GPU0; val is its number
	kNIC        // NIC0, mlx5_0
	kCell       // a cell of the matrix; path and, for NVLink, val
	kP2P        // a cell of topo -p2p
	kList       // digits, commas and dashes: a CPU list, a NUMA node
	kNA         // N/A
	kTitle      // CPU, NUMA, Affinity, ID
	kRule       // dashes and the like
	kEnd        // Legend:
	kTorn       // a cell that ran into what follows so that its end is lost
)

// token is one word. A word in which cells ran together is several tokens.
type token struct {
	kind  kind
	path  topology.PathKind
	colon bool // a colon or an equals sign follows: a legend line, not a row
	val   int
	sep   int // tabs and bars between the token before, or the start of the line, and this one
	text  string
	pos   int // bytes of the clean line
	end   int
	line  *line
}

func (t *token) place() place { return t.line.place(t.pos) }

// maxCount is the largest number of NVLinks a cell may state: today's most is 18, Rubin has 36.
const maxCount = 36

// maxGPU is the largest GPU number taken for one; nvidia-smi knows machines of 16, switched PCIe boxes of 32.
const maxGPU = 255

// tokenize splits a clean line from its quoting on and appends to toks. It returns the separators that follow the last
// token.
func tokenize(l *line, toks []token) ([]token, int) {
	s, sep, start := l.text, 0, len(toks)
	for i := l.cut; i < len(s); {
		switch s[i] {
		case ' ', '*', '`':
			i++
			continue
		case '\t', '|':
			sep++
			i++
			continue
		}
		j := i
		for j < len(s) && s[j] != ' ' && s[j] != '\t' && s[j] != '|' && s[j] != '*' && s[j] != '`' {
			j++
		}
		first := len(toks)
		toks = words(toks, l, i, j)
		toks[first].sep = sep
		sep, i = 0, j
	}
	return joinGPU(toks, start), sep
}

// words appends the token or tokens of one word.
func words(toks []token, l *line, i, j int) []token {
	t := token{text: l.text[i:j], pos: i, end: j, line: l}
	if whole(&t) {
		return append(toks, t)
	}
	if torn := fused(l, i, j); torn != nil {
		return append(toks, torn...)
	}
	// "NIC0=mlx5_0", "NIC0:mlx5_0"
	if u, n := unit(t.text); u.kind == kNIC && n+1 < len(t.text) && (t.text[n] == '=' || t.text[n] == ':') {
		u.pos, u.end, u.line, u.colon = i, i+n, l, true
		rest := token{text: l.text[i+n+1 : j], pos: i + n + 1, end: j, line: l}
		whole(&rest)
		return append(toks, u, rest)
	}
	// Something in front, such as "[1,0]<stdout>:GPU0" or "topo.txt:NIC0".
	const longest = 4096
	for k := i + 1; k < j && j-i <= longest; k++ {
		if alnum(l.text[k-1]) || !alnum(l.text[k]) {
			continue
		}
		rest := token{text: l.text[k:j], pos: k, end: j, line: l}
		if whole(&rest) && (rest.kind == kGPU || rest.kind == kNIC) {
			return append(toks, token{text: l.text[i:k], pos: i, end: k, line: l}, rest)
		}
		if torn := fused(l, k, j); torn != nil && (torn[0].kind == kGPU || torn[0].kind == kNIC) {
			return append(append(toks, token{text: l.text[i:k], pos: i, end: k, line: l}), torn...)
		}
	}
	return append(toks, t)
}

// whole classifies a word that is one token.
func whole(t *token) bool {
	s := t.text
	if n := len(s) - 1; n > 0 && (s[n] == ':' || s[n] == '=' || s[n] == ',') {
		t.colon = s[n] != ','
		s = s[:n]
	}
	u, n := unit(s)
	if n == len(s) {
		t.kind, t.path, t.val = u.kind, u.path, u.val
		if t.kind == kGPU || t.kind == kNIC {
			t.text = u.text
		}
		return t.kind != kTorn
	}
	switch {
	case s == "OK" || s == "NS" || s == "CNS" || s == "GNS" || s == "TNS" || s == "U":
		t.kind = kP2P
	case s == "x":
		t.kind, t.path = kCell, topology.PathSelf
	case strings.Trim(s, "-=+_~:.") == "":
		t.kind = kRule
		t.colon = s == "=" || s == ":"
	case strings.Trim(s, "0123456789,-") == "":
		t.kind, t.text = kList, strings.TrimSuffix(t.text, ":")
	case len(s) > 3 && strings.EqualFold(s[:3], "GPU"):
		// GPU-0, GPU#0, GPU0(H100)
		rest := strings.TrimLeft(s[3:], "-_#")
		if i := strings.IndexByte(rest, '('); i > 0 && strings.HasSuffix(rest, ")") {
			rest = rest[:i]
		}
		v, n := number(rest)
		if n == 0 || n != len(rest) || v > maxGPU {
			return false
		}
		t.kind, t.val, t.text = kGPU, v, gpuName(v)
	case title(s):
		t.kind = kTitle
	default:
		return false
	}
	return true
}

func title(s string) bool {
	for _, w := range [...]string{"CPU", "NUMA", "Affinity", "ID"} {
		if strings.EqualFold(s, w) {
			return true
		}
	}
	return false
}

// fused splits a word into the units that ran together, all of them or none (nil).
func fused(l *line, i, j int) []token {
	s := l.text[i:j]
	if len(s) < 3 {
		return nil
	}
	var out []token
	for at := 0; at < len(s); {
		u, n := unit(s[at:])
		if n == 0 {
			return nil
		}
		u.pos, u.end, u.line = i+at, i+at+n, l
		if u.text == "" {
			u.text = s[at : at+n]
		}
		out = append(out, u)
		at += n
	}
	if len(out) < 2 && out[0].kind != kTorn {
		return nil
	}
	return out
}

var codes = [...]struct {
	code string
	path topology.PathKind
}{
	{"NODE", topology.PathNODE}, {"SYS", topology.PathSYS}, {"PIX", topology.PathPIX}, {"PXB", topology.PathPXB},
	{"PHB", topology.PathPHB}, {"SOC", topology.PathSYS}, {"X", topology.PathSelf},
}

// unit reads the longest unit at the start of s and returns its length, 0 if there is none.
func unit(s string) (token, int) {
	switch s[0] {
	case 'G', 'g':
		if len(s) > 3 && strings.EqualFold(s[:3], "GPU") {
			if v, n := number(s[3:]); n > 0 && v <= maxGPU {
				return token{kind: kGPU, val: v, text: gpuName(v)}, 3 + n
			}
		}
		if strings.HasPrefix(s, "GPU") { // of the title GPU NUMA ID
			return token{kind: kTitle}, 3
		}
	case 'm':
		if n := mlx(s); n > 0 {
			return token{kind: kNIC, text: s[:n]}, n
		}
	case 'C', 'A', 'I':
		for _, w := range [...]string{"CPU", "Affinity", "ID"} {
			if strings.HasPrefix(s, w) {
				return token{kind: kTitle}, len(w)
			}
		}
	case 'L':
		if strings.HasPrefix(s, "Legend") {
			if strings.HasPrefix(s, "Legend:") {
				return token{kind: kEnd}, 7
			}
			return token{kind: kEnd}, 6
		}
	case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '-':
		n := 1
		for n < len(s) && (s[n] >= '0' && s[n] <= '9' || s[n] == ',' || s[n] == '-') {
			n++
		}
		if strings.Trim(s[:n], "-,") == "" {
			return token{}, 0
		}
		return token{kind: kList}, n
	case 'N':
		return unitN(s)
	}
	for _, c := range codes {
		if strings.HasPrefix(s, c.code) {
			return token{kind: kCell, path: c.path}, len(c.code)
		}
	}
	return token{}, 0
}

// unitN reads the units that start with N.
func unitN(s string) (token, int) {
	switch {
	case strings.HasPrefix(s, "N/A"):
		return token{kind: kNA}, 3
	case strings.HasPrefix(s, "NUMA"):
		return token{kind: kTitle}, 4
	case strings.HasPrefix(s, "NODE"):
		return token{kind: kCell, path: topology.PathNODE}, 4
	case strings.HasPrefix(s, "NIC"):
		if _, n := number(s[3:]); n > 0 {
			return token{kind: kNIC, text: s[:3+n]}, 3 + n
		}
	case strings.HasPrefix(s, "NV"):
		v, n := number(s[2:])
		if n == 0 {
			return token{}, 0
		}
		end := 2 + n
		if v == 0 || v > maxCount || end < len(s) && (s[end] == '-' || s[end] == ',') {
			for end < len(s) && (s[end] >= '0' && s[end] <= '9' || s[end] == ',' || s[end] == '-') {
				end++
			}
			return token{kind: kTorn}, end
		}
		return token{kind: kCell, path: topology.PathNV, val: v}, end
	}
	return token{}, 0
}

// mlx returns the length of a name like mlx5_0, mlx5_bond_0 or mlx5_ib0 at the start of s.
func mlx(s string) int {
	if !strings.HasPrefix(s, "mlx") {
		return 0
	}
	_, n := number(s[3:])
	if n == 0 || 3+n >= len(s) || s[3+n] != '_' {
		return 0
	}
	i := 4 + n
	for i < len(s) && (s[i] >= 'a' && s[i] <= 'z' || s[i] == '_') {
		i++
	}
	if i < len(s) {
		if _, n := number(s[i:]); n > 0 {
			return i + n
		}
	}
	return 0
}

// number reads at most four digits at the start of s.
func number(s string) (v, n int) {
	for n < len(s) && n < 4 && s[n] >= '0' && s[n] <= '9' {
		v = v*10 + int(s[n]-'0')
		n++
	}
	return v, n
}

func alnum(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}

// joinGPU makes "GPU 0" one token, and marks words that "=" or ":" follows.
func joinGPU(toks []token, start int) []token {
	out := toks[:start]
	for i := start; i < len(toks); i++ {
		t := toks[i]
		if t.kind == kRule && t.colon && len(out) > start {
			out[len(out)-1].colon = true
			continue
		}
		if i+1 < len(toks) && strings.EqualFold(t.text, "GPU") {
			if n := toks[i+1]; n.kind == kList && n.sep == 0 && n.pos == t.end+1 {
				if v, w := number(n.text); w == len(n.text) && v <= maxGPU {
					t.kind, t.val, t.text, t.end, t.colon = kGPU, v, gpuName(v), n.end, n.colon
					i++
				}
			}
		}
		out = append(out, t)
	}
	return out
}

var gpuNames = func() (names [maxGPU + 1]string) {
	for i := range names {
		names[i] = "GPU" + strconv.Itoa(i)
	}
	return
}()

func gpuName(n int) string { return gpuNames[n] }
