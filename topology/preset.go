package topology

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"rankmap/internal/hardware"
	"rankmap/internal/strictyaml"
	"rankmap/internal/units"
)

// presetDir is where presets lie in the file system given.
const presetDir = "topologies"

// Presets lists the names of the presets in fsys, sorted.
func Presets(fsys fs.FS) []string {
	files, err := fs.Glob(fsys, presetDir+"/*.yaml")
	if err != nil {
		return nil
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = strings.TrimSuffix(path.Base(f), ".yaml")
	}
	return names
}

// IsPreset says whether name, with or without ":N", names a preset.
func IsPreset(fsys fs.FS, name string) bool {
	base, _, _ := strings.Cut(name, ":")
	for _, p := range Presets(fsys) {
		if p == base {
			return true
		}
	}
	return false
}

// ParsePreset splits "hgx-h100:2" into name and count; without count it is 1.
func ParsePreset(s string) (name string, count int, err error) {
	name, n, given := strings.Cut(s, ":")
	if !given {
		return name, 1, nil
	}
	count, err = strconv.Atoi(n)
	if err != nil || count < 1 {
		return "", 0, fmt.Errorf("preset %q: the count after the colon is %q, want a whole number of at least 1", name, n)
	}
	return name, count, nil
}

// Preset returns count units of a preset: boxes, or racks where the preset is a rack. Hosts are numbered on; each rack
// is an NVLink fabric of its own; leaves are shared by as many units as the preset says.
func Preset(fsys fs.FS, name string, count int, cat *hardware.Catalog) (*Cluster, error) {
	file := presetDir + "/" + name + ".yaml"
	f, err := fsys.Open(file)
	if err != nil || strings.ContainsAny(name, "/\\") {
		return nil, fmt.Errorf("unknown preset %q%s", name, strictyaml.DidYouMean(name, Presets(fsys)))
	}
	defer f.Close()
	d, err := ReadDoc(f, file)
	if err != nil {
		return nil, err
	}
	if d.Unit == nil {
		return nil, fmt.Errorf("%s: unit is missing: a preset says what it counts", file)
	}
	c, err := d.Cluster(file, cat)
	if err != nil {
		return nil, err
	}
	if err := c.replicateUnits(count, d.Unit.LeafUnits); err != nil {
		return nil, fmt.Errorf("preset %q: %w", name, err)
	}
	c.Facts = append(c.Facts, Fact{What: "cluster", Value: fmt.Sprintf("%d x %s (%s)", count, name, d.Unit.Kind), Source: "preset " + name})
	return c, c.Finish(cat)
}

// replicateUnits makes count units of what the cluster holds.
func (c *Cluster) replicateUnits(count, leafUnits int) error {
	unit := c.Nodes
	gpus := len(c.gpuNode)
	if count < 1 || count > MaxGPUs/max(1, gpus) {
		return fmt.Errorf("count %d, want 1 to %d", count, MaxGPUs/max(1, gpus))
	}
	prefix, _, _ := splitNumber(unit[0].Name)
	racks, cliques := map[string]int{}, map[string]int{}
	for _, n := range unit {
		if _, ok := racks[n.Rack]; !ok && n.Rack != "" {
			racks[n.Rack] = len(racks)
		}
		if _, ok := cliques[n.Clique]; !ok && n.Clique != "" {
			cliques[n.Clique] = len(cliques)
		}
	}
	nodes := make([]Node, 0, len(unit)*count)
	var leaves []string
	for u := range count {
		su := "su0"
		if leafUnits > 0 {
			su = "su" + strconv.Itoa(u/leafUnits)
		}
		if len(leaves) == 0 || leaves[len(leaves)-1] != su {
			leaves = append(leaves, su)
		}
		for _, n := range unit {
			n.Name = prefix + strconv.Itoa(len(nodes))
			n.Leaf = su
			n.Rack = renamed(racks, n.Rack, u)
			n.Clique = renamed(cliques, n.Clique, u)
			nodes = append(nodes, n)
		}
	}
	c.Nodes = nodes
	if len(c.Fabric.Tiers) > 0 && c.Fabric.Tiers[0].Switches == nil {
		c.Fabric.Tiers[0].Switches = leaves
	}
	return nil
}

// renamed numbers the racks (or NVLink fabrics) of a unit on: rack0, rack1, ...
func renamed(all map[string]int, name string, unit int) string {
	if name == "" {
		return ""
	}
	return "rack" + strconv.Itoa(unit*len(all)+all[name])
}

// Replicate returns a cluster of n nodes of the class, named node0 to node(n-1), on the fabric. With n above 1, UUIDs
// are dropped, since no two GPUs share one.
func Replicate(class NodeClass, n int, fabric Fabric, cat *hardware.Catalog) (*Cluster, error) {
	if n < 1 || n > maxNodes {
		return nil, fmt.Errorf("%d nodes, want 1 to %d", n, maxNodes)
	}
	c := &Cluster{Name: class.Name, Classes: []NodeClass{class.clone()}, Fabric: fabric.clone(), Nodes: make([]Node, n)}
	if n > 1 {
		c.Classes[0].dropIdentities()
	}
	for i := range c.Nodes {
		c.Nodes[i].Name = "node" + strconv.Itoa(i)
	}
	return c, c.Finish(cat)
}

// Replicate returns a cluster of n nodes equal to this cluster's single node: its host name numbered on, its PCI
// addresses kept, its UUIDs dropped since no two GPUs share one. It is an error on clusters of several nodes.
func (c *Cluster) Replicate(n int, cat *hardware.Catalog) (*Cluster, error) {
	if len(c.Nodes) != 1 {
		return nil, fmt.Errorf("the source describes %d nodes: only a single node can be taken %d times", len(c.Nodes), n)
	}
	out, err := Replicate(c.Classes[c.Nodes[0].Class], 1, c.Fabric, cat)
	if err != nil || n == 1 {
		return c.Clone(), err
	}
	if n < 1 || n > maxNodes {
		return nil, fmt.Errorf("%d nodes, want 1 to %d", n, maxNodes)
	}
	out.Classes[0].dropIdentities()
	first := c.Nodes[0]
	prefix, digits, domain := splitNumber(first.Name)
	start, _ := strconv.Atoi(digits)
	if digits == "" && prefix != "" {
		prefix += "-"
	}
	out.Name, out.Facts, out.Nodes = c.Name, append([]Fact(nil), c.Facts...), make([]Node, n)
	for i := range out.Nodes {
		num := strconv.Itoa(start + i)
		if pad := len(digits) - len(num); pad > 0 {
			num = strings.Repeat("0", pad) + num
		}
		out.Nodes[i] = Node{Name: prefix + num + domain, Bad: first.Bad}
	}
	return out, out.Finish(cat)
}

// WithNICRate returns a copy in which every NIC has the rate, stated by source ("flag --nic-rate"). A node class without
// NICs gets one for each GPU, and a fact that says so.
func (c *Cluster) WithNICRate(rate units.Bandwidth, source string, cat *hardware.Catalog) (*Cluster, error) {
	if rate <= 0 {
		return nil, fmt.Errorf("nic rate %v, want more than 0", rate)
	}
	out := c.Clone()
	for i := range out.Classes {
		k := &out.Classes[i]
		for n := range k.NICs {
			k.NICs[n].Rate = rate
		}
		if len(k.NICs) == 0 {
			k.oneNICEach(rate)
			out.Facts = append(out.Facts, Fact{What: "NICs of " + k.Name, Value: "one a GPU, taken because no source lists any", Source: source})
		}
	}
	out.Fabric.NICRate = rate
	out.Facts = append(out.Facts, Fact{What: "NIC rate", Value: rate.String(), Source: source})
	return out, out.Finish(cat)
}

// oneNICEach gives every GPU a NIC of its own below its PCIe switch.
func (k *NodeClass) oneNICEach(rate units.Bandwidth) {
	k.NICPaths = newMatrix(len(k.GPUs), len(k.GPUs))
	for g := range k.GPUs {
		k.NICs = append(k.NICs, NIC{Index: g, Name: "NIC" + strconv.Itoa(g), NUMA: k.GPUs[g].NUMA, Rate: rate, Rail: g})
		for o := range k.GPUs {
			k.NICPaths[g][o] = PathSYS
		}
		k.NICPaths[g][g] = PathPIX
	}
}
