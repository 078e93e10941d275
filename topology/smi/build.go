package smi

import (
	"slices"
	"strings"

	"rankmap/topology"
)

// machine is one table understood.
type machine struct {
	node    topology.NodeClass
	facts   []topology.Fact
	nvlink  bool // the table can show NVLink
	command string
	at      place // of its first row
}

// builder turns one table into a node.
type builder struct {
	*report
	t       *table
	lay     layout
	final   bool            // nothing follows the table: its last row may be torn
	columns map[string]int  // by device name
	names   []string        // of the columns
	gpus    []*row          // by GPU number
	rows    map[string]*row // by device name
}

// build understands one table. Problems go to the report; the machine is nil then.
func build(r *report, t *table, final bool) *machine {
	b := &builder{report: r, t: t, final: final, columns: map[string]int{}, rows: map[string]*row{}}
	had := len(r.errs)
	b.dropTorn()
	if len(t.gpuRows()) == 0 {
		r.fail(t.rows[0].name.place(), "no row of a GPU: the table starts at %s; give the rows of the GPUs too", t.rows[0].name.text)
		return nil
	}
	if !b.layOut() || !b.index() {
		return nil
	}
	m := &machine{command: t.command, at: t.rows[0].name.place()}
	b.fillGPUs(m)
	b.fillNICs(m)
	b.paths(m)
	b.affinity(m)
	b.flattened(m)
	b.visible(m)
	if len(r.errs) > had {
		return nil
	}
	return m
}

// dropTorn leaves out the last row of a text that was cut off in it. What it would have said of pairs stands in the
// columns of the other rows too, or is found missing there.
func (b *builder) dropTorn() {
	t := b.t
	last := &t.rows[len(t.rows)-1]
	if !b.final || len(t.rows) < 2 || last.odd != nil {
		return
	}
	want := 0
	for i := range t.rows[:len(t.rows)-1] {
		want = max(want, len(t.rows[i].cells))
	}
	if n := len(last.cells); n < want && len(last.tail) == 0 {
		b.warn(last.name.place(), "the text ends in the row of %s, which has %d of %d cells: the row is left out", last.name.text, n, want)
		t.rows = t.rows[:len(t.rows)-1]
		return
	}
	most := 0
	for _, r := range t.gpuRows() {
		most = max(most, len(r.tail))
	}
	last.torn = last.torn || last.name.kind == kGPU && len(last.tail) < most
}

// layOut finds out which device each cell of a row belongs to.
func (b *builder) layOut() bool {
	t := b.t
	w := t.width()
	if w > maxParts {
		b.fail(t.rows[0].name.place(), "rows of %d cells, want at most %d", w, maxParts)
		return false
	}
	b.lay = t.readHeader(w)
	n := len(b.lay.devices)
	gpus := t.gpuRows()
	switch {
	case n == w:
		for i := range b.lay.devices {
			b.names = append(b.names, b.lay.devices[i].text)
		}
	case n == w+1 && b.lay.exact && t.blankSelves():
		for i := range b.lay.devices {
			b.names = append(b.names, b.lay.devices[i].text)
		}
	case n < w && b.rowNames(w):
		if n > 0 {
			b.warn(t.header[0].place(), "the header names %d devices, the rows have %d cells: columns are taken in the order of the rows", n, w)
		} else {
			b.warn(t.rows[0].name.place(), "the header is missing: columns are taken in the order of the rows")
		}
	case n > w && w == len(gpus) && b.gpusFirst(w):
		b.warn(b.lay.devices[w].place(), "the rows have no cells for %s and what follows: how near they are is unknown", b.lay.devices[w].text)
	case n == 0:
		b.fail(t.rows[0].name.place(), "the header is missing, and %d rows do not name the %d columns: give the line with GPU0 GPU1 ... too", len(t.rows), w)
		return false
	default:
		b.widthProblem(n, w)
		return false
	}
	for i, name := range b.names {
		if _, dup := b.columns[name]; dup {
			b.fail(t.rows[0].name.place(), "the header names %s twice", name)
			return false
		}
		b.columns[name] = i
	}
	return true
}

// blankSelves says that no row of a GPU states its own cell.
func (t *table) blankSelves() bool {
	for _, r := range t.gpuRows() {
		for i := range r.cells {
			if self(&r.cells[i]) {
				return false
			}
		}
	}
	return true
}

// rowNames takes the row names for columns if the Xs stand on the diagonal.
func (b *builder) rowNames(w int) bool {
	t := b.t
	if len(t.rows) != w && !(len(b.lay.devices) == 0 && b.legendNames(w)) {
		return false
	}
	for i := range t.rows {
		r := &t.rows[i]
		if len(r.cells) != w || !self(&r.cells[i]) {
			b.names = nil
			return false
		}
		if i >= len(b.names) {
			b.names = append(b.names, r.name.text)
		}
	}
	return len(b.names) == w
}

// legendNames names the columns of a table without header and without rows of NICs by the legend of the NICs.
func (b *builder) legendNames(w int) bool {
	t := b.t
	n := w - len(t.rows)
	if n <= 0 || len(t.nicNames) != n || len(t.gpuRows()) != len(t.rows) {
		return false
	}
	for i := range t.rows {
		b.names = append(b.names, t.rows[i].name.text)
	}
	for i := range n {
		name := "NIC" + gpuName(min(i, maxGPU))[3:]
		if _, ok := t.nicNames[name]; !ok {
			b.names = nil
			return false
		}
		b.names = append(b.names, name)
	}
	return true
}

// gpusFirst takes the GPU columns alone when the rows have no more cells.
func (b *builder) gpusFirst(w int) bool {
	for i := range w {
		if b.lay.devices[i].kind != kGPU {
			return false
		}
	}
	if b.lay.devices[w].kind == kGPU {
		return false
	}
	for i := range w {
		b.names = append(b.names, b.lay.devices[i].text)
	}
	return true
}

// widthProblem says which row does not fit the header.
func (b *builder) widthProblem(n, w int) {
	for _, r := range b.t.gpuRows() {
		if len(r.cells) != n {
			b.rowProblem(r, n)
			return
		}
	}
	b.fail(b.t.header[0].place(), "the header names %d devices, the rows have %d cells", n, w)
}

// rowProblem explains why a row does not have the n cells it should.
func (b *builder) rowProblem(r *row, n int) {
	at, end := r.name.place(), r.name.line.place(r.name.end)
	if k := len(r.cells); k > 0 {
		end = r.cells[k-1].line.place(r.cells[k-1].end)
	}
	if r.odd != nil && len(r.cells) < n {
		b.fail(r.odd.place(), "row %s: unknown code %q (known: X, NV1 to NV%d, PIX, PXB, PHB, NODE, SYS, SOC)", r.name.text, clip(r.odd.text), maxCount)
		return
	}
	if len(r.cells) < n {
		b.fail(end, "row %s has %d cells, the header names %d devices: cells are missing", r.name.text, len(r.cells), n)
		return
	}
	b.fail(at, "row %s has %d cells, the header names %d devices", r.name.text, len(r.cells), n)
}

func clip(s string) string {
	if len(s) > 20 {
		return s[:20] + "..."
	}
	return s
}

// index checks the rows against the columns and finds the GPUs and NICs.
func (b *builder) index() bool {
	t, w := b.t, len(b.names)
	ok := true
	for i := range t.rows {
		r := &t.rows[i]
		_, isColumn := b.columns[r.name.text]
		switch {
		case r.name.kind == kGPU && !isColumn:
			b.fail(r.name.place(), "row %s has no column", r.name.text)
			ok = false
			continue
		case len(r.cells) == w-1 && isColumn && b.blankSelf(r):
		case len(r.cells) != w && r.name.kind == kGPU:
			b.rowProblem(r, w)
			ok = false
			continue
		case len(r.cells) != w && isColumn && r.odd == nil && len(r.cells) < w:
			b.warn(r.name.place(), "row %s has %d of %d cells: it is left out, its column says the same", r.name.text, len(r.cells), w)
			continue
		case len(r.cells) != w:
			b.rowProblem(r, w)
			ok = false
			continue
		}
		ok = b.checkSelf(r) && ok
		b.rows[r.name.text] = r
		if r.name.kind == kGPU {
			b.gpus = append(b.gpus, r)
		}
	}
	b.missingRows()
	slices.SortFunc(b.gpus, func(x, y *row) int { return x.name.val - y.name.val })
	return ok
}

// blankSelf fills in the X of a row whose own cell is blank, if tabs or bars show the place.
func (b *builder) blankSelf(r *row) bool {
	own := b.columns[r.name.text]
	if !b.lay.exact || r.wraps > 0 {
		return false
	}
	at := -1
	for i := range r.cells {
		if self(&r.cells[i]) {
			return false
		}
		at += r.cells[i].sep
		want := i
		if i >= own {
			want = i + 1
		}
		if at != want {
			return false
		}
	}
	x := token{kind: kCell, path: topology.PathSelf, text: "X", pos: r.name.pos, end: r.name.end, line: r.name.line, sep: 1}
	r.cells = slices.Insert(slices.Clone(r.cells), own, x)
	switch {
	case own+1 < len(r.cells):
		r.cells[own+1].sep--
	case len(r.tail) > 0:
		r.tail = slices.Clone(r.tail)
		r.tail[0].sep--
	default:
		r.seps--
	}
	return true
}

// checkSelf says that X stands in the row's own column and nowhere else, and that no cell is torn.
func (b *builder) checkSelf(r *row) bool {
	own, isColumn := b.columns[r.name.text]
	for i := range r.cells {
		c := &r.cells[i]
		switch {
		case c.kind == kTorn:
			b.fail(c.place(), "%q is two cells that ran together, and where the first one ends is lost", clip(c.word()))
			return false
		case self(c) && (!isColumn || i != own):
			b.fail(c.place(), "row %s: X stands in the column of %s: cells are shifted", r.name.text, b.names[i])
			return false
		case !self(c) && isColumn && i == own:
			b.fail(c.place(), "row %s: %s stands in its own column, want X: cells are shifted", r.name.text, clip(c.word()))
			return false
		}
	}
	return true
}

// missingRows notes GPUs that have a column and no row. Their pairs must be known from the rows of the others.
func (b *builder) missingRows() {
	var missing []string
	for i, name := range b.names {
		if !strings.HasPrefix(name, "GPU") {
			continue
		}
		if _, ok := b.rows[name]; !ok {
			missing = append(missing, b.names[i])
		}
	}
	at := b.t.rows[len(b.t.rows)-1].name.place()
	switch {
	case len(missing) == 1:
		b.warn(at, "the row of %s is missing: its pairs are read from its column, its affinity is unknown", missing[0])
		for i := range b.lay.devices {
			if d := b.lay.devices[i]; d.text == missing[0] {
				b.gpus = append(b.gpus, &row{name: d})
			}
		}
	case len(missing) > 1:
		b.fail(at, "the rows of %s are missing: what joins them is not stated", strings.Join(missing, ", "))
	}
}
