package topology

import "slices"

// Clone returns a deep copy, finished if c is.
func (c *Cluster) Clone() *Cluster {
	out := *c
	out.Classes = slices.Clone(c.Classes)
	for i := range out.Classes {
		out.Classes[i] = out.Classes[i].clone()
	}
	out.Nodes = slices.Clone(c.Nodes)
	for i := range out.Nodes {
		out.Nodes[i].GPUIdents = slices.Clone(out.Nodes[i].GPUIdents)
		out.Nodes[i].NICIdents = slices.Clone(out.Nodes[i].NICIdents)
	}
	out.Fabric = c.Fabric.clone()
	out.Facts = slices.Clone(c.Facts)
	return &out // what Finish derives is never changed in place, so it may be shared
}

func (k NodeClass) clone() NodeClass {
	k.GPUs, k.NICs = slices.Clone(k.GPUs), slices.Clone(k.NICs)
	k.Switches, k.NVLinks = slices.Clone(k.Switches), slices.Clone(k.NVLinks)
	k.GPUPaths, k.PCIePaths, k.NICPaths = cloneMatrix(k.GPUPaths), cloneMatrix(k.PCIePaths), cloneMatrix(k.NICPaths)
	return k
}

func cloneMatrix(m [][]PathKind) [][]PathKind {
	out := slices.Clone(m)
	for i := range out {
		out[i] = slices.Clone(out[i])
	}
	return out
}

func (f Fabric) clone() Fabric {
	f.Tiers, f.NVSwitches = slices.Clone(f.Tiers), slices.Clone(f.NVSwitches)
	for i := range f.Tiers {
		f.Tiers[i].Switches = slices.Clone(f.Tiers[i].Switches)
	}
	return f
}
