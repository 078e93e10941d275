package topology

import "rankmap/internal/units"

// loadScratch counts who uses the shared links when many groups run at once.
type loadScratch struct {
	nic        []uint16 // by NIC of the cluster: groups whose traffic may leave by it
	island     []uint16 // by first GPU of the node + island: groups on that PCIe switch's uplink
	port       []uint16 // by GPU: groups on its NVLinks
	leafUsers  []uint16
	leafDemand []units.Bandwidth
	nodes      []NodeID // nodes with any count, to be cleared
	dirty      []bool
}

// Load takes note of groups that run at the same time, for ShapeLoaded. It replaces what an earlier Load noted.
func (s *Shaper) Load(groups [][]GPUID) error {
	s.resetLoad()
	for _, g := range groups {
		if err := s.addLoad(g); err != nil {
			return err
		}
	}
	for _, g := range groups {
		s.addDemand(g)
	}
	return nil
}

// ShapeLoaded describes one of the groups that the last Load noted, with the shared links divided by their users.
func (s *Shaper) ShapeLoaded(members []GPUID) (Shape, error) {
	if s.load.nic == nil {
		s.resetLoad()
	}
	if err := s.scan(members); err != nil {
		return Shape{}, err
	}
	return s.describe(true), nil
}

// ShapeWith describes a group beside its siblings, the other groups that run at the same time. Pricing many groups of
// one set is cheaper with one Load and ShapeLoaded for each.
func (s *Shaper) ShapeWith(members []GPUID, siblings [][]GPUID) (Shape, error) {
	if len(siblings) == 0 {
		return s.Shape(members)
	}
	s.resetLoad()
	if err := s.addLoad(members); err != nil {
		return Shape{}, err
	}
	for _, g := range siblings {
		if err := s.addLoad(g); err != nil {
			return Shape{}, err
		}
	}
	s.addDemand(members)
	for _, g := range siblings {
		s.addDemand(g)
	}
	if err := s.scan(members); err != nil {
		return Shape{}, err
	}
	return s.describe(true), nil
}

func (s *Shaper) resetLoad() {
	l, c := &s.load, s.c
	if l.nic == nil {
		nics := 0
		for i := range c.Nodes {
			nics += len(c.Classes[c.Nodes[i].Class].NICs)
		}
		l.nic = make([]uint16, nics)
		l.island, l.port = make([]uint16, len(c.gpuNode)), make([]uint16, len(c.gpuNode))
		l.leafUsers, l.leafDemand = make([]uint16, len(c.leaves)), make([]units.Bandwidth, len(c.leaves))
		l.dirty = make([]bool, len(c.Nodes))
	}
	for _, n := range l.nodes {
		first, nic := int(c.Nodes[n].First), int(c.nodes[n].nic)
		k := &c.Classes[c.Nodes[n].Class]
		clear(l.nic[nic : nic+len(k.NICs)])
		clear(l.island[first : first+len(k.GPUs)])
		clear(l.port[first : first+len(k.GPUs)])
		l.dirty[n] = false
	}
	l.nodes = l.nodes[:0]
	clear(l.leafUsers)
	clear(l.leafDemand)
}

// addLoad counts one group on every link that its traffic can take.
func (s *Shaper) addLoad(members []GPUID) error {
	if err := s.scan(members); err != nil {
		return err
	}
	sh := s.describe(false)
	c, l := s.c, &s.load
	for _, node := range s.touched {
		n := &c.Nodes[node]
		d := &c.derived[n.Class]
		set := s.node[node].set
		if !l.dirty[node] {
			l.dirty[node] = true
			l.nodes = append(l.nodes, node)
		}
		var nics, islands partSet
		for g := set.next(0); g >= 0; g = set.next(g + 1) {
			u := &d.gpus[g]
			id := int(n.First) + g
			nics.addAll(&u.nics)
			if c.domainOf != nil && s.domain[c.domainOf[id]].n > 1 {
				bump(&l.port[id])
			}
			joined := s.joined(n, d, g, &set)
			others := set.minus(&joined)
			if away := others.minus(&d.islands[u.island]); !away.empty() {
				islands.add(int(u.island))
			}
		}
		for i := islands.next(0); i >= 0; i = islands.next(i + 1) {
			bump(&l.island[int(n.First)+i])
		}
		if !sh.Network {
			continue
		}
		first := int(c.nodes[node].nic)
		for i := nics.next(0); i >= 0; i = nics.next(i + 1) {
			bump(&l.nic[first+i])
		}
	}
	if sh.CrossLeaf {
		for _, leaf := range s.leaves {
			bump(&l.leafUsers[leaf])
		}
	}
	return nil
}

// bump counts up and stays at the largest value.
func bump(n *uint16) {
	if *n != ^uint16(0) {
		*n++
	}
}

// addDemand adds what one group, with its share of the NICs, asks of the leaves' uplinks. It needs the users of all
// NICs, so it runs after every addLoad, and only where uplinks can be short.
func (s *Shaper) addDemand(members []GPUID) {
	short := false
	for _, t := range s.c.Fabric.Tiers {
		short = short || t.Oversubscription > 1
	}
	if !short || len(s.c.leaves) == 0 || s.scan(members) != nil {
		return
	}
	if sh := s.describe(true); sh.CrossLeaf {
		for _, leaf := range s.leaves {
			s.load.leafDemand[leaf] += s.leafAt[leaf].demand
		}
	}
}
