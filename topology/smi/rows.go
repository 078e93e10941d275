package smi

import "rankmap/topology"

// row is one row of a table as found: a name, the run of cells behind it, and what stands before and after.
type row struct {
	key   string
	name  token
	cells []token
	lead  []token // before the name: affinity columns that stand first, or a prefix
	tail  []token // after the cells, up to the first word that cannot belong to the row
	odd   *token  // that word, when it follows the cells at once
	seps  int     // tabs and bars after the last token of the line
	wraps int     // continuation lines taken in
	seam  bool    // a value lies across the end of a line: it may be two
	torn  bool    // the text ends in it, before its last column
}

// rowStarts returns where in toks a device name is followed by cells.
func (s *scanner) rowStarts(toks []token) []int {
	var starts []int
	var here map[string]bool // words of this line, if it names GPUs: its header may have lost its line end
	gpus := false
	for i := 0; i+1 < len(toks); i++ {
		t, next := &toks[i], &toks[i+1]
		switch {
		case t.kind == kGPU:
			gpus = true
		case t.kind == kWord && gpus:
			if here == nil {
				here = map[string]bool{}
			}
			if !isCell(next) {
				here[t.text] = true
			}
		}
		if next.colon || next.kind != kCell && next.kind != kP2P && next.kind != kTorn &&
			(next.kind != kRule || i+2 >= len(toks) || !isCell(next) || toks[i+2].kind != kCell) {
			continue
		}
		switch t.kind {
		case kGPU, kNIC:
			starts = append(starts, i)
		case kWord:
			if !t.colon && (here[t.text] || s.column(t.text)) {
				starts = append(starts, i)
			}
		}
	}
	return starts
}

// column says that a word is a column of a header seen before.
func (s *scanner) column(word string) bool {
	for _, h := range s.headers {
		if named(h, word) {
			return true
		}
	}
	for _, t := range s.open {
		if named(t.header, word) {
			return true
		}
	}
	return false
}

func named(toks []token, word string) bool {
	for i := range toks[:min(len(toks), maxParts)] {
		if toks[i].kind == kWord && toks[i].text == word {
			return true
		}
	}
	return false
}

// makeRow takes a name and what follows it apart.
func makeRow(toks, lead []token, seps int) row {
	r := row{name: toks[0], lead: lead, seps: seps}
	i := 1
	for i < len(toks) && isCell(&toks[i]) {
		i++
	}
	r.cells = toks[1:i:i]
	r.addTail(toks[i:])
	return r
}

// onSeam says that a value was put together from two lines, or that no blank parts it from its neighbour.
func (r *row) onSeam(next *token) bool {
	for i := range r.tail {
		t, before := &r.tail[i], &r.name
		switch {
		case i > 0:
			before = &r.tail[i-1]
		case len(r.cells) > 0:
			before = &r.cells[len(r.cells)-1]
		}
		if t.kind == kList && t.sep == 0 && t.gap(before) == 0 || i == len(r.tail)-1 && next != nil && next.sep == 0 && next.gap(t) == 0 {
			return true
		}
		for _, at := range r.tail[i].line.seams {
			if r.tail[i].pos < at && at < r.tail[i].end {
				return true
			}
		}
	}
	return false
}

func isCell(t *token) bool {
	switch t.kind {
	case kCell, kP2P:
		return !t.colon
	case kTorn:
		return true
	case kRule:
		return t.text == "-" || t.text == "--" || t.text == "---"
	}
	return false
}

func (r *row) addTail(toks []token) {
	i := 0
	for i < len(toks) && (toks[i].kind == kList || toks[i].kind == kNA || toks[i].kind == kTitle) && !toks[i].colon {
		i++
	}
	if i < len(toks) {
		r.seps = 0
		if i == 0 && len(r.tail) == 0 && toks[0].kind != kEnd {
			r.odd = &toks[0]
		}
	}
	r.tail = append(r.tail, toks[:i]...)
}

// strayInTable notices, inside a table, a row whose first cell is no code, and the rest of a value that was cut.
func (s *scanner) strayInTable(toks []token, seps int) bool {
	if len(s.open) != 1 || len(toks) == 0 {
		return false
	}
	t := s.tables[len(s.tables)-1]
	if n := &toks[0]; len(toks) > 2 && (n.kind == kNIC || n.kind == kGPU) && !n.colon && toks[1].kind == kWord && count(toks, kCell) > 0 && !t.has(n.text) {
		r := makeRow(toks, nil, seps)
		r.key = t.key
		s.addRow(r)
		return true
	}
	if count(toks, kList)+count(toks, kNA) == len(toks) {
		t.rows[len(t.rows)-1].torn = true
		return true
	}
	return false
}

// rowGoesOn takes a line that holds nothing but cells and affinities as the rest of the row before it.
func (s *scanner) rowGoesOn(toks []token, seps int) bool {
	i := 0
	for i < len(toks) && isCell(&toks[i]) {
		i++
	}
	j := i
	for j < len(toks) && (toks[j].kind == kList || toks[j].kind == kNA) {
		j++
	}
	r := s.last
	if j < len(toks) || j == 0 || i > 0 && len(r.tail) > 0 || i == 0 && s.titlesFirst() {
		return false
	}
	if i == 0 && len(r.tail) > 0 && toks[0].kind == kList && r.tail[len(r.tail)-1].kind == kList {
		r.seam = true
	}
	r.cells = append(r.cells, toks[:i]...)
	r.tail = append(r.tail, toks[i:]...)
	r.seps, r.odd = seps, nil
	r.torn = r.torn || toks[0].line.torn
	r.wraps++
	for k := range i {
		if toks[k].kind == kP2P {
			s.tables[len(s.tables)-1].p2p = true
		}
	}
	return true
}

func count(toks []token, k kind) int {
	n := 0
	for i := range toks {
		if toks[i].kind == k {
			n++
		}
	}
	return n
}

// self says that a cell is X.
func self(t *token) bool { return t.kind == kCell && t.path == topology.PathSelf || t.kind == kRule }
