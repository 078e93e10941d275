package fabric

import (
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"

	"rankmap/topology"
)

// Limits of a tree: a bus number has 8 bits, a domain 16; relations grow with the square of GPUs.
const (
	maxPCI     = 1 << 17
	maxPCIGPUs = 512
	maxPCINICs = 4096
)

// LSPCI reads lspci -tv: the PCI tree of one host, with the names of devices. GPUs and NICs are told by name. Distances
// within one host bridge are stated (PIX, PXB, PHB); between host bridges they are unknown, for lspci shows no NUMA nodes.
func LSPCI(r io.Reader, name string) (*Result, error) {
	data, err := load(r, name, maxDump)
	if err != nil {
		return nil, err
	}
	p := &pciReader{notes: &notes{name: name}, branch: map[int]*pciNode{}, top: &pciNode{}}
	lines(data, p.line)
	if len(p.nodes) == 0 {
		p.fail(1, "no PCI tree such as \"-[0000:00]-+-00.0\": not the output of lspci -tv")
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	res := p.result()
	return res, p.err()
}

// pciNode is a host bridge, a bridge or a device.
type pciNode struct {
	up     *pciNode // nil for a host bridge
	domain uint64
	bus    uint64 // the bus its children are on
	pci    string
	text   string
	bridge bool
	line   int
	order  int
}

// pciReader reads the drawing. Children of one bus are drawn below each other: the first on the line of its bridge
// behind "-+-", the others in later lines behind "+-" or "\-" in the same column. branch says whose children a column
// holds.
type pciReader struct {
	*notes
	branch map[int]*pciNode
	top    *pciNode // above the host bridges
	nodes  []*pciNode
	began  bool
}

func (p *pciReader) line(no int, s string) {
	if !p.began {
		t := strings.TrimLeft(s, " \t")
		if !strings.HasPrefix(t, "-[") && !strings.HasPrefix(t, "-+-[") {
			return // prompts and titles before the tree
		}
		p.began = true
	}
	at := 0
	for at < len(s) && (s[at] == ' ' || s[at] == '|' || s[at] == '\t') {
		at++
	}
	if at == len(s) || s[at] != '+' && s[at] != '\\' && s[at] != '-' {
		return // text behind the tree
	}
	parent := p.branch[at]
	if parent == nil {
		if s[at] != '-' {
			p.warn(no, "a branch in column %d that no bus above has: ignored", at+1)
			return
		}
		parent = p.top
	}
	p.walk(no, s, at, parent)
}

// walk reads the chain of one line from a connector on.
func (p *pciReader) walk(no int, s string, at int, parent *pciNode) {
	for {
		for at < len(s) && (s[at] == '-' || s[at] == '\\' || s[at] == '+') {
			if s[at] == '+' {
				p.branch[at] = parent
			}
			at++
		}
		if at >= len(s) || len(p.nodes) >= maxPCI {
			return
		}
		n := &pciNode{up: parent, line: no, order: len(p.nodes)}
		if s[at] == '[' { // host bridge, "[0000:00]"
			end := strings.IndexByte(s[at:], ']')
			if end < 0 || !n.root(s[at+1:at+end]) {
				p.warn(no, "%q is no host bridge: ignored", clip(s[at:]))
				return
			}
			n.up = nil
			at += end + 1
		} else {
			if parent == p.top || !n.device(s[at:], parent) {
				p.warn(no, "%q is no device such as 00.0: ignored", clip(s[at:]))
				return
			}
			at += 4
			if strings.HasPrefix(s[at:], "-[") {
				end := strings.IndexByte(s[at:], ']')
				bus, ok := uint64(0), false
				if end > 0 {
					first, _, _ := strings.Cut(s[at+2:at+end], "-")
					var err error
					bus, err = strconv.ParseUint(strings.TrimPrefix(first, fmt.Sprintf("%04x:", parent.domain)), 16, 8)
					ok = err == nil
				}
				if !ok {
					p.warn(no, "%q is no bus range: ignored", clip(s[at:]))
					return
				}
				n.bridge, n.bus = true, bus
				at += end + 1
			} else {
				n.text = strings.TrimSpace(s[at:])
				at = len(s)
			}
		}
		p.nodes = append(p.nodes, n)
		parent = n
		if at >= len(s) || s[at] != '-' && s[at] != '+' {
			return
		}
	}
}

// root reads "0000:00" or, on machines with one domain, "00".
func (n *pciNode) root(s string) bool {
	dom, bus, ok := strings.Cut(s, ":")
	if !ok {
		dom, bus = "0", s
	}
	d, err1 := strconv.ParseUint(dom, 16, 32)
	b, err2 := strconv.ParseUint(bus, 16, 8)
	n.domain, n.bus, n.bridge = d, b, true
	return err1 == nil && err2 == nil
}

// device reads "01.1" below a parent.
func (n *pciNode) device(s string, parent *pciNode) bool {
	if len(s) < 4 || s[2] != '.' {
		return false
	}
	dev, err1 := strconv.ParseUint(s[:2], 16, 8)
	fn, err2 := strconv.ParseUint(s[3:4], 16, 4)
	n.domain = parent.domain
	n.pci = fmt.Sprintf("%08x:%02x:%02x.%x", parent.domain, parent.bus, dev, fn)
	return err1 == nil && err2 == nil
}

// result picks GPUs, NICs and NVSwitches and fills their relations.
func (p *pciReader) result() *Result {
	res := &Result{Kind: KindLSPCI, Format: "tree", Node: &topology.NodeClass{Wiring: topology.NVLinkUnknown}}
	c := res.Node
	var gpus, nics []*pciNode
	for _, n := range p.nodes {
		switch pciKind(n.text) {
		case "gpu":
			gpus = append(gpus, n)
		case "nic":
			nics = append(nics, n)
		case "nvswitch":
			c.Switches = append(c.Switches, topology.Switch{Name: fmt.Sprintf("NVSwitch%d", len(c.Switches)), Kind: topology.NVSwitch, PCI: n.pci})
		}
	}
	if len(gpus) > maxPCIGPUs || len(nics) > maxPCINICs {
		p.fail(0, "%d GPUs and %d NICs: the limits are %d and %d", len(gpus), len(nics), maxPCIGPUs, maxPCINICs)
		return nil
	}
	byPCI := func(l []*pciNode) {
		sort.SliceStable(l, func(i, j int) bool { return l[i].pci < l[j].pci })
	}
	byPCI(gpus)
	byPCI(nics)
	fact := func(n *pciNode, what, value string) {
		res.Facts = append(res.Facts, topology.Fact{What: what, Value: value, Source: fmt.Sprintf("%s:%s:%d", KindLSPCI, p.name, n.line)})
	}
	for i, n := range gpus {
		name, model := gpuName(n.text)
		c.GPUs = append(c.GPUs, topology.GPU{Index: i, Name: name, Model: model, PCI: n.pci, NUMA: -1, GPUNUMA: -1})
		fact(n, fmt.Sprintf("GPU%d PCI", i), n.pci)
	}
	for i, n := range nics {
		layer := ""
		if strings.Contains(n.text, "Ethernet") {
			layer = "Ethernet"
		}
		c.NICs = append(c.NICs, topology.NIC{Index: i, Name: fmt.Sprintf("NIC%d", i), PCI: n.pci, NUMA: -1, Rail: -1, LinkLayer: layer})
		fact(n, fmt.Sprintf("NIC%d PCI", i), n.pci)
	}
	split := false
	c.GPUPaths, c.NICPaths = make([][]topology.PathKind, len(gpus)), make([][]topology.PathKind, len(gpus))
	for i, g := range gpus {
		c.GPUPaths[i], c.NICPaths[i] = make([]topology.PathKind, len(gpus)), make([]topology.PathKind, len(nics))
		for j, o := range gpus {
			c.GPUPaths[i][j] = pciRelation(g, o)
			split = split || c.GPUPaths[i][j] == topology.PathUnknown
		}
		for j, o := range nics {
			c.NICPaths[i][j] = pciRelation(g, o)
			split = split || c.NICPaths[i][j] == topology.PathUnknown
		}
	}
	if len(gpus) == 0 {
		p.warn(0, "no GPU in the tree (lspci -tv names devices, lspci -t does not)")
	}
	if split {
		p.warn(0, "devices hang on several host bridges: lspci shows no NUMA nodes, their distance is unknown")
	}
	if len(gpus) > 0 {
		p.warn(0, "NVLink is not shown by lspci")
	}
	res.Warnings = p.texts(p.warns)
	return res
}

// pciRelation is the relation of two devices in nvidia-smi's words: PIX when each is at most one bridge below the one
// they share (a switch shows as an upstream port over downstream ports), PXB when farther, PHB when they share only the
// host bridge.
func pciRelation(a, b *pciNode) topology.PathKind {
	if a == b {
		return topology.PathSelf
	}
	depth := map[*pciNode]int{}
	i := 0
	for x := a.up; x != nil; x = x.up {
		depth[x] = i
		i++
	}
	j := 0
	for y := b.up; y != nil; y = y.up {
		if i, ok := depth[y]; ok {
			switch {
			case y.up == nil:
				return topology.PathPHB
			case i <= 1 && j <= 1:
				return topology.PathPIX
			}
			return topology.PathPXB
		}
		j++
	}
	return topology.PathUnknown
}
