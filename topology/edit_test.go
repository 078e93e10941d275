package topology

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rankmap/internal/units"
)

func preset(t testing.TB, name string, n int) *Cluster {
	t.Helper()
	c, err := Preset(os.DirFS("../configs"), name, n, catalog(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func edit(t testing.TB, c *Cluster, text string) (*Cluster, Edit) {
	t.Helper()
	var e Edit
	var err error
	if bytes.ContainsRune([]byte(text), '=') {
		e, err = ParseSet(text)
	} else {
		e, err = ParseDrop(text, c)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, back, err := c.Edit(e, catalog(t))
	if err != nil {
		t.Fatal(err)
	}
	return out, back
}

func TestEditsDoWhatTheySay(t *testing.T) {
	c := preset(t, "hgx-h100", 4)
	rack := preset(t, "gb200-nvl72", 2)
	tests := []struct {
		text string
		c    *Cluster
		ok   func(after *Cluster) bool
	}{
		{"node3.gpu5", c, func(a *Cluster) bool { return a.GPUBad(29) == dropped && a.GPUBad(28) == "" && len(a.Classes) == 2 }},
		{"node3", c, func(a *Cluster) bool { return a.GPUBad(24) == dropped && a.GPUBad(23) == "" }},
		{"node1.nic2", c, func(a *Cluster) bool {
			near, _ := a.NearNICs(10)
			return len(near) == 3 && a.NICBandwidth(1, 2) == 0 && a.NICBandwidth(0, 2) > 0
		}},
		{"node0.nvswitch0", c, func(a *Cluster) bool { return a.LinksUp(0) == 13 && a.LinksUp(8) == 18 }},
		{"node0.nvlink0-1", c, func(a *Cluster) bool { return a.LinksUp(0) == 17 && a.LinksUp(1) == 18 }},
		{"leaf:su0.rail3", c, func(a *Cluster) bool { return a.NICBandwidth(2, 3) == 0 && a.NICBandwidth(2, 4) > 0 }},
		{"leaf:su0", c, func(a *Cluster) bool { return a.NICBandwidth(2, 3) == 0 && a.NICBandwidth(2, 4) == 0 }},
		{"nic.rate=800G", c, func(a *Cluster) bool { return a.NICBandwidth(3, 7) == units.GBps(100) && len(a.Classes) == 2 }},
		{"nvlink.scale=2", c, func(a *Cluster) bool { return a.LinkBandwidth(9) == units.GBps(900) }},
		{"nvlink.domain=4", c, func(a *Cluster) bool { return len(a.Domains) == 8 && len(a.Domains[7]) == 4 }},
		{"nvlink.domain=16", c, func(a *Cluster) bool { return len(a.Domains) == 2 && len(a.Domains[1]) == 16 }},
		{"nvlink.domain=36", rack, func(a *Cluster) bool { return len(a.Domains) == 4 && len(a.Domains[3]) == 36 }},
		{"nvlink.domain=6", rack, func(a *Cluster) bool { return len(a.Domains) == 24 && len(a.Domains[3]) == 6 }},
		{"rack0.nvswitch3", rack, func(a *Cluster) bool { return a.LinksUp(0) == 17 && a.LinksUp(72) == 18 }},
		{"node17.gpu3", rack, func(a *Cluster) bool { return a.GPUBad(71) == dropped && len(a.Domains) == 2 }},
	}
	for _, tt := range tests {
		after, back := edit(t, tt.c, tt.text)
		if !tt.ok(after) {
			t.Errorf("%s: not done", tt.text)
		}
		again, _, err := after.Edit(back, catalog(t))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(tt.c, again, same); d != "" {
			t.Errorf("%s and back: %s", tt.text, d)
		}
	}
	for _, text := range []string{"node9.gpu0", "node0.gpu8", "node0.nic8", "node0.nvswitch4", "rack7.nvswitch0", "leaf:su9", "leaf:su0.rail9", "node0.fan1", "node0.nvlink0"} {
		e, err := ParseDrop(text, c)
		if err == nil {
			_, _, err = c.Edit(e, catalog(t))
		}
		if err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
	for _, text := range []string{"nic.rte=800G", "nic.rate=-1", "nvlink.domain=0", "nvlink.scale=x", "nic.rate"} {
		if _, err := ParseSet(text); err == nil {
			t.Errorf("%s was accepted", text)
		}
	}
}

func TestSeveralEditsTakenBackInOrderGiveTheOriginal(t *testing.T) {
	all := []string{"node0.gpu1", "node1.nic0", "node2", "node0.nvlink2-3", "nic.rate=200G", "nvlink.scale=0.5", "node1.nvswitch1", "node1.gpu1", "leaf:su0.rail1"}
	start := preset(t, "hgx-h100", 3)
	rapid.Check(t, func(rt *rapid.T) {
		c := start
		var backs []Edit
		for range rapid.IntRange(1, 5).Draw(rt, "n") {
			after, back := edit(t, c, rapid.SampledFrom(all).Draw(rt, "edit"))
			c, backs = after, append(backs, back)
		}
		for i := len(backs) - 1; i >= 0; i-- {
			var err error
			if c, _, err = c.Edit(backs[i], catalog(t)); err != nil {
				rt.Fatal(err)
			}
		}
		if d := cmp.Diff(start, c, same); d != "" {
			rt.Fatal(d)
		}
	})
}

func TestRemovingALinkNeverHelps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawCluster(t, rt)
		members := drawMembers(rt, c)
		_, k := c.Node(0)
		if len(k.NVLinks) == 0 {
			return
		}
		l := rapid.SampledFrom(k.NVLinks).Draw(rt, "link")
		after, _, err := c.Edit(Edit{Kind: DropNVLink, Node: c.Nodes[0].Name, GPU: l.A, Peer: l.B, NIC: -1}, catalog(t))
		if err != nil {
			rt.Fatal(err)
		}
		before, err1 := c.NewShaper().Shape(members)
		now, err2 := after.NewShaper().Shape(members)
		if err1 != nil || err2 != nil {
			rt.Fatal(err1, err2)
		}
		if now.Domains != before.Domains {
			return // a domain fell apart: other links carry the traffic
		}
		if now.NVLink && !before.NVLink || now.LinkBW > before.LinkBW && before.NVLink {
			rt.Fatalf("%+v\n%+v", before, now)
		}
	})
}

func drawMembers(rt *rapid.T, c *Cluster) []GPUID {
	all := rapid.Permutation(ids(0, 1, c.NumGPUs())).Draw(rt, "order")
	return all[:rapid.IntRange(1, len(all)).Draw(rt, "members")]
}
