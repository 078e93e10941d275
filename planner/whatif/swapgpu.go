package whatif

import (
	"fmt"

	"rankmap/internal/hardware"
	"rankmap/topology"
)

// swapGPU puts another GPU model into the same boxes: NVLink where it was, with the number and rate of links of the new
// model. PCI addresses, NICs and the network stay.
func (m *Machine) swapGPU(name string, cat *hardware.Catalog) error {
	sheet, err := cat.GPU(name)
	if err != nil {
		return err
	}
	doc := topology.NewDoc(m.Cluster)
	for i := range doc.Classes {
		k := &doc.Classes[i]
		old := 0
		for j := range k.GPUs {
			g := &k.GPUs[j]
			if was, err := cat.GPU(g.Model); err == nil {
				old = max(old, was.NVLinks)
			}
			g.Model, g.Name, g.UUID, g.MemoryBytes, g.Compute = sheet.System, "", "", 0, nil
			if g.NVLinksUp > 0 {
				g.NVLinksUp = moreLinks(g.NVLinksUp, old, sheet.NVLinks)
			}
		}
		if k.NVLink == nil {
			continue
		}
		if linked := k.NVLink.Links > 0 || len(k.NVLink.Pairs) > 0; linked && sheet.NVLinks == 0 {
			return fmt.Errorf("gpu=%s has no NVLink, the boxes of %s are wired with it", sheet.System, m.Name)
		}
		k.NVLink.GBps = 0
		k.NVLink.Links = moreLinks(k.NVLink.Links, old, sheet.NVLinks)
		for j := range k.NVLink.Pairs {
			x := &k.NVLink.Pairs[j]
			x.GBps, x.Count, x.Down = 0, moreLinks(x.Count, old, sheet.NVLinks), moreLinks(x.Down, old, sheet.NVLinks)
		}
	}
	c, err := doc.Cluster(m.Name, cat)
	if err != nil {
		return fmt.Errorf("gpu=%s: %w", sheet.System, err)
	}
	m.undo = append(m.undo, restore{was: m.Cluster})
	m.Cluster = c
	return nil
}

// moreLinks keeps the share of links that are up when a GPU has another number of them.
func moreLinks(up, old, now int) int {
	if old == 0 || up == 0 {
		return up
	}
	return max(1, up*now/old)
}
