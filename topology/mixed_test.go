package topology_test

import (
	"testing"

	"rankmap/configs"
	"rankmap/internal/hardware"
	"rankmap/topology"
)

// Of a group over two generations the slower GPU is named, whichever member comes first.
func TestTheSlowerModelOfAMixedGroupIsNamed(t *testing.T) {
	cat, err := hardware.Load(configs.FS)
	if err != nil {
		t.Fatal(err)
	}
	preset := func(name string) *topology.Cluster {
		c, err := topology.Preset(configs.FS, name, 1, cat)
		if err != nil {
			t.Fatal(err)
		}
		return c.Clone()
	}
	c, old := preset("hgx-h100"), preset("hgx-a100")
	c.Classes = append(c.Classes, old.Classes[0])
	c.Nodes = append(c.Nodes, topology.Node{Name: "old0", Class: 1, First: 8})
	if err := c.Finish(cat); err != nil {
		t.Fatal(err)
	}
	s := c.NewShaper()
	var first topology.Shape
	for i, members := range [][]topology.GPUID{{3, 11, 12, 14}, {11, 12, 14, 3}, {12, 3, 14, 11}} {
		sh, err := s.Shape(members)
		if err != nil {
			t.Fatal(err)
		}
		if sh.GPU != "a100_sxm" || !sh.Mixed {
			t.Errorf("%v: priced as %s, mixed %v; want a100_sxm, mixed", members, sh.GPU, sh.Mixed)
		}
		sh.Limit = topology.Limit{} // names a link, of which there are equal ones
		if i == 0 {
			first = sh
		} else if sh != first {
			t.Errorf("%v: %+v, in another order %+v", members, sh, first)
		}
	}
}
