package smi

import (
	"strconv"
	"strings"
)

// affinity is what the affinity columns say of one GPU.
type affinity struct {
	cpu, numa, gpuNUMA *token // nil when the cell is empty or not known
	open               bool   // the text does not tell which columns the values belong to
	extra              *token // a value behind the last title
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
	vals := r.values()
	for i := range r.tail {
		t := &r.tail[i]
		if t.kind != kTitle {
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
	if r.torn || r.seam && len(vals) != len(cols) {
		a.open = true
		return a
	}
	if !l.titled {
		l.untitled(r, vals, &a)
		return a
	}
	if len(cols) == 0 {
		a.open = a.open || len(vals) > 0 && len(l.before) == 0
		return a
	}
	slots, exact := l.slots(r, vals)
	l.place(r, cols, vals, slots, exact, &a)
	return a
}

// values are the tokens behind the cells up to the first word.
func (r *row) values() []*token {
	vals := make([]*token, 0, 4)
	for i := range r.tail {
		if r.tail[i].kind == kTitle {
			break
		}
		vals = append(vals, &r.tail[i])
	}
	return vals
}

// place gives the values of a row to the columns behind the matrix.
func (l *layout) place(r *row, cols []column, vals []*token, slots []int, exact bool, a *affinity) {
	n, k := len(vals), len(cols)
	if n == 0 {
		a.open = a.open || k > 1 // GPU NUMA ID is never empty, and both of the others hardly ever
		return
	}
	if n == k && (l.values <= k || exact && l.raw) && inOrder(cols, vals, slots, exact) {
		for i := range cols {
			a.set(cols[i].what, vals[i])
		}
		return
	}
	if slots != nil && (l.values <= k || l.raw) && l.bySlots(r, cols, vals, slots, exact, a) {
		return
	}
	if !exact && l.byPosition(r, cols, vals, a) {
		return
	}
	*a = affinity{open: true}
	if n < k && cols[0].what == cpuColumn && surelyCPU(vals[0].text) && r.wraps == 0 {
		a.cpu = vals[0]
	}
}

// inOrder says that a row with a value for every column has no empty cell: a value beyond the titles would show in its
// place. A sure CPU list in the first place is the exception, and a gap of one, which is a doubled tab.
func inOrder(cols []column, vals []*token, slots []int, exact bool) bool {
	k := len(cols)
	if slots == nil {
		return true
	}
	if slots[0] > 0 {
		return cols[0].what == cpuColumn && surelyCPU(vals[0].text) && !exact
	}
	return cols[k-1].what == gpuNUMAColumn || slots[k-1] < rawGPUNUMA
}

// rawGPUNUMA is the cell behind the matrix in which the tool prints GPU NUMA ID.
const rawGPUNUMA = 3

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
		if p >= k {
			if p < rawGPUNUMA && !exact {
				return false
			}
			a.extra = vals[i]
		}
		at[i] = p
		last = last || p >= k-1
	}
	// The cells must be accounted for to the last column, else an empty one may have been squeezed out.
	if !last && (!exact || total < k) {
		return false
	}
	for i := range vals {
		if at[i] < k && cols[at[i]].what != cpuColumn && surelyCPU(vals[i].text) {
			a.extra = nil
			return false
		}
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
	if len(l.devices) != len(r.cells) || r.wraps > 0 || len(r.name.line.text) > maxLine || len(l.devices[0].line.text) > maxLine {
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

// leading reads columns that stand before the names: by their bars or tabs where the row has them, else in order.
func (l *layout) leading(r *row, a *affinity) {
	var vals []*token
	for i := range r.lead {
		if t := &r.lead[i]; !t.colon && (t.kind == kList || t.kind == kNA) {
			vals = append(vals, t)
		}
	}
	if !l.exact || !l.tabs || !spaced(l.before) {
		if len(vals) != len(l.before) {
			a.open = true
			return
		}
		for i := range vals {
			a.set(l.before[i].what, vals[i])
		}
		return
	}
	start := r.cells[0].sep + r.name.sep
	for i := range r.lead {
		start += r.lead[i].sep
	}
	if -start > l.before[0].rel {
		a.open = true // the cells before the name are lost
		return
	}
	rel := -r.cells[0].sep - r.name.sep // of the token before the name, in separators from the first cell
	for i := len(r.lead) - 1; i >= 0; i-- {
		for j := range l.before {
			if l.before[j].rel == rel {
				a.set(l.before[j].what, &r.lead[i])
			}
		}
		rel -= r.lead[i].sep
	}
}

// spaced says that titles stand one tab or bar apart, each whole.
func spaced(cols []column) bool {
	for i := range cols {
		if !cols[i].whole() || i > 0 && cols[i].rel != cols[i-1].rel+1 {
			return false
		}
	}
	return true
}

// untitled reads the columns of a table without a header: the tool's order is CPU, NUMA, GPU NUMA ID.
func (l *layout) untitled(r *row, vals []*token, a *affinity) {
	slots, exact := l.slots(r, vals)
	n := len(vals)
	last := -1
	if slots != nil {
		last = slots[n-1]
	}
	whats := [...]what{cpuColumn, numaColumn, otherColumn, gpuNUMAColumn}
	sure := 0
	for _, v := range vals[min(1, n):] {
		if surelyCPU(v.text) {
			sure++
		}
	}
	switch {
	case n == 0:
	case sure > 0 || slots != nil && slots[0] > 0 && surelyCPU(vals[0].text):
		a.open = true
	case last == rawGPUNUMA && (n < 3 && exact || n == 3 && slots[1] == 1), last == 1 && n <= 2 && l.values <= 2:
		for i, v := range vals {
			a.set(whats[slots[i]], v)
		}
	case n == 3 && (slots == nil || slots[0] == 0):
		a.cpu, a.numa, a.gpuNUMA = vals[0], vals[1], vals[2]
	case n <= 2 && surelyCPU(vals[0].text):
		a.cpu = vals[0]
		if n == 2 && slots == nil && vals[1].kind == kList && l.values <= 2 {
			a.numa = vals[1]
		}
		a.open = n == 2 && a.numa == nil
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
