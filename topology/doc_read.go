package topology

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"rankmap/internal/hardware"
	"rankmap/internal/strictyaml"
	"rankmap/internal/units"
)

// ReadYAML reads a cluster document of at most 4 MiB. name stands in errors, which list all problems with their lines.
// cat may be nil, as for Finish.
func ReadYAML(r io.Reader, name string, cat *hardware.Catalog) (*Cluster, error) {
	d, err := ReadDoc(r, name)
	if err != nil {
		return nil, err
	}
	return d.Cluster(name, cat)
}

// ReadDoc reads a cluster document without turning it into a Cluster.
func ReadDoc(r io.Reader, name string) (*Doc, error) {
	d := new(Doc)
	if err := strictyaml.Read(r, name, strictyaml.HandWritten, d); err != nil {
		return nil, err
	}
	if d.APIVersion != APIVersion || d.Kind != KindCluster {
		return nil, fmt.Errorf("%s: apiVersion %q, kind %q: want %q and %q", name, d.APIVersion, d.Kind, APIVersion, KindCluster)
	}
	return d, nil
}

// docReader turns a Doc into a Cluster and keeps the lines for errors.
type docReader struct {
	doc   *Doc
	name  string
	c     *Cluster
	p     problems
	class map[string]int
	lines struct {
		class []int
		node  []int32 // index in doc.Nodes
	}
}

// Cluster builds and finishes the cluster. name stands in errors. Cost: the nodes and, once a class, its matrices.
func (d *Doc) Cluster(name string, cat *hardware.Catalog) (*Cluster, error) {
	r := &docReader{doc: d, name: name, c: &Cluster{Name: d.Name}, class: map[string]int{}}
	for i := range d.Classes {
		r.readClass(&d.Classes[i])
	}
	r.readNodes()
	r.readFabric()
	for _, f := range d.Facts {
		r.c.Facts = append(r.c.Facts, Fact(f))
	}
	if err := r.p.err(nil); err != nil {
		return nil, err
	}
	if err := r.c.finish(cat, r.where); err != nil {
		return nil, err
	}
	return r.c, nil
}

// where puts a problem's place in words: file and line.
func (r *docReader) where(at place) string {
	line := 0
	switch {
	case at.node >= 0 && at.node < len(r.lines.node):
		line = r.doc.Nodes[r.lines.node[at.node]].Line
	case at.class >= 0 && at.class < len(r.doc.Classes):
		k := &r.doc.Classes[at.class]
		line = k.Line
		if at.link >= 0 && k.NVLink != nil && at.link < len(k.NVLink.Pairs) {
			line = k.NVLink.Pairs[at.link].Line
		}
	}
	if line == 0 {
		return r.name
	}
	return r.name + ":" + strconv.Itoa(line)
}

func (r *docReader) errorf(line int, format string, args ...any) {
	r.p.add("%s:%d: "+format, append([]any{r.name, line}, args...)...)
}

func (r *docReader) readClass(d *ClassDoc) {
	if at, dup := r.class[d.Name]; dup {
		r.errorf(d.Line, "class %q is described twice, first in line %d", d.Name, r.doc.Classes[at].Line)
	}
	r.class[d.Name] = len(r.c.Classes)
	k := NodeClass{Name: d.Name, Sockets: d.Sockets, CPUModel: d.CPUModel, Virtual: d.Virtual}
	for i := range d.GPUs {
		r.readGPU(&k, &d.GPUs[i])
	}
	for i := range d.NICs {
		r.readNIC(&k, &d.NICs[i])
	}
	for _, s := range d.Switches {
		for _, name := range r.expand(s.Line, s.Names, -1) {
			k.Switches = append(k.Switches, Switch{Name: name, Kind: s.Kind, PCI: s.PCI})
		}
	}
	if len(k.GPUs) <= maxParts && len(k.NICs) <= maxParts { // else check refuses it
		r.readNVLink(&k, d)
		r.readDistances(&k, d)
	}
	r.c.Classes = append(r.c.Classes, k)
}

func (r *docReader) readGPU(k *NodeClass, d *GPUDoc) {
	n := max(1, d.Count)
	if len(k.GPUs)+n > maxParts+1 {
		r.errorf(d.Line, "class %q: more than %d GPUs in one node", k.Name, maxParts)
		return
	}
	if n > 1 && (d.UUID != "" || d.PCI != "") {
		r.errorf(d.Line, "class %q: %d GPUs cannot share one uuid or pci: list them one by one", k.Name, n)
	}
	first := or(d.Index, len(k.GPUs))
	for i := range n {
		g := GPU{Index: first + i, Model: d.Model, Name: d.Name, UUID: d.UUID, PCI: d.PCI, NUMA: or(d.NUMA, -1), NUMARange: d.NUMARange,
			GPUNUMA: or(d.GPUNUMA, -1), CPUAffinity: d.CPUAffinity, Memory: units.Bytes(d.MemoryBytes), MIG: d.MIG, NoP2P: d.NoP2P,
			Clique: d.Clique, FabricState: d.FabricState, NVLinksUp: d.NVLinksUp, Bad: d.Bad}
		if d.PCIe != nil {
			g.PCIe = PCIeLink(*d.PCIe)
		}
		if d.Compute != nil {
			g.ComputeMajor, g.ComputeMinor = d.Compute.Major, d.Compute.Minor
		}
		k.GPUs = append(k.GPUs, g)
	}
}

func (r *docReader) readNIC(k *NodeClass, d *NICDoc) {
	n := max(1, d.Count)
	if len(k.NICs)+n > maxParts+1 {
		r.errorf(d.Line, "class %q: more than %d NICs in one node", k.Name, maxParts)
		return
	}
	if n > 1 && (d.PCI != "" || d.GUID != "" || d.NetDev != "") {
		r.errorf(d.Line, "class %q: %d NICs cannot share one pci, guid or netdev: list them one by one", k.Name, n)
	}
	if d.Name != "" && (d.Names != "" || n > 1) || d.Device != "" && (d.Devices != "" || n > 1) {
		r.errorf(d.Line, "class %q: name and device are for one NIC, names and devices for %d", k.Name, n)
	}
	first := or(d.Index, len(k.NICs))
	names, devices := r.expand(d.Line, d.Names, n), r.expand(d.Line, d.Devices, n)
	for i := range n {
		x := NIC{Index: first + i, Name: "NIC" + strconv.Itoa(first+i), Device: d.Device, PCI: d.PCI, NUMA: or(d.NUMA, -1), LinkLayer: d.LinkLayer,
			State: d.State, Firmware: d.Firmware, GUID: d.GUID, NetDev: d.NetDev, Rail: -1, Bad: d.Bad}
		if d.Name != "" {
			x.Name = d.Name
		}
		if i < len(names) {
			x.Name = names[i]
		}
		if i < len(devices) {
			x.Device = devices[i]
		}
		if d.Rate != nil {
			x.Rate = units.Bandwidth(*d.Rate)
		}
		if d.Rail != nil {
			x.Rail = *d.Rail + i
		}
		if d.PCIe != nil {
			x.PCIe = PCIeLink(*d.PCIe)
		}
		k.NICs = append(k.NICs, x)
	}
}

// expand expands a host list of want names; -1 takes any number.
func (r *docReader) expand(line int, list string, want int) []string {
	if list == "" {
		return nil
	}
	names, err := ExpandHosts(list)
	if err != nil {
		r.errorf(line, "%w", err)
		return nil
	}
	if want >= 0 && len(names) != want {
		r.errorf(line, "%q are %d names, want %d", clip(list), len(names), want)
	}
	return names
}

func (r *docReader) readNVLink(k *NodeClass, d *ClassDoc) {
	v := d.NVLink
	if v == nil {
		return
	}
	k.LinkScale = v.Scale
	if v.Wiring != nil {
		k.Wiring = *v.Wiring
	}
	if len(v.Pairs) > 0 && (v.Links > 0 || v.GBps > 0) {
		r.errorf(v.Line, "class %q: give links for all pairs, or pairs one by one, not both", k.Name)
		return
	}
	for _, p := range v.Pairs {
		k.NVLinks = append(k.NVLinks, NVLink{A: p.A, B: p.B, Count: p.Count, Down: p.Down, PerLink: units.GBps(p.GBps)})
	}
	for a := range k.GPUs {
		for b := a + 1; b < len(k.GPUs) && v.Links > 0; b++ {
			k.NVLinks = append(k.NVLinks, NVLink{A: a, B: b, Count: v.Links, PerLink: units.GBps(v.GBps)})
		}
	}
}

func (r *docReader) readDistances(k *NodeClass, d *ClassDoc) {
	k.GPUPaths, k.PCIePaths, k.NICPaths = rows(d.GPUPaths), rows(d.PCIePaths), rows(d.NICPaths)
	x := d.Distances
	if x == nil {
		return
	}
	for _, kind := range []PathKind{x.SameSwitch, x.SameNUMA, x.Far} {
		if !kind.IsPCIe() {
			r.errorf(x.Line, "class %q: distance %s: want PIX, PXB, PHB, NODE or SYS", k.Name, kind)
		}
	}
	if d.GPUPaths == nil && d.PCIePaths == nil {
		k.GPUPaths = newMatrix(len(k.GPUs), len(k.GPUs))
		for a := range k.GPUs {
			for b := range k.GPUs {
				if a != b {
					k.GPUPaths[a][b] = x.between(a, len(k.GPUs), b, len(k.GPUs), k.GPUs[a].NUMA, k.GPUs[b].NUMA)
				}
			}
		}
	}
	if d.NICPaths == nil && len(k.NICs) > 0 {
		k.NICPaths = newMatrix(len(k.GPUs), len(k.NICs))
		for a := range k.GPUs {
			for b := range k.NICs {
				k.NICPaths[a][b] = x.between(a, len(k.GPUs), b, len(k.NICs), k.GPUs[a].NUMA, k.NICs[b].NUMA)
			}
		}
	}
}

// between is the distance of part a of n to part b of m.
func (x *DistancesDoc) between(a, n, b, m, numaA, numaB int) PathKind {
	switch {
	case a*x.Switches/n == b*x.Switches/m:
		return x.SameSwitch
	case numaA == numaB:
		return x.SameNUMA
	}
	return x.Far
}

func rows(in []PathRow) [][]PathKind {
	if in == nil {
		return nil
	}
	out := make([][]PathKind, len(in))
	for i, r := range in {
		out[i] = r
	}
	return out
}

func (r *docReader) readNodes() {
	for i := range r.doc.Nodes {
		d := &r.doc.Nodes[i]
		class, ok := r.class[d.Class]
		if !ok {
			var known []string
			for _, k := range r.doc.Classes {
				known = append(known, k.Name)
			}
			r.errorf(d.Line, "unknown class %q%s", d.Class, strictyaml.DidYouMean(d.Class, known))
			continue
		}
		names := []string{d.Name}
		if d.Hosts != "" {
			names = r.expand(d.Line, d.Hosts, -1)
		}
		if (d.Hosts == "") == (d.Name == "") {
			r.errorf(d.Line, "give either hosts or name")
			continue
		}
		if len(r.c.Nodes)+len(names) > maxNodes {
			r.errorf(d.Line, "more than %d nodes", maxNodes)
			return
		}
		if len(names) > 1 && (d.GPUs != nil || d.NICs != nil) {
			r.errorf(d.Line, "%d hosts cannot share identities: list them one by one", len(names))
		}
		for _, name := range names {
			r.c.Nodes = append(r.c.Nodes, Node{Name: name, Class: class, Clique: d.Clique, Leaf: d.Leaf, Pod: d.Pod, Rack: d.Rack, Bad: d.Bad,
				GPUIdents: readIdents(d.GPUs), NICIdents: readIdents(d.NICs)})
			r.lines.node = append(r.lines.node, int32(i))
		}
	}
}

func readIdents(in []IdentDoc) []Ident {
	if in == nil {
		return nil
	}
	out := make([]Ident, len(in))
	for i, d := range in {
		out[i] = Ident{Index: d.Index, Name: d.Name, Device: d.Device, PCI: d.PCI, UUID: d.UUID, NetDev: d.NetDev, NUMA: or(d.NUMA, -1), CPUAffinity: d.CPUAffinity}
	}
	return out
}

func (r *docReader) readFabric() {
	d := r.doc.Fabric
	if d == nil {
		return
	}
	f := &r.c.Fabric
	f.Kind, f.SHARP = d.Kind, d.SHARP
	if d.NICRate != nil {
		f.NICRate = units.Bandwidth(*d.NICRate)
	}
	f.NVSwitches = r.expand(d.Line, d.NVSwitches, -1)
	for _, t := range d.Tiers {
		tier := Tier{Name: t.Name, Oversubscription: t.Oversubscription, RailOptimized: t.RailOptimized}
		for _, s := range t.Switches {
			tier.Switches = append(tier.Switches, r.expand(d.Line, s, -1)...)
		}
		f.Tiers = append(f.Tiers, tier)
	}
}

func or(p *int, otherwise int) int {
	if p == nil {
		return otherwise
	}
	return *p
}

// Version is a compute capability, "9.0".
type Version struct{ Major, Minor int }

// MarshalText writes "9.0".
func (v Version) MarshalText() ([]byte, error) {
	return []byte(strconv.Itoa(v.Major) + "." + strconv.Itoa(v.Minor)), nil
}

// UnmarshalText reads "9.0".
func (v *Version) UnmarshalText(b []byte) error {
	major, minor, _ := strings.Cut(string(b), ".")
	x, errX := strconv.ParseUint(major, 10, 16)
	y, errY := strconv.ParseUint(minor, 10, 16)
	if errX != nil || errY != nil {
		return fmt.Errorf("compute capability %q: want two numbers such as 9.0", clip(string(b)))
	}
	v.Major, v.Minor = int(x), int(y)
	return nil
}

var fabricKinds = []FabricKind{FabricInfiniBand, FabricRoCE, FabricEFA, FabricSlingshot, FabricTCP}

// UnmarshalText reads a fabric's name; case does not matter.
func (k *FabricKind) UnmarshalText(b []byte) error {
	var known []string
	for _, f := range fabricKinds {
		if strings.EqualFold(string(f), string(b)) {
			*k = f
			return nil
		}
		known = append(known, string(f))
	}
	return fmt.Errorf("unknown fabric %q%s", clip(string(b)), strictyaml.DidYouMean(string(b), known))
}
