package topology

import (
	"os"
	"testing"
)

func TestPresetsHoldWhatTheirNamesSay(t *testing.T) {
	fsys := os.DirFS("../configs")
	tests := map[string]struct {
		gpus, nodes, domains int
		wiring               NVLinkKind
		linkGBps, nicGBps    float64 // one GPU's NVLink; all NICs of a node
	}{
		"hgx-a100":          {8, 1, 1, NVLinkSwitched, 300, 200},
		"hgx-h100":          {8, 1, 1, NVLinkSwitched, 450, 400},
		"hgx-h200":          {8, 1, 1, NVLinkSwitched, 450, 400},
		"hgx-b200":          {8, 1, 1, NVLinkSwitched, 900, 400},
		"hgx-b300":          {8, 1, 1, NVLinkSwitched, 900, 800},
		"gb200-nvl72":       {72, 18, 1, NVLinkSwitched, 900, 200},
		"gb200-nvl36x2":     {72, 18, 1, NVLinkSwitched, 900, 200},
		"gb200-nvl72-64":    {64, 16, 1, NVLinkSwitched, 900, 200},
		"gb200-nvl72-56":    {56, 14, 1, NVLinkSwitched, 900, 200},
		"gb300-nvl72":       {72, 18, 1, NVLinkSwitched, 900, 400},
		"vr-nvl72":          {72, 18, 1, NVLinkSwitched, 1800, 800},
		"dgx1-v100":         {8, 1, 1, NVLinkCubeMesh, 150, 50},
		"dgx2-v100":         {16, 1, 1, NVLinkSwitched, 150, 100},
		"pcie-l40s":         {8, 1, 8, NVLinkNone, 0, 200},
		"pcie-rtx-pro-6000": {8, 1, 8, NVLinkNone, 0, 400},
	}
	for _, name := range Presets(fsys) {
		want, ok := tests[name]
		if !ok {
			t.Errorf("preset %s is not tested", name)
		}
		for _, count := range []int{1, 2, 33} {
			c, err := Preset(fsys, name, count, catalog(t))
			if err != nil {
				t.Fatal(err)
			}
			if c.NumGPUs() != want.gpus*count || len(c.Nodes) != want.nodes*count || len(c.Domains) != want.domains*count {
				t.Errorf("%s:%d has %d GPUs, %d nodes, %d domains", name, count, c.NumGPUs(), len(c.Nodes), len(c.Domains))
			}
			if c.Classes[0].Wiring != want.wiring || c.LinkBandwidth(0).GBps() != want.linkGBps || c.derived[0].uplink.GBps() != want.nicGBps {
				t.Errorf("%s: %v %v %v", name, c.Classes[0].Wiring, c.LinkBandwidth(0), c.derived[0].uplink)
			}
		}
	}
	if len(Presets(fsys)) != len(tests) {
		t.Errorf("presets: %v", Presets(fsys))
	}
}

func TestTheUnitOfAPresetIsNumberedOn(t *testing.T) {
	c := preset(t, "gb200-nvl36x2", 2)
	if c.Nodes[8].Rack != "rack0" || c.Nodes[9].Rack != "rack1" || c.Nodes[18].Rack != "rack2" || c.Nodes[35].Name != "node35" || c.Nodes[18].Clique == c.Nodes[17].Clique {
		t.Errorf("%+v", c.Nodes)
	}
	if c = preset(t, "hgx-h100", 65); c.Nodes[31].Leaf != "su0" || c.Nodes[32].Leaf != "su1" || len(c.Fabric.Tiers[0].Switches) != 3 {
		t.Errorf("%v", c.Leaves())
	}
	for _, bad := range []string{"hgx-h1000", "../hgx-h100", "", "hgx-h100.yaml"} {
		if _, err := Preset(os.DirFS("../configs"), bad, 1, nil); err == nil {
			t.Errorf("%q is a preset", bad)
		}
	}
	for text, want := range map[string]int{"hgx-h100": 1, "hgx-h100:7": 7, "hgx-h100:0": 0, "hgx-h100:x": 0, "hgx-h100:-1": 0} {
		if _, n, err := ParsePreset(text); n != want || (err != nil) != (want == 0) {
			t.Errorf("%s: %d %v", text, n, err)
		}
	}
	if _, err := Preset(os.DirFS("../configs"), "hgx-h100", 1<<30, nil); err == nil {
		t.Error("a thousand million boxes")
	}
}
