package smi

import (
	"slices"
	"strings"
)

// column is one affinity column.
type column struct {
	what  what
	name  string
	first *token
	last  *token
	rel   int // separators from the first device column; columns in front are negative
}

type what uint8

const (
	otherColumn what = iota
	cpuColumn
	numaColumn
	gpuNUMAColumn
)

// layout is what a header says: the devices, one a cell, and the affinity columns before and after.
type layout struct {
	devices []token
	exact   bool // every device column is one tab or bar from the next
	before  []column
	after   []column
	titled  bool // there is a header, so that after is the truth even when empty
	values  int  // the most values that a row of a GPU has behind its cells
	tabs    bool // one tab or bar stands before every cell of every row: an empty cell shows
	raw     bool // values behind the last title stand where the tool prints GPU NUMA ID
}

// gpuRows are the rows of GPUs.
func (t *table) gpuRows() []*row {
	var out []*row
	for i := range t.rows {
		if t.rows[i].name.kind == kGPU {
			out = append(out, &t.rows[i])
		}
	}
	return out
}

// width is the number of cells that most GPU rows have; the larger one when two are as frequent.
func (t *table) width() int {
	counts := map[int]int{}
	best := 0
	for _, r := range t.gpuRows() {
		n := len(r.cells)
		counts[n]++
		if counts[n] > counts[best] || counts[n] == counts[best] && n > best {
			best = n
		}
	}
	return best
}

// readHeader splits the header into devices and affinity columns, knowing from the rows how many devices there are.
func (t *table) readHeader(width int) layout {
	h := t.header
	at := slices.IndexFunc(h, func(k token) bool { return k.kind == kGPU })
	if at < 0 {
		return layout{}
	}
	l := layout{titled: true}
	rel := 0
	for i := at - 1; i >= 0; i-- {
		rel -= h[i+1].sep
	}
	l.before = titles(h[:at], rel)
	l.before = slices.DeleteFunc(l.before, func(c column) bool { return c.what == otherColumn })
	end := at
	for end < len(h) && end-at < width && t.deviceTitle(h, end) {
		end++
	}
	// More names than the rows have cells: leave them to the caller.
	for end < len(h) && (h[end].kind == kGPU || h[end].kind == kNIC) {
		end++
	}
	l.devices = h[at:end]
	l.exact = true
	for i := range l.devices[1:] {
		l.exact = l.exact && l.devices[i+1].sep == 1
	}
	rel = 0
	for i := at + 1; i <= end && i < len(h); i++ {
		rel += h[i].sep
	}
	if end < len(h) {
		l.after = titles(h[end:], rel)
	}
	return l
}

// survey looks at all rows for what a single one does not show.
func (l *layout) survey(t *table) {
	l.tabs, l.raw = true, true
	for i := range t.rows {
		l.tabs = l.tabs && t.rows[i].exact()
	}
	for _, r := range t.gpuRows() {
		n := len(r.tail) - count(r.tail, kTitle)
		l.values = max(l.values, n)
		if n > len(l.after) {
			slots, _ := l.slots(r, r.values())
			l.raw = l.raw && len(slots) == n && slots[n-1] == rawGPUNUMA // fewer: a title stands between the values
		}
	}
}

// deviceTitle says that the title at i names a device and not an affinity column. Devices are numbered; a name without a
// number, which may be the rest of a torn one, counts if a row bears it.
func (t *table) deviceTitle(h []token, i int) bool {
	switch k := &h[i]; k.kind {
	case kGPU, kNIC:
		return true
	case kWord:
		return !startsTitle(h, i) && !k.colon && (strings.ContainsAny(k.text, "0123456789") || t.has(k.text))
	}
	return false
}

// startsTitle says that an affinity column's title starts at i.
func startsTitle(h []token, i int) bool {
	return titleOf(h, i) != otherColumn
}

// titleOf tells by its first word what column a title names. Titles are retyped and translated: "CPU Affinity",
// "CPU", "CPUs", "NUMA node".
func titleOf(h []token, i int) what {
	s := strings.ToUpper(h[i].text)
	if h[i].kind == kTitle {
		s = strings.ToUpper(h[i].line.text[h[i].pos:h[i].end])
	}
	switch {
	case s == "GPU" && i+1 < len(h) && strings.HasPrefix(strings.ToUpper(h[i+1].word()), "NUMA"),
		strings.HasPrefix(s, "GPU-NUMA"), strings.HasPrefix(s, "GPU_NUMA"), strings.HasPrefix(s, "GPUNUMA"):
		return gpuNUMAColumn
	case strings.HasPrefix(s, "CPU"):
		return cpuColumn
	case strings.HasPrefix(s, "NUMA"):
		return numaColumn
	}
	return otherColumn
}

// word is the token as it stands in the text.
func (t *token) word() string { return t.line.text[t.pos:t.end] }

// titles groups words into column titles. rel is the position of the first word.
func titles(h []token, rel int) []column {
	var cols []column
	for i := range h {
		if i > 0 {
			rel += h[i].sep
		}
		w := titleOf(h, i)
		if w == numaColumn && i > 0 && titleOf(h, i-1) == gpuNUMAColumn {
			w = otherColumn // the NUMA of GPU NUMA ID
		}
		if w == otherColumn && len(cols) > 0 && h[i].sep == 0 && (h[i].kind == kTitle || h[i].gap(&h[i-1]) < 2) {
			cols[len(cols)-1].last = &h[i]
			continue
		}
		if w == otherColumn && h[i].kind == kTitle && len(cols) > 0 {
			cols[len(cols)-1].last = &h[i] // CPU<tab>Affinity
			continue
		}
		cols = append(cols, column{what: w, name: h[i].word(), first: &h[i], last: &h[i], rel: rel})
	}
	return cols
}

// gap is the number of bytes between two tokens of one line.
func (t *token) gap(before *token) int {
	if t.line != before.line {
		return 1 << 20
	}
	return t.pos - before.end
}

// whole says that one blank at most stands between the words of a title, so that its position counts.
func (c *column) whole() bool {
	if c.first.line != c.last.line {
		return false
	}
	return !strings.Contains(c.first.line.text[c.first.pos:c.last.end], "  ") &&
		!strings.Contains(c.first.line.text[c.first.pos:c.last.end], "\t")
}
