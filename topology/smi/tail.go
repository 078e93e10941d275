package smi

import (
	"strconv"
	"strings"
)

// affinity is what the affinity columns say of one GPU.
type affinity struct {
	cpu, numa, gpuNUMA *token // nil when the cell is empty or not known
	open               bool   // the text does not tell which columns the values belong to
}

// affinities reads the columns of one row. Empty cells are the trap: CPU Affinity is empty in a job that hides the CPUs,
// and then the NUMA node moves to the left wherever tabs were lost. So a row with a value for every column is read in
// order; a row with fewer is read by its tabs, by the tab stops that the blanks came from, or by the columns of the
// header; and where these do not prove which cells are empty, nothing is read.
func (l *layout) affinities(r *row) affinity {
	var a affinity
	if n := len(l.before); n > 0 {
		l.leading(r, &a)
	}
	vals := make([]*token, 0, 4)
	for i := range r.tail {
		t := &r.tail[i]
		if t.kind != kTitle {
			vals = append(vals, t)
			continue
		}
		// "NUMA 0" as a hand-written suffix
		if strings.EqualFold(t.word(), "NUMA") && i+1 < len(r.tail) && r.tail[i+1].kind != kTitle && len(l.after) == 0 {
			if i == 0 || i == 1 && cpuList(r.tail[0].text) {
				a.numa = &r.tail[i+1]
				if i == 1 {
					a.cpu = &r.tail[0]
				}
				return a
			}
		}
		break
	}
	cols := l.after
	if !l.titled {
		l.untitled(r, vals, &a)
		return a
	}
	if len(cols) == 0 {
		a.open = len(vals) > 0 && len(l.before) == 0
		return a
	}
	slots, exact := r.slots(vals)
	l.place(r, cols, vals, slots, exact, &a)
	return a
}

// place gives the values of a row to the columns behind the matrix.
func (l *layout) place(r *row, cols []column, vals []*token, slots []int, exact bool, a *affinity) {
	n, k := len(vals), len(cols)
	if n == 0 {
		return
	}
	inOrder := n == k
	if inOrder && slots != nil && slots[0] > 0 {
		inOrder = cols[0].what == cpuColumn && surelyCPU(vals[0].text) // else something stands empty before the first
	}
	if inOrder {
		for i := range cols {
			a.set(cols[i].what, vals[i])
		}
		return
	}
	if slots != nil && l.bySlots(r, cols, vals, slots, exact, a) {
		return
	}
	if !exact && l.byPosition(r, cols, vals, a) {
		return
	}
	if n == 1 && cols[0].what == cpuColumn && surelyCPU(vals[0].text) {
		a.cpu = vals[0]
		return
	}
	*a = affinity{open: true}
}

// bySlots reads values whose distance in tabs from the last cell is known. The tool writes one empty cell before the
// value of GPU NUMA ID that has no title; copies by hand often lack it.
func (l *layout) bySlots(r *row, cols []column, vals []*token, slots []int, exact bool, a *affinity) bool {
	k, n := len(cols), len(vals)
	total := slots[n-1] + 1
	if exact {
		total += r.seps
	}
	at, last := make([]int, n), false
	for i, p := range slots {
		if cols[k-1].what == gpuNUMAColumn && p >= k-1 {
			if i != n-1 || p > k || p == k-1 && !exact {
				return false
			}
			p = k - 1
		}
		if p >= k && !exact {
			return false // beyond the titles
		}
		at[i] = p
		last = last || p == k-1
	}
	// The cells must be accounted for to the last column, else an empty one may have been squeezed out.
	if !last && (!exact || total < k) {
		return false
	}
	for i := range vals {
		if at[i] < k {
			a.set(cols[at[i]].what, vals[i])
		}
	}
	return true
}

// byPosition reads values that stand exactly under the start of a title, in a table where every cell stands under its
// own title, up to the last column.
func (l *layout) byPosition(r *row, cols []column, vals []*token, a *affinity) bool {
	if len(l.devices) != len(r.cells) || r.wraps > 0 {
		return false
	}
	for i := range r.cells {
		d := visual(&r.cells[i]) - visual(&l.devices[i])
		if d < -1 || d > 1 {
			return false
		}
	}
	at := make([]int, len(vals))
	for i, v := range vals {
		at[i] = -1
		for j := range cols {
			if !cols[j].whole() {
				return false
			}
			if visual(v) == visual(cols[j].first) {
				at[i] = j
			}
		}
		if at[i] < 0 || i > 0 && at[i] <= at[i-1] {
			return false
		}
	}
	if at[len(at)-1] != len(cols)-1 {
		return false
	}
	for i := range vals {
		a.set(cols[at[i]].what, vals[i])
	}
	return true
}

// leading reads columns that stand before the names.
func (l *layout) leading(r *row, a *affinity) {
	var vals []*token
	for i := range r.lead {
		if t := &r.lead[i]; t.kind == kList || t.kind == kNA {
			vals = append(vals, t)
		}
	}
	if len(vals) == len(l.before) {
		for i := range vals {
			a.set(l.before[i].what, vals[i])
		}
		return
	}
	if len(vals) == 0 {
		return
	}
	if !l.exact || !r.exact() {
		a.open = true
		return
	}
	// separators from the first cell back
	rel := -r.cells[0].sep - r.name.sep
	at := make([]int, len(r.lead))
	for i := len(r.lead) - 1; i >= 0; i-- {
		at[i] = rel
		rel -= r.lead[i].sep
	}
	for i := range r.lead {
		for j := range l.before {
			if l.before[j].rel == at[i] {
				a.set(l.before[j].what, &r.lead[i])
			}
		}
	}
}

// untitled reads the columns of a table without a header: the tool's order is CPU, NUMA, GPU NUMA ID.
func (l *layout) untitled(r *row, vals []*token, a *affinity) {
	slots, _ := r.slots(vals)
	whats := [...]what{cpuColumn, numaColumn, otherColumn, gpuNUMAColumn}
	switch {
	case len(vals) == 0:
	case slots != nil && slots[len(slots)-1] == 3 && (len(slots) < 3 || slots[1] == 1):
		for i, v := range vals {
			a.set(whats[slots[i]], v)
		}
	case len(vals) == 3:
		a.cpu, a.numa, a.gpuNUMA = vals[0], vals[1], vals[2]
	case len(vals) == 2 && surelyCPU(vals[0].text):
		a.cpu, a.numa = vals[0], vals[1]
	case len(vals) == 1 && surelyCPU(vals[0].text):
		a.cpu = vals[0]
	default:
		a.open = true
	}
}

func (a *affinity) set(w what, t *token) {
	switch w {
	case cpuColumn:
		a.cpu = t
	case numaColumn:
		a.numa = t
	case gpuNUMAColumn:
		a.gpuNUMA = t
	}
}

// exact says that one tab or bar stands before every cell of the row.
func (r *row) exact() bool {
	for i := range r.cells {
		if r.cells[i].sep != 1 {
			return false
		}
	}
	return len(r.cells) > 0 && r.wraps == 0
}

// slots returns for each value how many cells lie between it and the last cell of the matrix, and whether tabs or bars
// say so. Blanks tell it too where they came from tabs: by stops of 8, or each tab by the same number of blanks. nil
// when nothing tells.
func (r *row) slots(vals []*token) ([]int, bool) {
	if len(vals) == 0 || r.wraps > 0 || len(r.cells) == 0 {
		return nil, false
	}
	if r.exact() {
		slots, at := make([]int, len(vals)), -1
		for i, v := range vals {
			at += v.sep
			if v.sep == 0 {
				return nil, false
			}
			slots[i] = at
		}
		return slots, true
	}
	for i := range r.cells {
		if r.cells[i].sep > 0 {
			return nil, false
		}
	}
	for _, v := range vals {
		if v.sep > 0 {
			return nil, false
		}
	}
	if s := r.tabStops(vals); s != nil {
		return s, false
	}
	return r.fixedGaps(vals), false
}

// tabStop is the distance of tab stops in terminals and editors.
const tabStop = 8

// tabStops undoes the expansion of tabs to stops of 8 if the whole row agrees with it.
func (r *row) tabStops(vals []*token) []int {
	base := -1
	for i := range r.cells {
		c := &r.cells[i]
		start := visual(c) - tabStop*i
		switch {
		case base < 0 && !self(c):
			base = start
		case base < 0:
			base = start
			if len(r.cells) > 1 { // the next cell tells
				base = visual(&r.cells[1]) - tabStop
			}
		}
		if start != base && !(self(c) && start == base+1) {
			return nil
		}
	}
	base += tabStop * (len(r.cells) - 1) // start of the last cell
	slots, cell := make([]int, len(vals)), 0
	end := visual(&r.cells[len(r.cells)-1]) + width(&r.cells[len(r.cells)-1]) - base
	if self(&r.cells[len(r.cells)-1]) {
		end++ // the blank behind X
	}
	for i, v := range vals {
		at := visual(v) - base
		if at%tabStop != 0 || at/tabStop <= end/tabStop {
			return nil
		}
		cell += at/tabStop - end/tabStop
		slots[i] = cell - 1
		end = at + width(v)
	}
	return slots
}

// fixedGaps undoes the replacement of each tab by the same number of blanks.
func (r *row) fixedGaps(vals []*token) []int {
	gap := -1
	for i := 1; i < len(r.cells); i++ {
		a, b := &r.cells[i-1], &r.cells[i]
		g := b.gap(a)
		if self(a) {
			g--
		}
		if self(b) {
			g--
		}
		if gap >= 0 && g != gap || g < 1 {
			return nil
		}
		gap = g
	}
	if gap < 1 || len(r.cells) < 3 {
		return nil
	}
	slots, cell, before := make([]int, len(vals)), 0, &r.cells[len(r.cells)-1]
	for i, v := range vals {
		g := v.gap(before)
		if self(before) {
			g--
		}
		if g < gap || g%gap != 0 {
			return nil
		}
		cell += g / gap
		slots[i] = cell - 1
		before = v
	}
	return slots
}

// visual is the column at which a token starts when tabs are expanded to stops of 8, counted from the quoting on.
func visual(t *token) int {
	col := 0
	for _, r := range t.line.text[t.line.cut:t.pos] {
		if r == '\t' {
			col += tabStop - col%tabStop
		} else {
			col++
		}
	}
	return col
}

func width(t *token) int { return t.end - t.pos }

// cpuList says that a text is a list of CPUs as the kernel prints them: ascending ranges.
func cpuList(s string) bool {
	if s == "" {
		return false
	}
	for _, part := range strings.Split(s, ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(lo)
		if err != nil {
			return false
		}
		if isRange {
			if b, err := strconv.Atoi(hi); err != nil || b < a {
				return false
			}
		}
	}
	return true
}

// surelyCPU says that a list can only be one of CPUs: several ranges, or one that ends beyond any number of NUMA nodes.
func surelyCPU(s string) bool {
	if !cpuList(s) {
		return false
	}
	if strings.Contains(s, ",") {
		return true
	}
	_, hi, ok := strings.Cut(s, "-")
	v, _ := strconv.Atoi(hi)
	return ok && v >= 8
}
