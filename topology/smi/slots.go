package smi

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
func (l *layout) slots(r *row, vals []*token) ([]int, bool) {
	if len(vals) == 0 || r.wraps > 0 || len(r.cells) == 0 {
		return nil, false
	}
	if l.tabs {
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
	if len(r.name.line.text) > maxLine {
		return nil, false
	}
	if s := r.tabStops(vals); s != nil {
		return s, false
	}
	return r.fixedGaps(vals), false
}

// maxLine is the longest line whose columns are counted: a text of 16 GPUs and 16 NICs that lost all line ends fits.
const maxLine = 1 << 15

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

// fixedGaps undoes the replacement of each tab by the same number of blanks. The X may have kept its two blanks or not.
func (r *row) fixedGaps(vals []*token) []int {
	gap, around := -1, -1 // between two codes; what X adds on a side
	for i := 1; i < len(r.cells); i++ {
		a, b := &r.cells[i-1], &r.cells[i]
		if g := b.gap(a); !self(a) && !self(b) {
			if gap >= 0 && g != gap {
				return nil
			}
			gap = g
		}
	}
	if gap < 1 {
		return nil
	}
	for i := 1; i < len(r.cells); i++ {
		a, b := &r.cells[i-1], &r.cells[i]
		if g := b.gap(a) - gap; self(a) || self(b) {
			if g != 0 && g != 1 || around >= 0 && g != around {
				return nil
			}
			around = g
		}
	}
	slots, cell, before := make([]int, len(vals)), 0, &r.cells[len(r.cells)-1]
	for i, v := range vals {
		g := v.gap(before)
		if self(before) {
			g -= max(around, 0)
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
