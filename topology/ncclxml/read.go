package ncclxml

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
	"unicode"

	"rankmap/internal/units"
	"rankmap/topology"
)

// maxProblems bounds an error or warning list.
const maxProblems = 20

// Read reads a topology. name is the file's name for messages and provenance. A file that is no NCCL topology, is not
// well-formed, passes a limit or lacks what NCCL needs is an error with its line; everything odd that can be read
// around is in Result.Warnings.
func Read(r io.Reader, name string) (*Result, error) {
	root, p, err := parse(r, name)
	if err != nil {
		return nil, err
	}
	rd := &reader{name: name, res: &Result{}}
	if p.textLine > 0 {
		rd.warn(p.textLine, "text between elements: ignored here, NCCL itself stops at it")
	}
	rd.system(root)
	if err := rd.err(); err != nil {
		return nil, err
	}
	for i, h := range rd.hosts {
		h.finish(rd)
		h.Name = fmt.Sprintf("node%d", i)
		rd.facts(h)
		rd.res.Hosts = append(rd.res.Hosts, h.Host)
	}
	rd.cliques()
	if err := rd.err(); err != nil {
		return nil, err
	}
	sort.SliceStable(rd.res.Facts, func(i, j int) bool { return rd.res.Facts[i].What < rd.res.Facts[j].What })
	rd.res.Warnings = rd.warnings()
	return rd.res, nil
}

// reader collects what a file says.
type reader struct {
	name  string
	res   *Result
	hosts []*host
	hash  map[string]*host
	gpus  int
	full  map[string]bool // limits that were reported
	xgmi  bool            // reported
	errs  []note
	warns []note
}

type note struct {
	line int
	text string
}

func (rd *reader) warn(line int, format string, args ...any) {
	rd.warns = append(rd.warns, note{line, fmt.Sprintf(format, args...)})
}

func (rd *reader) fail(line int, format string, args ...any) {
	rd.errs = append(rd.errs, note{line, fmt.Sprintf(format, args...)})
}

// err joins the errors by line, the first maxProblems.
func (rd *reader) err() error {
	list := rd.lines(rd.errs)
	errs := make([]error, len(list))
	for i, s := range list {
		errs[i] = errors.New(s)
	}
	return errors.Join(errs...)
}

func (rd *reader) warnings() []string { return rd.lines(rd.warns) }

func (rd *reader) lines(notes []note) []string {
	sort.SliceStable(notes, func(i, j int) bool { return notes[i].line < notes[j].line })
	var out []string
	seen := map[string]bool{}
	for _, n := range notes {
		s := fmt.Sprintf("%s:%d: %s", rd.name, n.line, escape(n.text))
		if seen[s] {
			continue
		}
		if seen[s] = true; len(out) == maxProblems {
			return append(out, fmt.Sprintf("%s: and more", rd.name))
		}
		out = append(out, s)
	}
	return out
}

// escape shows control characters and the marks that turn text around, which names in a file may hold, as escapes.
func escape(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// fact records provenance.
func (rd *reader) fact(line int, what, value string) {
	rd.res.Facts = append(rd.res.Facts, topology.Fact{What: what, Value: value, Source: fmt.Sprintf("nccl-xml:%s:%d", rd.name, line)})
}

// system reads the root.
func (rd *reader) system(root *element) {
	v, ok := root.get("version")
	ver, err := strconv.Atoi(strings.TrimSpace(v))
	switch {
	case !ok:
		rd.fail(root.line, "<system> has no version, NCCL wants version=\"1\"")
	case err != nil || ver != 1 && ver != 2:
		rd.fail(root.line, "<system> version %q: NCCL reads 1 (RCCL writes 2)", v)
	case ver == 2:
		rd.res.AMD = true
		rd.warn(root.line, "version 2 is RCCL's (AMD GPUs): read here, NCCL refuses it")
	}
	rd.res.Version = ver
	rd.res.System, _ = root.get("name")
	for _, e := range root.kids {
		if e.name != "cpu" {
			rd.warn(e.line, "<%.40s> in <system> ignored, as NCCL does", e.name)
			continue
		}
		rd.cpu(e)
	}
	if len(rd.hosts) == 0 && len(rd.errs) == 0 {
		rd.fail(root.line, "<system> holds no <cpu>: nothing to read")
	}
}

// cpu reads a cpu element and what hangs below it.
func (rd *reader) cpu(e *element) {
	hash, _ := e.get("host_hash")
	h := rd.host(hash)
	if rd.over(e.line, "hosts", len(rd.hosts), maxHosts+1) || rd.over(e.line, "cpu elements in one host", len(h.CPUs), maxCPUs) {
		return
	}
	c := CPU{NUMA: rd.intAttr(e, "numaid", true, -1), Model: cpuModel(e), Socket: socketBandwidth(e)}
	if c.NUMA < -1 {
		c.NUMA = -1
	}
	mask, _ := e.get("affinity")
	ranges, ok := affinityRanges(mask)
	if !ok {
		rd.warn(e.line, "affinity %.60q is not a hex mask: ignored", mask)
	}
	for _, w := range strings.Split(mask, ",") {
		if strings.Contains(mask, ",") && len(w) != 8 && w != strings.Split(mask, ",")[0] {
			rd.warn(e.line, "affinity word %q has %d of 8 hex digits: edited by hand, CPUs may be wrong", w, len(w))
		}
	}
	c.Affinity = ranges
	idx := len(h.CPUs)
	for i, o := range h.CPUs {
		if o.NUMA == c.NUMA && c.NUMA >= 0 {
			rd.warn(e.line, "numaid %d is stated twice for one host (cpu elements %d and %d)", c.NUMA, i, idx)
		}
	}
	h.CPUs = append(h.CPUs, c)
	h.cpuLine = append(h.cpuLine, e.line)
	for _, k := range e.kids {
		switch k.name {
		case "pci":
			rd.pci(h, k, nil, idx)
		case "nic":
			h.nets(rd, k, nil, idx)
		default:
			rd.warn(k.line, "<%.40s> in <cpu> ignored, as NCCL does", k.name)
		}
	}
}

// host returns the host of a hash, made on first sight. Files without hashes are one host.
func (rd *reader) host(hash string) *host {
	if h := rd.hash[hash]; h != nil {
		return h
	}
	h := &host{Host: Host{Hash: hash}}
	if rd.hash == nil {
		rd.hash = map[string]*host{}
	}
	rd.hash[hash] = h
	rd.hosts = append(rd.hosts, h)
	return h
}

// over reports, once, that there are more than most of something.
func (rd *reader) over(line int, what string, n, most int) bool {
	if n < most {
		return false
	}
	if rd.full == nil {
		rd.full = map[string]bool{}
	}
	if !rd.full[what] {
		rd.full[what] = true
		rd.fail(line, "more than %d %s", most, what)
	}
	return true
}

// pci reads a pci element: a bridge with devices below it, or a device.
func (rd *reader) pci(h *host, e *element, up *bridge, cpu int) {
	bus, ok := e.get("busid")
	id, valid := normalPCI(bus)
	switch {
	case !ok:
		rd.fail(e.line, "<pci> has no busid")
		return
	case !valid:
		rd.fail(e.line, "busid %q is no PCI address, want one such as 0000:17:00.0", bus)
		return
	}
	class, classed := e.get("class")
	k := classKind(class)
	switch {
	case e.has("gpu"):
		k = kindGPU
	case e.has("nic"):
		k = kindNIC
	case e.has("pci"):
		k = kindBridge
	case !classed:
		k = kindUnknown
	case k == kindGPU && strings.HasPrefix(class, "0x12") && !rd.amd(e):
		k = kindOther
	}
	if k == kindBridge {
		if rd.over(e.line, "bridges in one host", len(h.bridges), maxBridges) {
			return
		}
		b := &bridge{pci: id, id: deviceID(e), up: up, line: e.line}
		h.bridges = append(h.bridges, b)
		for _, s := range e.kids {
			switch s.name {
			case "pci":
				rd.pci(h, s, b, cpu)
			case "pcilink":
				if rd.over(s.line, "pcilinks in one host", len(h.peers), maxPeers) {
					return
				}
				t, _ := s.get("target")
				h.peers = append(h.peers, peer{b, t, s.line})
			default:
				rd.warn(s.line, "<%.40s> in a bridge ignored", s.name)
			}
		}
		return
	}
	d := &device{bridge: up, cpu: cpu, el: e, kind: k, pci: id}
	h.device(rd, d)
}

// amd says whether a pci element is AMD's.
func (rd *reader) amd(e *element) bool {
	v, _ := e.get("vendor")
	return rd.res.Version == 2 || v == "0x1002"
}

// intAttr reads an integer the way C's strtol with base 0 does, but refuses what is no number at all.
func (rd *reader) intAttr(e *element, name string, need bool, missing int) int {
	s, ok := e.get(name)
	if !ok {
		if need {
			rd.fail(e.line, "<%s> has no %s, which NCCL needs", e.name, name)
		}
		return missing
	}
	v, err := strconv.ParseInt(strings.TrimSpace(s), 0, 32)
	if err != nil {
		if f, ferr := strconv.ParseFloat(strings.TrimSpace(s), 64); ferr == nil && f > -1e9 && f < 1e9 {
			return int(f)
		}
		rd.fail(e.line, "<%s> %s=%.40q is no number", e.name, name, s)
		return missing
	}
	return int(v)
}

// link reads a slot: what the file states, and what NCCL takes it for.
func (rd *reader) link(e *element) (stated, nccl topology.PCIeLink, bw units.Bandwidth) {
	speed, okS := e.get("link_speed")
	_, okW := e.get("link_width")
	width := rd.intAttr(e, "link_width", false, 0)
	if width < 0 || width > 64 {
		rd.warn(e.line, "link_width %d is no PCIe width: taken as unknown", width)
		width = 0
	}
	stated = topology.PCIeLink{Gen: statedGen(speed), Width: width}
	if !okS && !okW {
		return stated, nccl, 0
	}
	nccl, bw = NCCLLink(speed, width)
	if okS && stated.Gen != nccl.Gen {
		if stated.Gen != 0 {
			rd.warn(e.line, "NCCL takes link_speed %q for Gen%d, it knows %q", speed, nccl.Gen, speedString(stated.Gen))
		} else if strings.TrimSpace(speed) != "" && !strings.HasPrefix(speed, "Unknown") {
			rd.warn(e.line, "link_speed %.40q is not known: NCCL takes it for Gen%d", speed, nccl.Gen)
		}
	}
	return stated, nccl, bw
}
