package smi

import (
	"errors"
	"io"
	"strings"

	"rankmap/topology"
)

// Result is what one text says.
type Result struct {
	// Nodes are the hosts of the text, in its order; mostly one. Name is the host where a prompt, an ssh line or the
	// prefix of the lines states it, else empty. GPU models are never stated; Wiring is NVLinkUnknown where the table
	// cannot show NVLink, else left for Cluster.Finish.
	Nodes []topology.NodeClass
	// NVLinkVisible is false where the table cannot show NVLink (topo -mp): no NV# then says nothing.
	NVLinkVisible bool
	// NVLinks is what "nvlink -s" said in the same text, already merged into the node; nil when it does not occur.
	NVLinks  *LinkStatus
	Facts    []topology.Fact
	Warnings []Warning
}

// Read reads the text of "nvidia-smi topo -m" or "topo -mp", as printed or as pasted. name is the file's, for messages.
//
// Two tables of one host are two moments: the first is read and a warning tells of the other. Tables of hosts with
// different names are several nodes. Errors are *Error values, joined, at most 20, each with line and column; one whose
// Foreign is set says that the text is something else altogether. Deterministic; time and memory are linear in the text.
func Read(r io.Reader, name string) (*Result, error) {
	text, err := readText(r, name)
	if err != nil {
		return nil, err
	}
	p := prepare(text, name)
	// Lines cut at a fixed width, perhaps inside words, are glued first: read as they are, a word cut in two could pass.
	if glued := p.unwrap(); glued != nil {
		if res, err := p.read(glued); err == nil {
			return res, nil
		}
	}
	return p.read(p.lines)
}

// prepared is a text in clean lines.
type prepared struct {
	name  string
	text  string
	raw   []string
	lines []line
}

func prepare(text, name string) *prepared {
	p := &prepared{name: name, text: text, raw: splitLines(text)}
	c := cleaner{csv: csvSeparator(text)}
	for _, mark := range [...]string{`\tGPU`, `GPU0\t`, `\nGPU`, `\n|`} {
		c.literal = c.literal || strings.Contains(text, mark)
	}
	p.lines = make([]line, 0, len(p.raw))
	for i, raw := range p.raw {
		at := place{i + 1, 0}
		for c.literal {
			head, rest, ok := strings.Cut(raw, `\n`)
			if !ok {
				break
			}
			p.lines = append(p.lines, c.clean(strings.TrimSuffix(head, `\r`), at))
			at.off += len(head) + 2
			raw = rest
		}
		p.lines = append(p.lines, c.clean(raw, at))
	}
	return p
}

// csvSeparator returns the separator of a comma-separated copy of the table, 0 if the text is none.
func csvSeparator(text string) byte {
	for _, first := range [...]string{"GPU0", `"GPU0"`} {
		for rest := text; ; {
			i := strings.Index(rest, first)
			if i < 0 {
				break
			}
			rest = rest[i+len(first):]
			if rest != "" && (rest[0] == ',' || rest[0] == ';') {
				next := strings.TrimLeft(rest[1:], ` "`)
				if strings.HasPrefix(next, "GPU1") || strings.HasPrefix(next, "X") || strings.HasPrefix(next, "CPU") {
					return rest[0]
				}
			}
		}
	}
	return 0
}

// read reads the tables of the given lines.
func (p *prepared) read(lines []line) (*Result, error) {
	rep := &report{file: p.name, lines: p.raw}
	s := scan(rep, lines, true)
	tables, p2p := real(s.tables)
	if len(tables) == 0 {
		return nil, p.refuse(p2p)
	}
	tables[0].take(s.early)
	var ms []*machine
	for i, t := range tables {
		if m := build(rep, t, i == len(tables)-1 && s.last != nil && s.last == &t.rows[len(t.rows)-1]); m != nil {
			t.nameHost(&m.node)
			ms = append(ms, m)
		}
		if len(rep.errs) > 0 && i == 0 {
			break // what stands behind a broken table does not mend it
		}
	}
	if err := rep.err(); err != nil {
		if f := foreignText(p.text); f != nil {
			f.File = p.name
			return nil, f
		}
		return nil, err
	}
	res := combine(rep, tables, ms)
	p.addStatus(rep, res)
	res.Warnings = rep.warnings()
	return res, nil
}

// real leaves out tables of topo -p2p and stray rows that are none, and returns the first table of topo -p2p.
func real(all []*table) (tables []*table, p2p *table) {
	for _, t := range all {
		switch {
		case t.p2p:
			if p2p == nil {
				p2p = t
			}
		case len(t.header) == 0 && len(t.rows) == 1 && len(t.rows[0].cells) < 2, t.prose():
		case t.command == "-p2p" && p2p == nil:
			p2p = t
		case t.command == "-p2p":
		default:
			tables = append(tables, t)
		}
	}
	return tables, p2p
}

// prose says that no row bears the name of a GPU or a NIC: words before a code, in a log.
func (t *table) prose() bool {
	for i := range t.rows {
		if k := t.rows[i].name.kind; k == kGPU || k == kNIC {
			return false
		}
	}
	return true
}

// take adds what stood before the first table.
func (t *table) take(m mentions) {
	if t.nicNames == nil {
		t.nicNames = m.nicNames
	}
	if t.legend == 0 {
		t.legend, t.nvLine = m.legend, t.nvLine || m.nvLine
	}
}

// nameHost names the node if the text does.
func (t *table) nameHost(n *topology.NodeClass) {
	if n.Name = keyHost(t.key); n.Name == "" {
		n.Name = t.host
	}
}

// addStatus reads "nvlink -s" of the same text into the node.
func (p *prepared) addStatus(rep *report, res *Result) {
	if !strings.Contains(p.text, "UUID:") && !strings.Contains(p.text, "Link 0:") {
		return
	}
	sub := &report{file: p.name, lines: p.raw}
	st := readStatus(sub, p.lines)
	if st == nil || len(sub.errs) > 0 || len(st.GPUs) == 0 {
		return
	}
	rep.warns = append(rep.warns, sub.warns...)
	if len(res.Nodes) != 1 {
		return
	}
	res.NVLinks = st
	rep.warns = append(rep.warns, st.Merge(&res.Nodes[0])...)
	res.Facts = append(res.Facts, st.facts(nodeLabel(&res.Nodes[0], 0))...)
}

// IsForeign returns what a text is that Read or ReadNVLinkStatus refused as not theirs, "" for a damaged one.
func IsForeign(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Foreign
	}
	return ""
}
