package smi

import (
	"io"
	"strconv"
	"strings"

	"rankmap/internal/units"
)

// LinkStatus is what "nvidia-smi nvlink -s" says.
type LinkStatus struct {
	GPUs     []GPULinks // in the order of the text
	Warnings []Warning

	file string
}

// GPULinks are the NVLinks of one GPU.
type GPULinks struct {
	Index int    // NVML's
	Name  string // as the driver prints it
	UUID  string
	Links []LinkState // ascending; empty when the tool said that all are inactive
	// AllInactive is true where the tool prints one sentence in place of the links.
	AllInactive bool
	Line        int
}

// LinkState is one NVLink.
type LinkState struct {
	Index  int
	Active bool
	Rate   units.Bandwidth // one way; 0 when inactive
	Line   int
}

// Active counts the links that are up.
func (g *GPULinks) Active() int {
	n := 0
	for _, l := range g.Links {
		if l.Active {
			n++
		}
	}
	return n
}

// ReadNVLinkStatus reads the text of "nvidia-smi nvlink -s" (--status), as printed or as pasted. Errors are as those of
// Read.
func ReadNVLinkStatus(r io.Reader, name string) (*LinkStatus, error) {
	text, err := readText(r, name)
	if err != nil {
		if e, ok := err.(*Error); ok {
			e.Msg = strings.ReplaceAll(e.Msg, wanted, wantedStatus)
		}
		return nil, err
	}
	p := prepare(text, name)
	rep := &report{file: name, lines: p.raw}
	st := readStatus(rep, p.lines)
	if err := rep.err(); err != nil {
		return nil, err
	}
	if len(st.GPUs) == 0 {
		return nil, p.refuseStatus()
	}
	st.Warnings = rep.warnings()
	return st, nil
}

const wantedStatus = "give the output of \"nvidia-smi nvlink -s\""

func (p *prepared) refuseStatus() error {
	e := &Error{File: p.name, Line: 1, Column: 1, Foreign: "text without NVLink status",
		Msg: "no line \"GPU 0: NAME (UUID: GPU-...)\" with links below it; " + wantedStatus}
	rep := &report{file: p.name, lines: p.raw}
	s := scan(rep, p.lines, true)
	tables, p2p := real(s.tables)
	switch f := foreignText(p.text); {
	case len(tables) > 0:
		e.Foreign = "nvidia-smi topo -m"
		e.Line, e.Column = rep.where(tables[0].rows[0].name.place())
		e.Msg = "this is a matrix of nvidia-smi topo; give it as smi:FILE"
	case p2p != nil:
		e.Foreign = "nvidia-smi topo -p2p"
		e.Line, e.Column = rep.where(p2p.rows[0].name.place())
		e.Msg = "this is a table of nvidia-smi topo -p2p; " + wantedStatus
	case f != nil:
		e.Foreign, e.Line, e.Column = f.Foreign, f.Line, f.Column
		e.Msg = "this is " + f.Foreign + "; " + wantedStatus
	}
	return e
}

// readStatus walks over the lines; whatever is no line of the status is passed over.
func readStatus(rep *report, lines []line) *LinkStatus {
	st := &LinkStatus{file: rep.file}
	var g *GPULinks
	seen := map[int]int{}
	skip := false // links of a GPU that stands there again
	for i := range lines {
		l := &lines[i]
		s := strings.TrimSpace(l.text[l.cut:])
		off := strings.Index(l.text, s)
		if n, name, uuid, ok := gpuLine(s); ok {
			if first, dup := seen[n]; dup {
				rep.warn(l.place(off), "GPU %d stands here again (first at line %d): another host or another moment; the first one is read", n, first)
				skip, g = true, nil
				continue
			}
			skip = false
			at := l.place(off).line
			seen[n] = at
			st.GPUs = append(st.GPUs, GPULinks{Index: n, Name: name, UUID: uuid, Line: at})
			g = &st.GPUs[len(st.GPUs)-1]
			continue
		}
		if strings.Contains(s, "all links are inActive") || strings.Contains(s, "all links are inactive") {
			if g != nil {
				g.AllInactive = true
			}
			continue
		}
		n, rest, ok := linkLine(s)
		if !ok || skip {
			continue
		}
		rep.link(l.place(off), g, n, rest)
	}
	st.gaps(rep)
	return st
}

// gpuLine reads "GPU 0: NVIDIA H200 (UUID: GPU-...)".
func gpuLine(s string) (n int, name, uuid string, ok bool) {
	i := strings.Index(s, "GPU ")
	if i < 0 {
		return
	}
	if i > 0 && alnum(s[i-1]) {
		return
	}
	s = s[i+4:]
	n, w := number(s)
	if w == 0 || w == len(s) || s[w] != ':' || n > maxGPU {
		return
	}
	name, uuid, ok = strings.Cut(s[w+1:], "(UUID:")
	if !ok {
		return
	}
	uuid, _, _ = strings.Cut(uuid, ")")
	return n, strings.TrimSpace(name), strings.TrimSpace(uuid), true
}

// linkLine reads "Link 0: 26.562 GB/s" or "Link 0: <inactive>" and returns what stands behind the colon.
func linkLine(s string) (n int, rest string, ok bool) {
	i := strings.Index(s, "Link ")
	if i < 0 || i > 0 && (alnum(s[i-1]) || strings.Contains(s, "Remote")) {
		return
	}
	s = s[i+5:]
	n, w := number(s)
	if w == 0 || w == len(s) || s[w] != ':' {
		return
	}
	return n, strings.TrimSpace(s[w+1:]), true
}

// link adds one link to a GPU.
func (r *report) link(at place, g *GPULinks, n int, rest string) {
	switch {
	case g == nil:
		r.fail(at, "link %d stands before any line \"GPU 0: NAME (UUID: ...)\"", n)
		return
	case n >= maxCount:
		r.fail(at, "link %d: a GPU has at most %d links", n, maxCount)
		return
	}
	for i := range g.Links {
		if g.Links[i].Index == n {
			r.fail(at, "link %d of GPU %d stands here again (first at line %d)", n, g.Index, g.Links[i].Line)
			return
		}
	}
	s := LinkState{Index: n, Line: at.line}
	if !strings.Contains(strings.ToLower(rest), "inactive") {
		word, unit, _ := strings.Cut(rest, " ")
		v, err := strconv.ParseFloat(word, 64)
		if err != nil || !(v > 0) || v > 1000 || !strings.HasPrefix(strings.TrimSpace(unit), "GB/s") {
			r.fail(at, "link %d of GPU %d: %q is no rate (want \"26.562 GB/s\" or \"<inactive>\")", n, g.Index, clip(rest))
			return
		}
		s.Active, s.Rate = true, units.GBps(v)
	}
	g.Links = append(g.Links, s)
}

// gaps warns of GPUs that the numbering says are missing.
func (st *LinkStatus) gaps(rep *report) {
	for i := 1; i < len(st.GPUs); i++ {
		if a, b := st.GPUs[i-1].Index, st.GPUs[i].Index; b > a+1 {
			rep.warn(place{st.GPUs[i].Line, 0}, "GPU %d follows GPU %d: %d are not shown", b, a, b-a-1)
		}
	}
	for i := range st.GPUs {
		g := &st.GPUs[i]
		if len(g.Links) == 0 && !g.AllInactive {
			rep.warn(place{g.Line, 0}, "GPU %d: no link is listed: unknown", g.Index)
		}
	}
}
