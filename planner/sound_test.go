package planner

import (
	"context"
	"strings"
	"testing"

	"rankmap/collective"
	"rankmap/layout"
	"rankmap/topology"
)

func TestBrokenPartsHaveAPrice(t *testing.T) {
	b := newBench(t)
	c := b.preset(t, "hgx-h100", 2)
	if same, parts := Sound(c); same != c || parts != nil {
		t.Errorf("a sound cluster: %v", parts)
	}
	hurt, _, err := c.Edit(topology.Edit{Kind: topology.DropGPU, Node: "node1", GPU: 3, Peer: -1, NIC: -1, Rail: -1}, b.cat)
	if err != nil {
		t.Fatal(err)
	}
	w := layout.Workload{Task: "decode", ISL: 1024, OSL: 512, Batch: 64}
	r := b.request(t, hurt, "llama-3.1-70b", w)
	r.Skip = func(id topology.GPUID) bool { return hurt.GPUBad(id) != "" }
	p, err := Search(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	sound, parts := Sound(hurt)
	if len(parts) != 1 || !strings.Contains(parts[0], "node1/3") {
		t.Fatalf("parts %q", parts)
	}
	if err := sound.Finish(b.cat); err != nil {
		t.Fatal(err)
	}
	if hurt.GPUBad(11) == "" || sound.GPUBad(11) != "" {
		t.Error("Sound changed the original, or mended nothing")
	}
	x := r
	x.Progress = func(int, int) { t.Error("the progress of the sound machine is shown as the plan's") }
	x.Cluster, x.Skip, x.Pricer = sound, nil, collective.New(sound, b.profiles, collective.Options{})
	out, err := CostOfAvoiding(context.Background(), p, x, parts)
	if err != nil {
		t.Fatal(err)
	}
	if out.CostPercent <= 0 || out.Strategy == "" || !strings.Contains(strings.Join(p.Notes, "\n"), "broken parts cost") {
		t.Errorf("%+v, notes %q: want the loss of a GPU to cost something", out, p.Notes)
	}
}

func TestLinksThatAreDownAreNamed(t *testing.T) {
	b := newBench(t)
	c := b.preset(t, "dgx1-v100", 1)
	hurt, _, err := c.Edit(topology.Edit{Kind: topology.DropNVLink, Node: c.Nodes[0].Name, GPU: 0, Peer: 1, NIC: -1, Rail: -1}, b.cat)
	if err != nil {
		t.Fatal(err)
	}
	sound, parts := Sound(hurt)
	if len(parts) != 1 || !strings.Contains(parts[0], "NVLink 0-1") {
		t.Fatalf("parts %q", parts)
	}
	if err := sound.Finish(b.cat); err != nil {
		t.Fatal(err)
	}
	if sound.LinksUp(0) != c.LinksUp(0) {
		t.Errorf("%d links up after mending, %d before the fault", sound.LinksUp(0), c.LinksUp(0))
	}
}
