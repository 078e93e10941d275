package topology

import (
	"io"
	"strconv"
	"strings"

	"rankmap/internal/strictyaml"
	"rankmap/internal/units"
)

// WriteYAML writes the cluster document of c. Equal clusters give equal bytes.
func WriteYAML(w io.Writer, c *Cluster) error {
	d := NewDoc(c)
	d.APIVersion, d.Kind = APIVersion, KindCluster
	return strictyaml.Write(w, d)
}

// MarshalYAML lets documents that contain a cluster write it as WriteYAML does.
func (d *Doc) MarshalYAML() (any, error) { return strictyaml.Node(d) }

// NewDoc puts a finished cluster in compact form, without apiVersion and kind.
func NewDoc(c *Cluster) *Doc {
	d := &Doc{Name: c.Name}
	for i := range c.Classes {
		d.Classes = append(d.Classes, newClassDoc(&c.Classes[i]))
	}
	for i := 0; i < len(c.Nodes); {
		n := &c.Nodes[i]
		names := []string{n.Name}
		for i++; i < len(c.Nodes) && sameButName(n, &c.Nodes[i]) && listable(n.Name) && listable(c.Nodes[i].Name); i++ {
			names = append(names, c.Nodes[i].Name)
		}
		nd := NodeDoc{Class: c.Classes[n.Class].Name, Clique: n.Clique, Leaf: n.Leaf, Pod: n.Pod, Rack: n.Rack, Bad: n.Bad,
			GPUs: newIdentDocs(n.GPUIdents), NICs: newIdentDocs(n.NICIdents)}
		if listable(n.Name) {
			nd.Hosts = CompressHosts(names)
		} else {
			nd.Name = n.Name
		}
		d.Nodes = append(d.Nodes, nd)
	}
	if f := &c.Fabric; f.Kind != "" || f.NICRate != 0 || len(f.Tiers) > 0 || len(f.NVSwitches) > 0 || f.SHARP {
		d.Fabric = &FabricDoc{Kind: f.Kind, SHARP: f.SHARP, NICRate: newRate(f.NICRate), NVSwitches: CompressHosts(f.NVSwitches)}
		for _, t := range f.Tiers {
			td := TierDoc{Name: t.Name, Oversubscription: t.Oversubscription, RailOptimized: t.RailOptimized}
			if len(t.Switches) > 0 {
				td.Switches = []string{CompressHosts(t.Switches)}
			}
			d.Fabric.Tiers = append(d.Fabric.Tiers, td)
		}
	}
	for _, f := range c.Facts {
		d.Facts = append(d.Facts, FactDoc(f))
	}
	return d
}

// listable says whether a name means itself in a host list.
func listable(name string) bool {
	return name != "" && !strings.ContainsAny(name, "[],") && strings.TrimSpace(name) == name
}

func sameButName(a, b *Node) bool {
	return a.Class == b.Class && a.Clique == b.Clique && a.Leaf == b.Leaf && a.Pod == b.Pod && a.Rack == b.Rack && a.Bad == b.Bad &&
		a.GPUIdents == nil && b.GPUIdents == nil && a.NICIdents == nil && b.NICIdents == nil
}

func newClassDoc(k *NodeClass) ClassDoc {
	d := ClassDoc{Name: k.Name, Sockets: k.Sockets, CPUModel: k.CPUModel, Virtual: k.Virtual}
	for i := 0; i < len(k.GPUs); {
		g := k.GPUs[i]
		n := 1
		for i+n < len(k.GPUs) && g.UUID == "" && g.PCI == "" {
			next := k.GPUs[i+n]
			next.Index -= n
			if next != g {
				break
			}
			n++
		}
		d.GPUs = append(d.GPUs, newGPUDoc(&g, i, n))
		i += n
	}
	for i := 0; i < len(k.NICs); {
		n := nicRun(k.NICs[i:])
		d.NICs = append(d.NICs, newNICDoc(k.NICs[i:i+n], i))
		i += n
	}
	for _, s := range k.Switches {
		d.Switches = append(d.Switches, SwitchDoc{Kind: s.Kind, Names: s.Name, PCI: s.PCI})
	}
	d.NVLink = newNVLinkDoc(k)
	d.GPUPaths, d.PCIePaths, d.NICPaths = pathRows(k.GPUPaths), pathRows(k.PCIePaths), pathRows(k.NICPaths)
	return d
}

func pathRows(m [][]PathKind) []PathRow {
	var out []PathRow
	for _, r := range m {
		out = append(out, r)
	}
	return out
}

func newGPUDoc(g *GPU, position, count int) GPUDoc {
	d := GPUDoc{Model: g.Model, Name: g.Name, UUID: g.UUID, PCI: g.PCI, NUMA: known(g.NUMA), NUMARange: g.NUMARange, GPUNUMA: known(g.GPUNUMA),
		CPUAffinity: g.CPUAffinity, MemoryBytes: int64(g.Memory), MIG: g.MIG, NoP2P: g.NoP2P, Clique: g.Clique, FabricState: g.FabricState,
		NVLinksUp: g.NVLinksUp, PCIe: newPCIeDoc(g.PCIe), Bad: g.Bad}
	if count > 1 {
		d.Count = count
	}
	if g.Index != position {
		d.Index = &g.Index
	}
	if g.ComputeMajor != 0 || g.ComputeMinor != 0 {
		d.Compute = &Version{g.ComputeMajor, g.ComputeMinor}
	}
	return d
}

// nicRun is how many NICs from the first on one NICDoc can describe.
func nicRun(nics []NIC) int {
	first := nics[0]
	if first.PCI != "" || first.GUID != "" || first.NetDev != "" || !listable(first.Name) {
		return 1
	}
	n := 1
	for n < len(nics) {
		x := nics[n]
		if !listable(x.Name) || (x.Device == "") != (first.Device == "") || x.Device != "" && !listable(x.Device) {
			break
		}
		if first.Rail >= 0 {
			x.Rail -= n
		}
		x.Index -= n
		x.Name, x.Device = first.Name, first.Device
		if x != first || first.Device != "" && !listable(first.Device) {
			break
		}
		n++
	}
	return n
}

func newNICDoc(run []NIC, position int) NICDoc {
	x := &run[0]
	d := NICDoc{PCI: x.PCI, NUMA: known(x.NUMA), Rate: newRate(x.Rate), LinkLayer: x.LinkLayer, State: x.State, Firmware: x.Firmware,
		GUID: x.GUID, NetDev: x.NetDev, Rail: known(x.Rail), PCIe: newPCIeDoc(x.PCIe), Bad: x.Bad}
	if len(run) > 1 {
		d.Count = len(run)
	}
	if x.Index != position {
		d.Index = &x.Index
	}
	var names, devices []string
	plain := true
	for i := range run {
		names, devices = append(names, run[i].Name), append(devices, run[i].Device)
		plain = plain && run[i].Name == "NIC"+strconv.Itoa(run[i].Index)
	}
	if len(run) == 1 {
		d.Device = x.Device
		if !plain {
			d.Name = x.Name
		}
		return d
	}
	if !plain {
		d.Names = CompressHosts(names)
	}
	if x.Device != "" {
		d.Devices = CompressHosts(devices)
	}
	return d
}

func newNVLinkDoc(k *NodeClass) *NVLinkDoc {
	if k.Wiring == NVLinkNone && len(k.NVLinks) == 0 && k.LinkScale == 0 {
		return nil
	}
	w := k.Wiring
	d := &NVLinkDoc{Wiring: &w, Scale: k.LinkScale}
	n := len(k.GPUs)
	uniform := len(k.NVLinks) == n*(n-1)/2 && len(k.NVLinks) > 0
	for _, l := range k.NVLinks {
		uniform = uniform && l.Down == 0 && l.Count > 0 && l.Count == k.NVLinks[0].Count && l.PerLink == k.NVLinks[0].PerLink
	}
	if uniform {
		d.Links, d.GBps = k.NVLinks[0].Count, exactGBps(k.NVLinks[0].PerLink)
		return d
	}
	for _, l := range k.NVLinks {
		d.Pairs = append(d.Pairs, PairDoc{A: l.A, B: l.B, Count: l.Count, Down: l.Down, GBps: exactGBps(l.PerLink)})
	}
	return d
}

func newIdentDocs(in []Ident) []IdentDoc {
	var out []IdentDoc
	for _, x := range in {
		out = append(out, IdentDoc{Index: x.Index, Name: x.Name, Device: x.Device, PCI: x.PCI, UUID: x.UUID, NetDev: x.NetDev, NUMA: known(x.NUMA), CPUAffinity: x.CPUAffinity})
	}
	return out
}

func newPCIeDoc(l PCIeLink) *PCIeDoc {
	if l == (PCIeLink{}) {
		return nil
	}
	d := PCIeDoc(l)
	return &d
}

func newRate(b units.Bandwidth) *Rate {
	if b == 0 {
		return nil
	}
	r := Rate(b)
	return &r
}

// known returns nil for -1.
func known(v int) *int {
	if v < 0 {
		return nil
	}
	return &v
}

// exactGBps is the shortest decimal that units.GBps turns back into b.
func exactGBps(b units.Bandwidth) float64 {
	v, _ := strconv.ParseFloat(shortest(b.GBps(), func(v float64) bool { return units.GBps(v) == b }), 64)
	return v
}

// shortest prints v with the fewest digits for which same holds.
func shortest(v float64, same func(float64) bool) string {
	for digits := 1; digits < 17; digits++ {
		s := strconv.FormatFloat(v, 'g', digits, 64)
		if f, err := strconv.ParseFloat(s, 64); err == nil && same(f) {
			return strconv.FormatFloat(f, 'f', -1, 64)
		}
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
