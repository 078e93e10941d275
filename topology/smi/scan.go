package smi

import "strings"

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
	front   []token // words before the first name of the last row or header: a prefix that each line may have
	command string
	host    string
	title   string
	early   mentions // before the first table
	last    *row     // the last row, for continuation lines
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
		s.front = head
		r.key = s.prefixKey(l, toks[at].pos, head)
		if l.padded {
			r.wraps++
		}
		var next *token
		if end < len(toks) {
			next = &toks[end]
		}
		r.seam = r.onSeam(next)
		r.torn = l.torn
		used := at + 1 + len(r.cells) + len(r.tail)
		s.addRow(r)
		head = nil
		if used < end { // legends that lost their line ends
			s.tables[len(s.tables)-1].mentions.read(toks[used:end])
		}
	}
}

// addRow puts a row into the open table of its key, or opens one.
func (s *scanner) addRow(r row) {
	t := s.open[r.key]
	if t != nil && (t.has(r.name.text) || len(t.rows) >= maxParts) {
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

// maxParts is the largest number of devices of a table; the largest machines have some forty.
const maxParts = 512

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
		n := 0
		for toks[n].kind != kGPU {
			n++
		}
		s.front = toks[:n]
		return
	}
	rest := toks
	if s.prefixed(toks) {
		rest = toks[len(s.front):]
	}
	if len(rest) > 0 && (s.headerGoesOn(rest) || s.last != nil && s.rowGoesOn(rest, seps)) {
		return
	}
	s.last = nil
	if s.strayInTable(rest, seps) {
		return
	}
	s.remark(l, toks)
}

// prefixed says that a line starts as the last row or header did before its first name: with the same words, with other
// words of the kind (a time), or with the next number (of the line). Affinity columns in front are no prefix.
func (s *scanner) prefixed(toks []token) bool {
	if len(s.front) == 0 || len(toks) < len(s.front) || s.titlesFirst() {
		return false
	}
	for i := range s.front {
		a, b := &s.front[i], &toks[i]
		switch {
		case a.word() == b.word():
		case a.kind == kWord && b.kind == kWord:
		case a.kind == kList && b.kind == kList:
			v, n := number(a.text)
			w, k := number(b.text)
			if n != len(a.text) || k != len(b.text) || w <= v || w > v+2 {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// titlesFirst says that the header has affinity columns before the devices.
func (s *scanner) titlesFirst() bool {
	h := s.headers[""]
	if len(s.tables) > 0 && len(s.headers) == 0 {
		h = s.tables[len(s.tables)-1].header
	}
	for i := 0; i < len(h) && h[i].kind != kGPU; i++ {
		if startsTitle(h, i) {
			return true
		}
	}
	return false
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
	}
	return true
}
