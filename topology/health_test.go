package topology

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rankmap/internal/units"
)

func TestHealthyPresetsHaveNoFindings(t *testing.T) {
	fsys := os.DirFS("../configs")
	for _, name := range Presets(fsys) {
		if f := preset(t, name, 2).Findings(); len(f) > 0 {
			t.Errorf("%s: %v", name, f)
		}
	}
}

func TestEachFindingHasAMachineThatShowsIt(t *testing.T) {
	pcie := PCIeLink{Gen: 5, MaxGen: 5, Width: 16, MaxWidth: 16}
	healthy := func() NodeClass {
		k := hgx("h100_sxm", 8, 18, units.Gbps(400))
		for i := range k.GPUs {
			k.GPUs[i].PCIe = pcie
		}
		return k
	}
	pair := func() NodeClass {
		return NodeClass{Name: "pair", GPUs: []GPU{{Model: "h100_sxm"}, {Model: "h100_sxm"}}, NVLinks: []NVLink{{A: 0, B: 1, Count: 12}},
			NICs: []NIC{{Rate: 50e9}}, NICPaths: [][]PathKind{{PathPIX}, {PathPIX}}}
	}
	tests := map[string]func() (NodeClass, func(*Cluster)){
		"gpu-bad":        func() (NodeClass, func(*Cluster)) { k := healthy(); k.GPUs[1].Bad = "off the bus"; return k, nil },
		"node-bad":       func() (NodeClass, func(*Cluster)) { return healthy(), func(c *Cluster) { c.Nodes[0].Bad = "drained" } },
		"nvlink-missing": func() (NodeClass, func(*Cluster)) { k := healthy(); k.setLinksRaw(2, 16); return k, nil },
		"nvlink-none": func() (NodeClass, func(*Cluster)) {
			k := pair()
			k.GPUs = append(k.GPUs, GPU{Model: "h100_sxm"}, GPU{Model: "h100_sxm"})
			k.NICPaths = append(k.NICPaths, []PathKind{PathPIX}, []PathKind{PathPIX})
			return k, nil
		},
		"nvlink-down": func() (NodeClass, func(*Cluster)) { k := pair(); k.NVLinks[0].Down = 4; return k, nil },
		"nvlink-slow": func() (NodeClass, func(*Cluster)) { k := pair(); k.NVLinks[0].PerLink = units.GBps(14); return k, nil },
		"fabric-in-progress": func() (NodeClass, func(*Cluster)) {
			k := healthy()
			k.GPUs[0].FabricState = "in progress"
			return k, nil
		},
		"pcie-width":      func() (NodeClass, func(*Cluster)) { k := healthy(); k.GPUs[0].PCIe.Width = 8; return k, nil },
		"pcie-generation": func() (NodeClass, func(*Cluster)) { k := healthy(); k.GPUs[0].PCIe.Gen = 1; return k, nil },
		"nic-bad":         func() (NodeClass, func(*Cluster)) { k := healthy(); k.NICs[3].Bad = "flaps"; return k, nil },
		"nic-down":        func() (NodeClass, func(*Cluster)) { k := healthy(); k.NICs[3].State = "DOWN"; return k, nil },
		"nic-slow":        func() (NodeClass, func(*Cluster)) { k := healthy(); k.NICs[3].Rate = units.Gbps(200); return k, nil },
		"nic-idle": func() (NodeClass, func(*Cluster)) {
			k := healthy()
			k.NICs = append(k.NICs, NIC{Name: "mgmt", State: "DOWN"})
			for g := range k.NICPaths {
				k.NICPaths[g] = append(k.NICPaths[g], PathSYS)
			}
			return k, nil
		},
		"gpu-far-from-nics": func() (NodeClass, func(*Cluster)) { k := healthy(); k.NICPaths[5][5] = PathNODE; return k, nil },
		"mig-on":            func() (NodeClass, func(*Cluster)) { k := healthy(); k.GPUs[7].MIG = true; return k, nil },
		"p2p-off":           func() (NodeClass, func(*Cluster)) { k := healthy(); k.GPUs[7].NoP2P = true; return k, nil },
		"clique-split":      func() (NodeClass, func(*Cluster)) { k := healthy(); k.GPUs[7].Clique = "x.2"; return k, nil },
		"distances-unknown": func() (NodeClass, func(*Cluster)) { k := healthy(); k.Virtual = true; return k, nil },
		"nvlink-unknown":    func() (NodeClass, func(*Cluster)) { k := pcieBox("l40s", 4); k.Wiring = NVLinkUnknown; return k, nil },
		"model-unknown":     func() (NodeClass, func(*Cluster)) { return pcieBox("", 4), nil },
		"nic-rate-unknown":  func() (NodeClass, func(*Cluster)) { return hgx("h100_sxm", 8, 18, 0), nil },
		"nics-none":         func() (NodeClass, func(*Cluster)) { return cubeMesh(), nil },
		"nodes-unequal": func() (NodeClass, func(*Cluster)) {
			return healthy(), func(c *Cluster) {
				k := healthy()
				k.Name, k.GPUs[0].PCIe.Width, k.GPUs[0].PCIe.MaxWidth = "other", 8, 8
				c.Classes = append(c.Classes, k)
				c.Nodes[1].Class = 1
			}
		},
		"gpus-mixed": func() (NodeClass, func(*Cluster)) {
			return healthy(), func(c *Cluster) {
				c.Classes = append(c.Classes, hgx("h200_sxm", 8, 18, units.Gbps(400)))
				c.Nodes[1].Class = 1
			}
		},
	}
	for _, kind := range FindingKinds() {
		build, ok := tests[kind.ID]
		if !ok {
			t.Errorf("no machine shows %s", kind.ID)
			continue
		}
		k, change := build()
		c := cluster(t, k, 3, func(c *Cluster) {
			if change != nil {
				change(c)
			}
		})
		found := false
		for _, f := range c.Findings() {
			found = found || f.ID == kind.ID && f.Severity == kind.Severity && f.Where != "" && f.Next != "" && !strings.Contains(f.Message, "%!")
		}
		if !found {
			t.Errorf("%s: %v", kind.ID, c.Findings())
		}
	}
	if f := cluster(t, healthy(), 3).Findings(); len(f) > 0 {
		t.Errorf("healthy: %v", f)
	}
}

// setLinksRaw lowers every pair of a GPU in a class that is not finished yet.
func (k *NodeClass) setLinksRaw(g, links int) {
	for i := range k.NVLinks {
		if l := &k.NVLinks[i]; l.A == g || l.B == g {
			l.Count = links
		}
	}
}

func TestMachineReadableForm(t *testing.T) {
	k := hgx("", 2, 18, 0)
	k.GPUs = append(k.GPUs, GPU{Index: 2, NUMA: -1, NUMARange: "0-1", GPUNUMA: -1, CPUAffinity: "0-31"})
	k.GPUPaths = [][]PathKind{{PathSelf, PathNV, PathSYS}, {PathNV, PathSelf, PathSYS}, {PathSYS, PathSYS, PathSelf}}
	k.PCIePaths = nil
	k.NICPaths = append(k.NICPaths, []PathKind{PathSYS, PathSYS})
	c := cluster(t, k, 1)
	var b bytes.Buffer
	if err := WriteJSON(&b, c); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	node := got["nodes"].([]any)[0].(map[string]any)
	gpus := node["gpus"].([]any)
	want := map[string]any{"apiVersion": "rankmap/v1", "kind": "Topology",
		"links":         []any{map[string]any{"a": 0., "b": 1., "kind": "NV", "count": 18.}, map[string]any{"a": 0., "b": 2., "kind": "SYS"}, map[string]any{"a": 1., "b": 2., "kind": "SYS"}},
		"nvlinkDomains": []any{[]any{"node0/0", "node0/1"}, []any{"node0/2"}},
		"near0":         []any{"NIC0"}, "path0": "PIX", "path2": "SYS", "numa0": 0., "numa2": nil, "name0": "GPU0", "affinity2": "0-31", "nic0": "mlx5_0"}
	have := map[string]any{"apiVersion": got["apiVersion"], "kind": got["kind"], "links": node["links"], "nvlinkDomains": got["nvlinkDomains"],
		"near0": gpus[0].(map[string]any)["nearestNics"], "path0": gpus[0].(map[string]any)["nearestNicPath"], "path2": gpus[2].(map[string]any)["nearestNicPath"],
		"numa0": gpus[0].(map[string]any)["numa"], "numa2": gpus[2].(map[string]any)["numa"], "name0": gpus[0].(map[string]any)["name"],
		"affinity2": gpus[2].(map[string]any)["cpuAffinity"], "nic0": node["nics"].([]any)[0].(map[string]any)["device"]}
	if d := cmp.Diff(want, have); d != "" {
		t.Error(d)
	}
	for _, key := range []string{"switches", "findings"} {
		if _, ok := got[key].([]any); !ok {
			t.Errorf("%s is %v, want a list", key, got[key])
		}
	}
	k.Wiring, k.NVLinks, k.GPUPaths = NVLinkUnknown, nil, [][]PathKind{{PathSelf, PathPIX, PathSYS}, {PathPIX, PathSelf, PathSYS}, {PathSYS, PathSYS, PathSelf}}
	if v := NewView(cluster(t, k, 1)); v.NVLinkDomains != nil {
		t.Errorf("domains are unknown: %v", v.NVLinkDomains)
	}
	v := NewView(preset(t, "hgx-h100", 1))
	if p := v.Nodes[0].Links[0]; p.GBps == nil || *p.GBps != 450 || p.Count != 18 || len(v.Nodes[0].Links) != 28 {
		t.Errorf("%+v", p)
	}
}

func TestNamesOfEnumsReadBack(t *testing.T) {
	for _, k := range PathKinds()[1:] {
		var back PathKind
		if b, _ := k.MarshalText(); back.UnmarshalText(b) != nil || back != k {
			t.Error(k)
		}
	}
	for _, k := range NVLinkKinds() {
		var back NVLinkKind
		if b, _ := k.MarshalText(); back.UnmarshalText(b) != nil || back != k {
			t.Error(k)
		}
	}
	for _, k := range SwitchKinds() {
		var back SwitchKind
		if b, _ := k.MarshalText(); back.UnmarshalText(b) != nil || back != k {
			t.Error(k)
		}
	}
	var soc PathKind
	if soc.UnmarshalText([]byte("SOC")) != nil || soc != PathSYS {
		t.Error("SOC is the old SYS")
	}
}
