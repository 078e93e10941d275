package topology

import (
	"fmt"
	"strings"
	"testing"

	"rankmap/internal/units"
)

// pairsOf builds a class of n GPUs with the links given.
func pairsOf(n int, model string, links ...NVLink) NodeClass {
	k := NodeClass{Name: "k", NVLinks: links}
	for g := range n {
		k.GPUs = append(k.GPUs, GPU{Index: g, Model: model, NUMA: -1, GPUNUMA: -1})
	}
	return k
}

// allPairs is count links between all of n GPUs.
func allPairs(n, count int) []NVLink {
	var l []NVLink
	for a := range n {
		for b := a + 1; b < n; b++ {
			l = append(l, NVLink{A: a, B: b, Count: count})
		}
	}
	return l
}

func TestWiringFollowsFromTheCounts(t *testing.T) {
	tests := []struct {
		name string
		k    NodeClass
		want NVLinkKind
	}{
		{"no links", pairsOf(4, ""), NVLinkNone},
		{"a bridge", pairsOf(4, "", NVLink{A: 0, B: 1, Count: 4}, NVLink{A: 2, B: 3, Count: 4}), NVLinkDirect},
		{"board of 4 A100, 4 links a pair", pairsOf(4, "a100_sxm", allPairs(4, 4)...), NVLinkDirect},
		{"board of 4 GH200, 6 links a pair", pairsOf(4, "", allPairs(4, 6)...), NVLinkDirect},
		{"board of 4 H200 NVL", pairsOf(4, "h200_sxm", allPairs(4, 6)...), NVLinkDirect},
		{"HGX A100", pairsOf(8, "a100_sxm", allPairs(8, 12)...), NVLinkSwitched},
		{"HGX of unknown GPUs", pairsOf(8, "", allPairs(8, 18)...), NVLinkSwitched},
		{"A800, 8 links, unknown GPUs", pairsOf(8, "", allPairs(8, 8)...), NVLinkSwitched},
		{"3 GPUs seen of an HGX A100, unknown", pairsOf(3, "", allPairs(3, 12)...), NVLinkSwitched},
		{"one pair of 18", pairsOf(2, "h200_sxm", NVLink{A: 0, B: 1, Count: 18}), NVLinkDirect},
		{"DGX-2, 6 links", pairsOf(16, "", allPairs(16, 6)...), NVLinkSwitched},
		{"DGX-1", cubeMesh(), NVLinkCubeMesh},
		{"path of 3", pairsOf(3, "", NVLink{A: 0, B: 1, Count: 2}, NVLink{A: 1, B: 2, Count: 2}), NVLinkCubeMesh},
		{"stated", NodeClass{Name: "k", GPUs: make([]GPU, 2), Wiring: NVLinkSwitched, NVLinks: allPairs(2, 18)}, NVLinkSwitched},
	}
	for _, tt := range tests {
		if got := cluster(t, tt.k, 1).Classes[0].Wiring; got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestDomainsFollowFromLinksAndIdentities(t *testing.T) {
	unknown := pairsOf(2, "")
	unknown.Wiring = NVLinkUnknown
	down := hgx("h100_sxm", 8, 18, 0)
	down.setLinksRaw(5, 0)
	for i := range 8 {
		if i != 5 {
			down.GPUPaths[5][i], down.GPUPaths[i][5] = PathSYS, PathSYS
		}
	}
	single := NodeClass{Name: "gh200", GPUs: []GPU{{Model: "gh200", NUMA: 0}}}
	tests := []struct {
		name string
		c    *Cluster
		want string
	}{
		{"no NVLink: each GPU alone", cluster(t, pcieBox("l40s", 2), 2), "[[0] [1] [2] [3]]"},
		{"a bridge and two alone", cluster(t, pairsOf(4, "", NVLink{A: 1, B: 3, Count: 4}), 1), "[[0] [1 3] [2]]"},
		{"cube mesh is one domain", cluster(t, cubeMesh(), 1), "[[0 1 2 3 4 5 6 7]]"},
		{"all links of one GPU down", cluster(t, down, 1), "[[0 1 2 3 4 6 7] [5]]"},
		{"unknown", cluster(t, unknown, 2), "[]"},
		{"one GPU a node, joined over nodes", cluster(t, single, 3, func(c *Cluster) {
			c.Nodes[0].Clique, c.Nodes[2].Clique = "x", "x"
		}), "[[0 2] [1]]"},
		{"identity without links joins nothing", cluster(t, pcieBox("l40s", 2), 2, func(c *Cluster) {
			c.Nodes[0].Clique, c.Nodes[1].Clique = "x", "x"
		}), "[[0] [1] [2] [3]]"},
	}
	for _, tt := range tests {
		if got := fmt.Sprint(tt.c.Domains); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	if c := cluster(t, unknown, 1); c.Domains != nil || c.DomainOf(0) != -1 {
		t.Error("unknown domains must be nil")
	}
}

func TestFinishNamesWhatIsWrong(t *testing.T) {
	wrong := hgx("a100_sxm", 4, 18, 0)
	asym := pcieBox("l40s", 2)
	asym.GPUPaths[0][1] = PathSYS
	ragged := pcieBox("l40s", 2)
	ragged.NICPaths = ragged.NICPaths[:1]
	claimed := pcieBox("l40s", 2)
	claimed.GPUPaths[0][1], claimed.GPUPaths[1][0] = PathNV, PathNV
	tests := []struct {
		name string
		c    Cluster
		want string
	}{
		{"empty", Cluster{Name: "x"}, `cluster "x" has no nodes`},
		{"no GPUs", Cluster{Classes: []NodeClass{{Name: "k"}}, Nodes: []Node{{Name: "a"}}}, `class "k" has no GPUs`},
		{"dangling class", Cluster{Classes: []NodeClass{pcieBox("", 2)}, Nodes: []Node{{Name: "a", Class: 3}}}, `node "a": class 3 does not exist (there are 1)`},
		{"wrong model", Cluster{Classes: []NodeClass{wrong}, Nodes: []Node{{Name: "a"}}}, "joined by 18 NVLinks, but a a100_sxm has 12"},
		{"unknown model", Cluster{Classes: []NodeClass{pcieBox("h900", 2)}, Nodes: []Node{{Name: "a"}}}, `unknown gpu "h900"`},
		{"asymmetric matrix", Cluster{Classes: []NodeClass{asym}, Nodes: []Node{{Name: "a"}}}, "GPU 0 to 1 is SYS, back is PIX"},
		{"ragged matrix", Cluster{Classes: []NodeClass{ragged}, Nodes: []Node{{Name: "a"}}}, "NIC paths have 1 rows, want 2"},
		{"NVLink without a link", Cluster{Classes: []NodeClass{claimed}, Nodes: []Node{{Name: "a"}}}, "no link between them is up"},
		{"negative rate", Cluster{Classes: []NodeClass{pcieBox("", 2)}, Nodes: []Node{{Name: "a"}}, Fabric: Fabric{NICRate: -1}}, "nic rate is -1"},
		{"switch in two tiers", Cluster{Classes: []NodeClass{pcieBox("", 2)}, Nodes: []Node{{Name: "a"}},
			Fabric: Fabric{Tiers: []Tier{{Name: "leaf", Switches: []string{"s"}}, {Name: "spine", Switches: []string{"s"}}}}}, `switch "s" stands in tiers "leaf" and "spine"`},
	}
	for _, tt := range tests {
		if err := tt.c.Finish(catalog(t)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v\nwant %s", tt.name, err, tt.want)
		}
	}
}

func TestParallelBundlesAddUpAndDirectionsDoNot(t *testing.T) {
	c := cluster(t, pairsOf(2, "", NVLink{A: 0, B: 1, Count: 2}, NVLink{A: 0, B: 1, Count: 1}), 1)
	if l := c.Classes[0].NVLinks; len(l) != 1 || l[0].Count != 3 {
		t.Errorf("parallel: %+v", l)
	}
	c = cluster(t, pairsOf(2, "", NVLink{A: 1, B: 0, Count: 3}, NVLink{A: 0, B: 1, Count: 3}), 1)
	if l := c.Classes[0].NVLinks; len(l) != 1 || l[0] != (NVLink{A: 0, B: 1, Count: 3}) {
		t.Errorf("both directions: %+v", l)
	}
}

func TestNamesFindTheirParts(t *testing.T) {
	c := cluster(t, hgx("h100_sxm", 8, 18, units.Gbps(400)), 12)
	for id := range GPUID(c.NumGPUs()) {
		if back, ok := c.FindGPU(c.GPUName(id)); !ok || back != id {
			t.Fatalf("%s finds %d", c.GPUName(id), back)
		}
	}
	for _, bad := range []string{"node0", "node0/8", "node0/-1", "node0/01", "node99/0", "/0", ""} {
		if _, ok := c.FindGPU(bad); ok {
			t.Errorf("%q was found", bad)
		}
	}
	if near, kind := c.NearNICs(13); len(near) != 1 || near[0] != 5 || kind != PathPIX {
		t.Error(near, kind)
	}
	if c.NodeOf(13) != 1 || c.DomainOf(13) != 1 || c.LinksUp(13) != 18 || c.LinkBandwidth(13) != units.GBps(450) || c.PCIeBandwidth(13) != units.GBps(63) {
		t.Error("accessors of GPU 13")
	}
}

func TestANICThatIsDownIsNotUsed(t *testing.T) {
	k := hgx("h100_sxm", 8, 18, units.Gbps(400))
	k.NICs[3].State = "DOWN"
	c := cluster(t, k, 2)
	near, kind := c.NearNICs(3)
	if len(near) != 3 || kind != PathNODE {
		t.Errorf("falls back to the socket's other NICs: %v %v", near, kind)
	}
}

func TestANICRateIsSetAndInventedOnlyWithAFact(t *testing.T) {
	c := cluster(t, cubeMesh(), 2)
	out, err := c.WithNICRate(units.Gbps(100), "flag --nic-rate", catalog(t))
	if err != nil {
		t.Fatal(err)
	}
	if near, _ := out.NearNICs(5); len(near) != 1 || near[0] != 5 || out.NICBandwidth(0, 5) != units.Gbps(100) {
		t.Errorf("near %v", near)
	}
	if len(out.Facts) != 2 || !strings.Contains(fmt.Sprint(out.Facts), "no source lists any") {
		t.Errorf("facts %v", out.Facts)
	}
	if len(c.Classes[0].NICs) != 0 {
		t.Error("the original changed")
	}
}

func TestReplicateNumbersHostsOn(t *testing.T) {
	one := cluster(t, pcieBox("l40s", 2), 1, func(c *Cluster) { c.Nodes[0].Name = "gpu07.example.org" })
	c, err := one.Replicate(4, catalog(t))
	if err != nil || c.Nodes[3].Name != "gpu10.example.org" || c.NumGPUs() != 8 {
		t.Errorf("%v %v", c.Nodes, err)
	}
	if _, err := c.Replicate(2, catalog(t)); err == nil {
		t.Error("several nodes were replicated")
	}
}

func TestHostListsExpandAndCompress(t *testing.T) {
	for list, want := range map[string]string{
		"node[0-3,7],login1": "node0 node1 node2 node3 node7 login1", "n[008-011]": "n008 n009 n010 n011", "r[1-2]n[1-2]": "r1n1 r1n2 r2n1 r2n2",
		"a[1-3].example.org": "a1.example.org a2.example.org a3.example.org", "x": "x", "n[9-11]": "n9 n10 n11",
	} {
		got, err := ExpandHosts(list)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v %v", list, got, err)
		}
		if again, err := ExpandHosts(CompressHosts(got)); err != nil || strings.Join(again, " ") != want {
			t.Errorf("%s: compressed %s: %v %v", list, CompressHosts(got), again, err)
		}
	}
	if got := CompressHosts([]string{"a1.example.org", "a2.example.org", "b", "c7"}); got != "a[1-2].example.org,b,c7" {
		t.Error(got)
	}
	for _, bad := range []string{"", "a,,b", "a[1-", "a[1", "a]1", "a[3-1]", "a[x-y]", "a[0-99999999]", "a[0-9999][0-9999]"} {
		if got, err := ExpandHosts(bad); err == nil {
			t.Errorf("%q gave %d names", bad, len(got))
		}
	}
}
