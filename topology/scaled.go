package topology

import "rankmap/internal/units"

// Scaled returns a copy with every NVLink rate times links and every NIC rate times nics, to be finished. ok is false when
// a factor other than 1 has nothing to act on: no NVLink, or no NIC of known rate.
func (c *Cluster) Scaled(links, nics float64) (out *Cluster, ok bool) {
	out = c.Clone()
	wired, rated := false, c.Fabric.NICRate > 0
	out.Fabric.NICRate *= units.Bandwidth(nics)
	for i := range out.Classes {
		k := &out.Classes[i]
		wired = wired || len(k.NVLinks) > 0
		if k.LinkScale == 0 {
			k.LinkScale = 1
		}
		k.LinkScale *= links
		for x := range k.NICs {
			rated = rated || k.NICs[x].Rate > 0
			k.NICs[x].Rate *= units.Bandwidth(nics)
		}
	}
	return out, (links == 1 || wired) && (nics == 1 || rated)
}
