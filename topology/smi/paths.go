package smi

import (
	"slices"
	"strconv"
	"strings"

	"rankmap/topology"
)

// cell returns what row a says of b, or nil.
func (b *builder) cell(a, c string) *token {
	r, ok := b.rows[a]
	if !ok {
		return nil
	}
	col, ok := b.columns[c]
	if !ok {
		return nil
	}
	return &r.cells[col]
}

// pair returns the one cell for a pair: both of its cells must agree. nil means that none states it; problems are
// reported.
func (b *builder) pair(x, y string, lopsided bool) *token {
	there, back := b.cell(x, y), b.cell(y, x)
	switch {
	case there == nil:
		return back
	case back == nil:
		return there
	case there.path != back.path || there.val != back.val && !lopsided:
		line, col := b.where(there.place())
		b.fail(back.place(), "%s to %s is %s, but %s to %s is %s at %d:%d: which is right is not stated", y, x, back.word(), x, y, there.word(), line, col)
		return nil
	case back.val < there.val:
		return back
	}
	return there
}

// ownCounts says that the NVLink counts differ between the two cells of a pair only as they do where every GPU states
// its own links to the switches: each row holds one count. The smaller one joins the pair.
func (b *builder) ownCounts() bool {
	if len(b.gpus) < 3 {
		return false
	}
	for _, r := range b.gpus {
		n := 0
		for i := range r.cells {
			c := &r.cells[i]
			if self(c) || !strings.HasPrefix(b.names[i], "GPU") {
				continue
			}
			if c.path != topology.PathNV || n != 0 && c.val != n {
				return false
			}
			n = c.val
		}
	}
	return true
}

// fillGPUs lists the GPUs by number.
func (b *builder) fillGPUs(m *machine) {
	m.node.GPUs = make([]topology.GPU, len(b.gpus))
	for i, r := range b.gpus {
		m.node.GPUs[i] = topology.GPU{Index: r.name.val, NUMA: -1, GPUNUMA: -1}
	}
}

// fillNICs lists the NICs in the order of the columns, then those that have rows only.
func (b *builder) fillNICs(m *machine) {
	for i := range b.names {
		if name := b.names[i]; !isGPUName(name) {
			at := b.t.rows[0].name.place()
			if i < len(b.lay.devices) {
				at = b.lay.devices[i].place()
			} else if r, ok := b.rows[name]; ok {
				at = r.name.place()
			}
			b.addNIC(m, name, at)
		}
	}
	for i := len(b.names); i < len(b.lay.devices); i++ { // columns without cells
		if d := &b.lay.devices[i]; d.kind == kNIC {
			b.addNIC(m, d.text, d.place())
		}
	}
	for i := range b.t.rows {
		r := &b.t.rows[i]
		if _, isColumn := b.columns[r.name.text]; !isColumn && r.name.kind != kGPU && !m.hasNIC(r.name.text) {
			b.addNIC(m, r.name.text, r.name.place())
		}
	}
	b.unlisted(m)
}

func (m *machine) hasNIC(name string) bool {
	for i := range m.node.NICs {
		if m.node.NICs[i].Name == name {
			return true
		}
	}
	return false
}

// unlisted warns of NICs that the legend names and the table does not.
func (b *builder) unlisted(m *machine) {
	var lost []string
	for name := range b.t.nicNames {
		if !m.hasNIC(name) {
			lost = append(lost, name)
		}
	}
	if len(lost) > 0 {
		slices.SortFunc(lost, topology.CompareNames)
		b.warn(b.t.nicNames[lost[0]].at, "the legend names %s, which have neither row nor column: they are left out", strings.Join(lost, ", "))
	}
}

func isGPUName(s string) bool {
	n, ok := strings.CutPrefix(s, "GPU")
	return ok && n != "" && strings.Trim(n, "0123456789") == ""
}

func (b *builder) addNIC(m *machine, name string, at place) {
	n := topology.NIC{Index: len(m.node.NICs), Name: name, NUMA: -1, Rail: -1}
	if legend, ok := b.t.nicNames[name]; ok {
		n.Device, n.NUMA = legend.device, legend.numa
		b.fact(m, name+" device", n.Device, legend.at)
		if n.NUMA >= 0 {
			b.fact(m, name+" NUMA", strconv.Itoa(n.NUMA), legend.at)
		}
	} else if !strings.HasPrefix(name, "NIC") {
		n.Device = name
		b.fact(m, name+" device", name, at)
	}
	m.node.NICs = append(m.node.NICs, n)
}

// paths fills the matrices and the NVLinks.
func (b *builder) paths(m *machine) {
	n := len(b.gpus)
	own := b.ownCounts()
	uneven := false
	m.node.GPUPaths = matrix(n, n)
	for i, r := range b.gpus {
		x := r.name.text
		m.node.GPUPaths[i][i] = topology.PathSelf
		for j := i + 1; j < n; j++ {
			y := b.gpus[j].name.text
			errs := len(b.errs)
			c := b.pair(x, y, own)
			if c == nil {
				if errs == len(b.errs) {
					b.fail(r.name.place(), "what joins %s and %s is not stated", x, y)
				}
				continue
			}
			m.node.GPUPaths[i][j], m.node.GPUPaths[j][i] = c.path, c.path
			if c.path == topology.PathNV {
				m.node.NVLinks = append(m.node.NVLinks, topology.NVLink{A: i, B: j, Count: c.val})
			}
			if there, back := b.cell(x, y), b.cell(y, x); there != nil && back != nil && there.val != back.val && !uneven {
				uneven = true
				b.warn(back.place(), "%s to %s is %s, but %s to %s is %s: each row states the links of its own GPU; the smaller count joins a pair", y, x, back.word(), x, y, there.word())
			}
		}
	}
	m.node.NICPaths = matrix(n, len(m.node.NICs))
	for i, r := range b.gpus {
		for j := range m.node.NICs {
			if c := b.pair(r.name.text, m.node.NICs[j].Name, false); c != nil {
				if c.path == topology.PathNV {
					b.fail(c.place(), "%s to %s is %s: NVLink joins no NIC, cells are shifted", r.name.text, m.node.NICs[j].Name, c.word())
				}
				m.node.NICPaths[i][j] = c.path
			}
		}
	}
	for i := range m.node.NICs {
		for j := i + 1; j < len(m.node.NICs); j++ {
			b.pair(m.node.NICs[i].Name, m.node.NICs[j].Name, false) // not kept, but damage shows here too
		}
	}
	for i := range b.t.rows {
		r := &b.t.rows[i]
		if k := len(r.cells); k > 0 && b.rows[r.name.text] == r {
			b.fact(m, r.name.text+" paths", cellText(r.cells), r.name.place())
		}
	}
}

func cellText(cells []token) string {
	var s strings.Builder
	for i := range cells {
		if i > 0 {
			s.WriteByte(' ')
		}
		s.WriteString(cells[i].word())
	}
	return s.String()
}

func matrix(rows, cols int) [][]topology.PathKind {
	all := make([]topology.PathKind, rows*cols)
	m := make([][]topology.PathKind, rows)
	for i := range m {
		m[i] = all[i*cols : (i+1)*cols : (i+1)*cols]
	}
	return m
}

// affinity reads the affinity columns of every GPU row.
func (b *builder) affinity(m *machine) {
	b.lay.survey(b.t)
	var bad *token // a CPU list that lost characters
	open, extra := false, false
	for i, r := range b.gpus {
		if len(r.cells) == 0 {
			continue
		}
		a := b.lay.affinities(r)
		g := &m.node.GPUs[i]
		if a.open && !open {
			open = true
			at := r.name.place()
			if len(r.tail) > 0 {
				at = r.tail[0].place()
			}
			b.warn(at, "the affinity columns of %s cannot be told apart (an empty cell left no trace): they stay unknown; paste the text with its tabs", r.name.text)
		}
		if a.extra != nil && !extra {
			extra = true
			b.warn(a.extra.place(), "%q stands behind the last title: it is not read", clip(a.extra.word()))
		}
		if t := a.cpu; t != nil && t.kind == kList {
			if cpuList(t.text) {
				g.CPUAffinity = t.text
				b.fact(m, r.name.text+" CPU affinity", t.text, t.place())
			} else if bad == nil {
				bad = t
			}
		}
		if t := a.numa; t != nil {
			b.numa(m, r, g, t)
		}
		if t := a.gpuNUMA; t != nil && t.kind == kList {
			if v, n := number(t.text); n == len(t.text) {
				g.GPUNUMA = v
				b.fact(m, r.name.text+" GPU NUMA ID", t.text, t.place())
			}
		}
	}
	switch {
	case b.lay.titled && b.unknownTitle():
	case len(b.lay.before)+len(b.lay.after) == 0 && b.lay.titled && !open:
		b.warn(b.t.header[0].place(), "no affinity columns: CPUs and NUMA nodes of the GPUs stay unknown")
	case !open:
		b.emptyColumns(m)
	}
	if bad != nil {
		for i := range m.node.GPUs {
			m.node.GPUs[i].CPUAffinity = ""
		}
		m.dropFacts(" CPU affinity")
		b.warn(bad.place(), "%q is no list of CPUs: the column lost characters and is not read", clip(bad.text))
	}
}

// unknownTitle warns of a title that names no column known.
func (b *builder) unknownTitle() bool {
	for _, c := range b.lay.after {
		if c.what == otherColumn {
			b.warn(c.first.place(), "the title %q is not known (known: CPU Affinity, NUMA Affinity, GPU NUMA ID): what stands under it is not read", clip(c.name))
			return true
		}
	}
	return false
}

// emptyColumns warns of titles under which no row has a value: cells may have been lost.
func (b *builder) emptyColumns(m *machine) {
	for _, c := range append(b.lay.before[:len(b.lay.before):len(b.lay.before)], b.lay.after...) {
		empty := c.what == cpuColumn || c.what == numaColumn
		for i := range m.node.GPUs {
			g := &m.node.GPUs[i]
			empty = empty && (c.what != cpuColumn || g.CPUAffinity == "") && (c.what != numaColumn || g.NUMA < 0 && g.NUMARange == "")
		}
		if empty {
			b.warn(c.first.place(), "no GPU has a value under %s", c.name)
		}
	}
}

func (b *builder) numa(m *machine, r *row, g *topology.GPU, t *token) {
	v, n := number(t.text)
	switch {
	case t.kind == kNA:
		g.NUMARange = "N/A"
	case n == len(t.text):
		g.NUMA = v
	case cpuList(t.text):
		g.NUMARange = t.text
	default:
		b.warn(t.place(), "%q is no NUMA node: it stays unknown", clip(t.text))
		return
	}
	b.fact(m, r.name.text+" NUMA", t.word(), t.place())
}

// flattened notices a virtual machine: two GPUs of one NUMA node with the same CPUs cannot be joined over the link
// between NUMA nodes. The cells stay as they are; the node is marked.
func (b *builder) flattened(m *machine) {
	for i := range m.node.GPUs {
		for j := range i {
			x, y := &m.node.GPUs[i], &m.node.GPUs[j]
			if m.node.GPUPaths[i][j] == topology.PathSYS && x.NUMA >= 0 && x.NUMA == y.NUMA && x.CPUAffinity != "" && x.CPUAffinity == y.CPUAffinity {
				m.node.Virtual = true
				b.warn(b.gpus[i].name.place(), "GPU%d and GPU%d are SYS inside NUMA node %d: a virtual machine hides the PCIe tree, the distances are unknown", y.Index, x.Index, x.NUMA)
				return
			}
		}
	}
}

// visible decides whether the table can show NVLink. "topo -mp" cannot, and its legend explains no NV#.
func (b *builder) visible(m *machine) {
	m.nvlink = true
	if len(m.node.NVLinks) > 0 {
		return
	}
	t := b.t
	const shortLegend = 4 // codes explained: enough to see that NV# is not among them
	switch {
	case t.command == "-mp":
		b.warn(m.at, "topo -mp does not show NVLink: whether there is any is unknown; give topo -m for it")
	case t.command == "" && !t.nvLine && t.legend >= shortLegend && len(m.node.GPUs) > 1:
		b.warn(m.at, "the legend does not explain NV#, as topo -mp prints it: whether there is NVLink is unknown; give topo -m for it")
	default:
		return
	}
	m.nvlink = false
	m.node.Wiring = topology.NVLinkUnknown
}
