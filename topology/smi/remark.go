package smi

import "strings"

// remark reads what stands around the tables: commands, prompts, headings, legends.
func (s *scanner) remark(l *line, toks []token) {
	text := l.text[l.cut:]
	if i := strings.Index(l.text, "topo"); i >= 0 {
		if c := topoOption(l.text[i:]); c != "" {
			s.closeAll()
			clear(s.headers)
			s.command = c
			if h := promptHost(l.text); h != "" {
				s.host = h
			}
			return
		}
	}
	if h := promptHost(l.text); h != "" {
		s.closeAll()
		s.host = h
		return
	}
	if h := sshHost(text); h != "" {
		s.closeAll()
		s.host = h
		return
	}
	m := &s.early
	if len(s.tables) > 0 && len(s.headers) == 0 {
		m = &s.tables[len(s.tables)-1].mentions
	}
	if toks[0].kind == kEnd || len(toks) > 1 && toks[1].kind == kEnd {
		s.closeAll()
	}
	m.read(toks)
	if h := heading(text); h != "" {
		s.closeAll()
		s.title = h
	}
}

// read takes the names of NICs and the explanation of codes from one line.
func (m *mentions) read(toks []token) {
	for i := range toks {
		t := &toks[i]
		switch {
		case t.kind == kNIC && strings.HasPrefix(t.text, "NIC"):
			m.nic(toks, i)
		case t.colon && strings.HasPrefix(t.text, "NV") && (t.kind == kCell || t.kind == kWord):
			m.nvLine = true
			m.legend++
		case t.colon && t.kind == kCell:
			m.legend++
		}
	}
	if !m.nvLine {
		for i := range toks {
			if toks[i].kind == kWord && strings.HasPrefix(toks[i].text, "NV#") {
				m.nvLine = true
			}
		}
	}
}

// nic reads "NIC0: mlx5_0", "NIC0=mlx5_0 (NUMA 0)" and "| NIC0 | mlx5_0 |".
func (m *mentions) nic(toks []token, i int) {
	t := &toks[i]
	var name string
	at := i + 1
	switch {
	case at < len(toks) && (t.colon || len(toks) == 2 || toks[at].text == "->"):
		if toks[at].text == "->" {
			at++
		}
		if at == len(toks) {
			return
		}
		name = toks[at].text
	default:
		return
	}
	name = strings.Trim(name, ",.;()")
	if j := strings.IndexByte(name, '/'); j > 0 {
		name = name[:j]
	}
	if !deviceName(name) || !t.colon && !strings.ContainsAny(name, "0123456789") {
		return
	}
	d := nicName{device: name, numa: -1, at: toks[at].place()}
	if at+2 < len(toks) && strings.EqualFold(toks[at+1].text, "(NUMA") {
		if v, n := number(toks[at+2].text); n > 0 {
			d.numa = v
		}
	}
	if m.nicNames == nil {
		m.nicNames = map[string]nicName{}
	}
	if _, ok := m.nicNames[t.text]; !ok {
		m.nicNames[t.text] = d
	}
}

// deviceName says that a word can be the name of an RDMA device.
func deviceName(s string) bool {
	letter := false
	for i := 0; i < len(s); i++ {
		switch b := s[i]; {
		case b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z':
			letter = true
		case b >= '0' && b <= '9' || b == '_' || b == '-' || b == '.':
		default:
			return false
		}
	}
	return letter && len(s) <= 64 && alnum(s[len(s)-1])
}
