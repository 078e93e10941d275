package ncclxml

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"strconv"
	"strings"

	"rankmap/topology"
)

// WriteOptions adds what a node class does not hold.
type WriteOptions struct {
	// HostHash ties the file to one machine: NCCL refuses a file whose hashes are all foreign. Empty makes a file that
	// every equal machine takes.
	HostHash string
	// Comment goes before the root, one line each.
	Comment []string
}

// Write writes a node class as XML that NCCL takes through NCCL_TOPO_FILE and that Read reads back equal in every
// field the format can hold (not: UUIDs, memory, MIG, firmware, sockets). What the class does not state is left out,
// for NCCL to ask the driver and sysfs; a class whose wiring is unknown gets gpu elements without links and ranks. The
// PCIe tree is made of virtual bridges that give the class's distances. The bytes depend on the class and the options
// only. An error says what cannot be expressed: distances that no tree has, limits of NCCL's parser, GPUs without a
// PCI id.
func Write(w io.Writer, node *topology.NodeClass, opts WriteOptions) error {
	b := &builder{node: node, opts: opts}
	if err := b.check(); err != nil {
		return err
	}
	b.place()
	if err := b.verify(); err != nil {
		return err
	}
	var buf bytes.Buffer
	for _, c := range opts.Comment {
		fmt.Fprintf(&buf, "<!-- %s -->\n", strings.ReplaceAll(strings.Map(printable, c), "--", "- -"))
	}
	if err := b.emit(&buf, b.system(), 0); err != nil {
		return err
	}
	_, err := w.Write(buf.Bytes())
	return err
}

func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}

// builder holds one Write.
type builder struct {
	node *topology.NodeClass
	opts WriteOptions
	cpus []*cpuPart
	bus  int // virtual bridges made
}

// part is a device to place: GPU i, or NIC i.
type part struct {
	gpu bool
	i   int
}

// cpuPart is a cpu element: groups of devices by PXB, in them by PIX.
type cpuPart struct {
	numa  int
	outer [][][]part
	bare  []int // NICs without a PCI id
}

// check refuses what NCCL's format cannot hold.
func (b *builder) check() error {
	var errs []error
	seen := map[string]string{}
	for i := range b.node.GPUs {
		id := b.node.GPUs[i].PCI
		if _, ok := normalPCI(id); !ok {
			errs = append(errs, fmt.Errorf("gpu %d: no PCI id (%q), NCCL finds GPUs by it", i, id))
		} else if o := seen[id]; o != "" {
			errs = append(errs, fmt.Errorf("gpu %d: PCI id %s is %s's already", i, id, o))
		}
		seen[id] = fmt.Sprintf("gpu %d", i)
	}
	for i := range b.node.NICs {
		n := &b.node.NICs[i]
		if n.PCI == "" {
			continue
		}
		if _, ok := normalPCI(n.PCI); !ok {
			errs = append(errs, fmt.Errorf("nic %d: %q is no PCI id", i, n.PCI))
		} else if o := seen[n.PCI]; strings.HasPrefix(o, "gpu") {
			errs = append(errs, fmt.Errorf("nic %d: PCI id %s is %s's already", i, n.PCI, o))
		}
	}
	if len(b.node.GPUs) > maxChildren || len(b.node.NICs) > maxChildren {
		errs = append(errs, fmt.Errorf("%d GPUs and %d NICs: NCCL's limit is %d children", len(b.node.GPUs), len(b.node.NICs), maxChildren))
	}
	return errors.Join(errs...)
}

// between is the PCIe relation of two parts, PathUnknown where nothing is stated (also between two NICs).
func (b *builder) between(x, y part) topology.PathKind {
	if x.gpu && y.gpu {
		m := b.node.PCIePaths
		if m == nil {
			m = b.node.GPUPaths
		}
		return at(m, x.i, y.i)
	}
	if !x.gpu && !y.gpu {
		nx, ny := &b.node.NICs[x.i], &b.node.NICs[y.i]
		if nx.PCI != "" && nx.PCI == ny.PCI {
			return topology.PathPIX
		}
		return topology.PathUnknown
	}
	if !x.gpu {
		x, y = y, x
	}
	return at(b.node.NICPaths, x.i, y.i)
}

func at(m [][]topology.PathKind, i, j int) topology.PathKind {
	if i >= len(m) || j >= len(m[i]) {
		return topology.PathUnknown
	}
	return m[i][j]
}

// place builds the tree: devices joined by PIX share a bridge, by PXB an outer bridge, by PHB (or by NUMA node) a CPU.
func (b *builder) place() {
	var parts []part
	for i := range b.node.GPUs {
		parts = append(parts, part{true, i})
	}
	for i := range b.node.NICs {
		if b.node.NICs[i].PCI != "" {
			parts = append(parts, part{false, i})
		}
	}
	for _, group := range b.cluster(parts, topology.PathPHB) {
		c := b.cpu(b.numaOf(group))
		for _, o := range b.cluster(group, topology.PathPXB) {
			c.outer = append(c.outer, b.cluster(o, topology.PathPIX))
		}
	}
	for i := range b.node.NICs {
		if n := &b.node.NICs[i]; n.PCI == "" {
			if len(b.cpus) == 0 {
				b.cpu(-1)
			}
			b.cpus[0].bare = append(b.cpus[0].bare, i)
		}
	}
	if len(b.cpus) == 0 {
		b.cpu(-1)
	}
	b.order()
}

// order puts CPUs and groups by their first NIC: NICs of hand-made classes are numbered by their place in the file,
// GPUs carry their number.
func (b *builder) order() {
	for _, c := range b.cpus {
		for _, o := range c.outer {
			for _, in := range o {
				sort.SliceStable(in, func(i, j int) bool { return b.first(in[i:i+1]) < b.first(in[j:j+1]) })
			}
			sort.SliceStable(o, func(i, j int) bool { return b.first(o[i]) < b.first(o[j]) })
		}
		sort.SliceStable(c.outer, func(i, j int) bool { return b.first(c.outer[i]...) < b.first(c.outer[j]...) })
	}
	sort.SliceStable(b.cpus, func(i, j int) bool { return b.firstOf(b.cpus[i]) < b.firstOf(b.cpus[j]) })
}

// first is the least NIC of some groups, or else the least GPU behind all NICs.
func (b *builder) first(groups ...[]part) int {
	best := math.MaxInt
	for _, g := range groups {
		for _, p := range g {
			k := p.i
			if p.gpu {
				k += len(b.node.NICs)
			}
			best = min(best, k)
		}
	}
	return best
}

func (b *builder) firstOf(c *cpuPart) int {
	best := math.MaxInt
	for _, o := range c.outer {
		best = min(best, b.first(o...))
	}
	return best
}

// cpu finds or makes the CPU of a NUMA node.
func (b *builder) cpu(numa int) *cpuPart {
	for _, c := range b.cpus {
		if c.numa == numa {
			return c
		}
	}
	c := &cpuPart{numa: numa}
	b.cpus = append(b.cpus, c)
	return c
}

func (b *builder) numaOf(group []part) int {
	for _, p := range group {
		n := -1
		if p.gpu {
			n = b.node.GPUs[p.i].NUMA
		} else {
			n = b.node.NICs[p.i].NUMA
		}
		if n >= 0 {
			return n
		}
	}
	return -1
}

// cluster splits parts into groups joined by relations of at most far, in order of their first member.
func (b *builder) cluster(parts []part, far topology.PathKind) [][]part {
	group := make([]int, len(parts))
	for i := range group {
		group[i] = i
	}
	for i := range parts {
		for j := range i {
			r := b.between(parts[i], parts[j])
			if r < topology.PathPIX || r > far {
				continue
			}
			from, to := group[i], group[j]
			for k := range group {
				if group[k] == from {
					group[k] = to
				}
			}
		}
	}
	slot := map[int]int{}
	var out [][]part
	for i, p := range parts {
		s, ok := slot[group[i]]
		if !ok {
			s = len(out)
			slot[group[i]] = s
			out = append(out, nil)
		}
		out[s] = append(out[s], p)
	}
	return out
}

// verify compares the distances that the tree gives with the stated ones.
func (b *builder) verify() error {
	type spot struct{ cpu, outer, inner int }
	where := map[part]spot{}
	for c, u := range b.cpus {
		for o, outer := range u.outer {
			for n, inner := range outer {
				for _, p := range inner {
					where[p] = spot{c, o, n}
				}
			}
		}
	}
	for i := range b.node.GPUs {
		for k := range len(b.node.GPUs) + len(b.node.NICs) {
			x, y := part{true, i}, part{true, k}
			if k >= len(b.node.GPUs) {
				y = part{false, k - len(b.node.GPUs)}
			}
			if x == y || !y.gpu && b.node.NICs[y.i].PCI == "" {
				continue
			}
			want := b.between(x, y)
			if want < topology.PathPIX {
				continue
			}
			p, q := where[x], where[y]
			got := topology.PathSYS
			switch {
			case p == q:
				got = topology.PathPIX
			case p.cpu == q.cpu && p.outer == q.outer:
				got = topology.PathPXB
			case p.cpu == q.cpu:
				got = topology.PathPHB
			}
			if got != want && !(got == topology.PathPHB && want == topology.PathNODE) {
				return fmt.Errorf("%s and %s: stated distances fit no PCIe tree of NCCL's format (this pair would come out nearer or farther)", b.say(x), b.say(y))
			}
		}
	}
	return nil
}

func (b *builder) say(p part) string {
	if p.gpu {
		return fmt.Sprintf("gpu %d", p.i)
	}
	return fmt.Sprintf("nic %d", p.i)
}

// emit prints an element tree the way NCCL does, and holds it to NCCL's limits.
func (b *builder) emit(buf *bytes.Buffer, e *element, depth int) error {
	if len(e.attr) > maxAttrs || len(e.kids) > maxChildren {
		return fmt.Errorf("<%s> with %d attributes and %d children: NCCL's limits are %d and %d", e.name, len(e.attr), len(e.kids), maxAttrs, maxChildren)
	}
	buf.WriteString(strings.Repeat("  ", depth) + "<" + e.name)
	for _, a := range e.attr {
		if err := plainValue(e.name, a); err != nil {
			return err
		}
		buf.WriteString(" " + a.Name.Local + "=\"" + a.Value + "\"")
	}
	if len(e.kids) == 0 {
		buf.WriteString("/>\n")
		return nil
	}
	buf.WriteString(">\n")
	for _, k := range e.kids {
		if err := b.emit(buf, k, depth+1); err != nil {
			return err
		}
	}
	buf.WriteString(strings.Repeat("  ", depth) + "</" + e.name + ">\n")
	return nil
}

// plainValue refuses values that NCCL's parser, which knows no escapes, would misread.
func plainValue(elem string, a xml.Attr) error {
	if len(a.Value) >= maxString {
		return fmt.Errorf("<%s> %s of %d bytes: NCCL's limit is %d", elem, a.Name.Local, len(a.Value), maxString-1)
	}
	for _, r := range a.Value {
		if r < ' ' || r > '~' || strings.ContainsRune(`"'<>&`, r) {
			return fmt.Errorf("<%s> %s=%q: NCCL's parser knows no escapes, want plain ASCII without quotes, < > and &", elem, a.Name.Local, a.Value)
		}
	}
	return nil
}

// mbps is a rate in the Mb/s of a net's speed.
func mbps(n *topology.NIC) string {
	return strconv.FormatInt(int64(math.Round(n.Rate.Gbps()*1000)), 10)
}
