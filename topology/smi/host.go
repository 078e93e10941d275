package smi

import "strings"

// topoOption returns which table "topo ..." asks for: "-m", "-mp", "-p2p", or "" when the text is no such command.
func topoOption(s string) string {
	s, ok := strings.CutPrefix(s, "topo")
	if !ok {
		return ""
	}
	s = strings.TrimLeft(s, " \t")
	s = strings.TrimRight(firstWord(s), "`'\":.,;)|&>")
	switch s {
	case "-m", "--matrix":
		return "-m"
	case "-mp", "--matrix_pci", "--matrix-pci":
		return "-mp"
	case "-p2p", "--p2pstatus":
		return "-p2p"
	}
	return ""
}

func firstWord(s string) string {
	if i := strings.IndexAny(s, " \t"); i >= 0 {
		return s[:i]
	}
	return s
}

// promptHost returns the host of a shell prompt, "user@host:~$" or "[user@host dir]#". An address in a mail has no
// prompt sign behind it.
func promptHost(s string) string {
	at := strings.IndexByte(s, '@')
	if at <= 0 || !nameByte(s[at-1]) {
		return ""
	}
	end := at + 1
	for end < len(s) && nameByte(s[end]) {
		end++
	}
	host := s[at+1 : end]
	if !hostName(host) || end == len(s) || !strings.ContainsRune(": ]~$#%>", rune(s[end])) {
		return ""
	}
	rest := s[end:]
	if i := strings.IndexAny(rest, "$#%>"); i < 0 || strings.Contains(rest[:i], "nvidia-smi") || i > 64 {
		return ""
	}
	return host
}

// sshHost returns the host of a line that is an ssh command.
func sshHost(s string) string {
	s = strings.TrimLeft(s, " \t$>+#")
	s, ok := strings.CutPrefix(s, "ssh ")
	if !ok {
		return ""
	}
	for _, w := range strings.Fields(s) {
		if strings.HasPrefix(w, "-") {
			continue
		}
		if i := strings.IndexByte(w, '@'); i >= 0 {
			w = w[i+1:]
		}
		if hostName(w) {
			return w
		}
		return ""
	}
	return ""
}

func nameByte(b byte) bool { return alnum(b) && b < 0x80 || b == '-' || b == '.' || b == '_' }

func hostName(s string) bool {
	if s == "" || len(s) > 253 || !alnum(s[0]) {
		return false
	}
	letter := false
	for i := 0; i < len(s); i++ {
		if !nameByte(s[i]) {
			return false
		}
		letter = letter || s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z'
	}
	return letter
}

// heading returns a word with a letter and a digit that stands alone in a line, but for decoration: "=== node01 ===",
// "node01:", "node01 | CHANGED | rc=0 >>", "Host: node01". It tells apart several tables of one text.
func heading(s string) string {
	if i := strings.Index(s, " | "); i > 0 && strings.Contains(s, "rc=") {
		s = s[:i]
	}
	s = strings.Trim(s, " \t=-*_~+:[]<>.")
	for _, w := range [...]string{"host:", "hostname:", "node:", "server:", "on ", "host ", "node "} {
		if len(s) > len(w) && strings.EqualFold(s[:len(w)], w) {
			s = strings.TrimSpace(s[len(w):])
			break
		}
	}
	if i, j := strings.IndexByte(s, '['), strings.LastIndexByte(s, '('); 0 < i && i < j && strings.HasSuffix(s, ")") { // clush -b: "node[01-02] (2)"
		s = strings.TrimSpace(s[:j])
	}
	if !hostName(strings.NewReplacer("[", "", "]", "", ",", "").Replace(s)) || !strings.ContainsAny(s, "0123456789") {
		return ""
	}
	return s
}

// prefixKey returns the name that a log collector put before each line: "node1:" of "node1: GPU0 ...". The tokens before
// the first name are given.
func (s *scanner) prefixKey(l *line, pos int, before []token) string {
	if !s.keyed || len(before) == 0 || pos <= l.cut {
		return ""
	}
	p := strings.TrimRight(l.text[:pos], " \t#>*")
	n := len(p) - 1
	if n < 1 || p[n] != ':' && p[n] != ']' && (p[n] != '|' || strings.Count(l.text, "|") > 1) {
		return ""
	}
	// grep -n: the number of the line is no name.
	if q := strings.TrimRight(strings.TrimRight(p, ":"), "0123456789"); strings.HasSuffix(q, ":") {
		p = q
	}
	return strings.TrimSpace(p)
}

// keyHost returns the host that a key names: pdsh and clush write "node1:".
func keyHost(key string) string {
	h := strings.Trim(key, "[]:| \t")
	if !hostName(h) || strings.ContainsAny(h, "./") && !strings.ContainsAny(h, "0123456789") {
		return ""
	}
	for _, ext := range [...]string{".txt", ".log", ".md", ".out", ".rst", ".err"} {
		if strings.HasSuffix(h, ext) {
			return ""
		}
	}
	return h
}
