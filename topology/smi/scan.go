package smi

import (
	"strings"

	"rankmap/topology"
)

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
}

// table is one table as found, not yet understood.
type table struct {
	key     string
	header  []token // of the header line or lines; nil when there is none
	rows    []row
	p2p     bool
	command string // "-m", "-mp", "-p2p"; "" when no command line stands before it
	host    string // by the prompt, an ssh line or the prefix of its lines
	title   string // a heading that may be a host name
	mentions
}

// mentions are what the text around a table says.
type mentions struct {
	nicNames map[string]nicName
	legend   int // lines that explain codes
	nvLine   bool
}

type nicName struct {
	device string
	numa   int
	at     place
}

// scanner walks over the lines and collects tables.
type scanner struct {
	*report
	lines  []line
	tables []*table

	keyed   bool
	open    map[string]*table // by key: the table that takes rows
	headers map[string][]token
	command string
	host    string
	title   string
	early   mentions // before the first table
	last    *row     // the last row, for continuation lines
	wrapped int      // rows that go on in the next line
	toks    []token
}

// scan finds the tables in the clean lines. With keyed set, the name that a collector of logs put before each line tells
// tables apart; names that stand before one line only, such as line numbers, do not: then it scans without.
func scan(r *report, lines []line, keyed bool) *scanner {
	s := &scanner{report: r, lines: lines, keyed: keyed, open: map[string]*table{}, headers: map[string][]token{}}
	s.toks = make([]token, 0, 512)
	for i := range lines {
		s.line(&lines[i])
	}
	for _, t := range s.tables {
		if t.key != "" && len(t.rows)+min(1, len(t.header)) < 2 {
			return scan(r, lines, false)
		}
	}
	return s
}

func (s *scanner) line(l *line) {
	first := len(s.toks)
	var seps int
	s.toks, seps = tokenize(l, s.toks)
	toks := s.toks[first:len(s.toks):len(s.toks)]
	if len(toks) == 0 {
		s.last = nil
		return
	}
	starts := s.rowStarts(toks)
	if len(starts) == 0 {
		s.other(l, toks, seps)
		return
	}
	head := toks[:starts[0]]
	if gpus := count(head, kGPU); gpus > 0 { // the header lost its line end
		s.setHeader("", head)
		head = nil
	}
	for i, at := range starts {
		end, after := len(toks), seps
		if i+1 < len(starts) {
			end, after = starts[i+1], toks[starts[i+1]].sep
		}
		r := makeRow(toks[at:end], head, after)
		r.key = s.prefixKey(l, toks[at].pos, head)
		s.addRow(r)
		head = nil
	}
}

// rowStarts returns where in toks a device name is followed by cells.
func (s *scanner) rowStarts(toks []token) []int {
	var starts []int
	for i := 0; i+1 < len(toks); i++ {
		t, next := &toks[i], &toks[i+1]
		if next.colon || next.kind != kCell && next.kind != kP2P {
			continue
		}
		switch t.kind {
		case kGPU, kNIC:
			starts = append(starts, i)
		case kWord:
			if !t.colon && s.column(t.text, toks[:i]) {
				starts = append(starts, i)
			}
		}
	}
	return starts
}

// column says that a word is a column of the header last seen, in this line or before it.
func (s *scanner) column(word string, before []token) bool {
	for i := range before {
		if before[i].kind == kWord && before[i].text == word {
			return count(before, kGPU) > 0
		}
	}
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
	for i := range toks {
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

// addRow puts a row into the open table of its key, or opens one.
func (s *scanner) addRow(r row) {
	t := s.open[r.key]
	if t != nil && t.has(r.name.text) {
		s.closeTable(r.key)
		t = nil
	}
	if t == nil {
		t = &table{key: r.key, command: s.command, host: s.host, title: s.title}
		t.header = s.headers[r.key]
		if t.header == nil && r.key != "" {
			t.header = s.headers[""]
		}
		delete(s.headers, r.key)
		s.open[r.key] = t
		s.tables = append(s.tables, t)
		s.title = ""
	}
	for i := range r.cells {
		t.p2p = t.p2p || r.cells[i].kind == kP2P
	}
	t.rows = append(t.rows, r)
	s.last = &t.rows[len(t.rows)-1]
}

func (t *table) has(name string) bool {
	for i := range t.rows {
		if t.rows[i].name.text == name {
			return true
		}
	}
	return false
}

func (s *scanner) closeTable(key string) {
	delete(s.open, key)
	s.last = nil
}

func (s *scanner) closeAll() {
	clear(s.open)
	s.last = nil
}

func (s *scanner) setHeader(key string, toks []token) {
	if _, isOpen := s.open[key]; isOpen {
		s.closeTable(key)
	}
	s.headers[key] = toks
}

// other handles a line without a row: a header, the rest of a wrapped line, a command, a legend or anything else.
func (s *scanner) other(l *line, toks []token, seps int) {
	if ruleOnly(toks) {
		return
	}
	if key, ok := s.headerLine(l, toks); ok {
		s.setHeader(key, toks)
		return
	}
	if s.headerGoesOn(toks) {
		return
	}
	if s.last != nil && s.rowGoesOn(toks, seps) {
		return
	}
	s.remark(l, toks)
}

func ruleOnly(toks []token) bool {
	for i := range toks {
		if toks[i].kind != kRule {
			return false
		}
	}
	return true
}

// headerLine says that a line names GPUs and holds nothing that a header cannot hold.
func (s *scanner) headerLine(l *line, toks []token) (key string, ok bool) {
	at := -1
	for i := range toks {
		t := &toks[i]
		switch t.kind {
		case kGPU:
			if t.colon {
				return "", false
			}
			if at < 0 {
				at = i
			}
		case kCell, kP2P, kList, kNA:
			if at >= 0 {
				return "", false
			}
		case kRule, kTorn:
			return "", false
		}
	}
	if at < 0 {
		return "", false
	}
	return s.prefixKey(l, toks[at].pos, toks[:at]), true
}

// headerGoesOn takes a line of column names or titles that follows a header without a row between.
func (s *scanner) headerGoesOn(toks []token) bool {
	if len(s.headers) != 1 || len(s.open) > 0 {
		return false
	}
	for i := range toks {
		t := &toks[i]
		if t.colon || t.kind != kNIC && t.kind != kTitle && t.kind != kGPU && !strings.EqualFold(t.text, "GPU") {
			return false
		}
	}
	for key, h := range s.headers {
		s.headers[key] = append(h[:len(h):len(h)], toks...)
		s.wrapped++
	}
	return true
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
	if j < len(toks) || j == 0 || i > 0 && len(r.tail) > 0 {
		return false
	}
	r.cells = append(r.cells, toks[:i]...)
	r.tail = append(r.tail, toks[i:]...)
	r.seps, r.odd = seps, nil
	r.wraps++
	s.wrapped++
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
