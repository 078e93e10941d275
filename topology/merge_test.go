package topology

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rankmap/internal/units"
)

// renumber permutes a class's GPUs and NICs.
func (k NodeClass) renumber(gpus, nics []int) NodeClass {
	out := k.clone()
	at, nicAt := make([]int, len(gpus)), make([]int, len(nics))
	for to, from := range gpus {
		out.GPUs[to] = k.GPUs[from]
		out.GPUs[to].Index = to
		at[from] = to
	}
	for to, from := range nics {
		out.NICs[to] = k.NICs[from]
		nicAt[from] = to
	}
	for i, l := range k.NVLinks {
		out.NVLinks[i].A, out.NVLinks[i].B = min(at[l.A], at[l.B]), max(at[l.A], at[l.B])
	}
	for i := range k.GPUs {
		for j := range k.GPUs {
			if k.GPUPaths != nil {
				out.GPUPaths[at[i]][at[j]] = k.GPUPaths[i][j]
			}
			if k.PCIePaths != nil {
				out.PCIePaths[at[i]][at[j]] = k.PCIePaths[i][j]
			}
		}
		for j := range k.NICs {
			out.NICPaths[at[i]][nicAt[j]] = k.NICPaths[i][j]
		}
	}
	return out
}

func seq(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

func TestFingerprintDoesNotDependOnNumbering(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := drawCluster(t, rt).Classes[0]
		b := k.renumber(rapid.Permutation(seq(len(k.GPUs))).Draw(rt, "gpus"), rapid.Permutation(seq(len(k.NICs))).Draw(rt, "nics"))
		if k.Fingerprint() != b.Fingerprint() {
			rt.Fatalf("%+v\n%+v", k, b)
		}
		gpus, nics, ok := k.Match(&b)
		if !ok {
			rt.Fatal("no match")
		}
		if back := b.renumber(gpus, nics); fmt.Sprint(back.GPUPaths, back.NICPaths) != fmt.Sprint(k.GPUPaths, k.NICPaths) {
			rt.Fatal("the match is no renumbering")
		}
		if len(k.NVLinks) > 0 {
			b.NVLinks[0].Count += 9
			if k.Fingerprint() == b.Fingerprint() {
				rt.Fatal("a wider link goes unnoticed")
			}
			if _, _, ok := k.Match(&b); ok {
				rt.Fatal("a wider link matches")
			}
		}
	})
}

func discovered(n int, k NodeClass) []DiscoveredNode {
	var out []DiscoveredNode
	for i := range n {
		d := DiscoveredNode{Name: fmt.Sprintf("gpu-%d", i), Class: k.clone()}
		for g := range d.Class.GPUs {
			d.Class.GPUs[g].UUID = fmt.Sprintf("GPU-%d-%d", i, g)
			d.Class.GPUs[g].PCI = fmt.Sprintf("00000000:%02x:00.0", 16*g+i)
		}
		out = append(out, d)
	}
	return out
}

func TestEqualNodesShareAClassAndKeepTheirIdentities(t *testing.T) {
	nodes := discovered(12, hgx("h100_sxm", 8, 18, units.Gbps(400)))
	nodes[3].Class = nodes[3].Class.renumber([]int{1, 0, 2, 3, 4, 5, 6, 7}, []int{1, 0, 2, 3, 4, 5, 6, 7})
	for i := range nodes {
		for g := range nodes[i].Class.GPUs {
			nodes[i].Class.GPUs[g].PCIe = PCIeLink{Gen: 5, MaxGen: 5, Width: 16, MaxWidth: 16}
		}
	}
	nodes[10].Class.GPUs[2].PCIe.Width = 8
	c, err := FromNodes(nodes, nil, catalog(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Classes) != 2 || c.Nodes[2].Name != "gpu-2" || c.Nodes[10].Name != "gpu-10" || c.Nodes[10].Class == c.Nodes[9].Class {
		t.Fatalf("%d classes, %+v", len(c.Classes), c.Nodes)
	}
	seen := map[string]bool{}
	for g := range c.NumGPUs() {
		seen[c.GPUIdent(GPUID(g)).UUID] = true
	}
	if len(seen) != 96 {
		t.Errorf("%d identities", len(seen))
	}
	for at := range 8 { // the exchanged GPUs kept their own numbers
		id := c.GPUIdent(c.Nodes[3].First + GPUID(at))
		if want := nodes[3].Class.GPUs[id.Index].UUID; id.UUID != want {
			t.Errorf("position %d: index %d has %s, want %s", at, id.Index, id.UUID, want)
		}
	}
	var b bytes.Buffer
	if err := WriteYAML(&b, c); err != nil {
		t.Fatal(err)
	}
	back, err := ReadYAML(&b, "f", catalog(t))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(c, back, same); d != "" {
		t.Error(d)
	}
	var ids []string
	for _, f := range c.Findings() {
		ids = append(ids, f.ID)
	}
	if d := cmp.Diff([]string{"pcie-width", "nodes-unequal"}, ids); d != "" {
		t.Error(c.Findings())
	}
}

func TestTraysOfARackBecomeOneDomain(t *testing.T) {
	tray := hgx("gb200", 4, 18, units.Gbps(400))
	nodes := discovered(18, tray)
	for i := range nodes {
		for g := range nodes[i].Class.GPUs {
			nodes[i].Class.GPUs[g].Clique = fmt.Sprintf("7c1e%d.1", i/9)
			nodes[i].Class.GPUs[g].FabricState = "completed"
		}
	}
	for g := range 4 { // one tray is split between two cliques, one GPU has not registered
		nodes[4].Class.GPUs[g].Clique = fmt.Sprintf("7c1e0.%d", 1+g/2)
	}
	nodes[13].Class.GPUs[3].FabricState = "in progress"
	c, err := FromNodes(nodes, nil, catalog(t))
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, d := range c.Domains {
		sizes = append(sizes, len(d))
	}
	if d := cmp.Diff([]int{34, 2, 35, 1}, sizes); d != "" {
		t.Error(sizes)
	}
	zero := discovered(2, hgx("h200_sxm", 2, 18, 0))
	for i := range zero {
		for g := range 2 {
			zero[i].Class.GPUs[g].Clique = "00000000-0000-0000-0000-000000000000.0"
		}
	}
	if c, err = FromNodes(zero, nil, catalog(t)); err != nil || len(c.Domains) != 2 {
		t.Errorf("an all-zero identity joins nothing: %v %v", c.Domains, err)
	}
}

func TestCablingGivesRailsRatesAndLeaves(t *testing.T) {
	k := hgx("h100_sxm", 8, 18, 0)
	for i := range k.NICs {
		k.NICs[i].Rail = -1
	}
	nodes := discovered(4, k)
	desc := &FabricMap{Kind: FabricInfiniBand, Tiers: []Tier{{Name: "leaf", Oversubscription: 2}, {Name: "spine"}}}
	for i := range nodes {
		desc.Hosts = append(desc.Hosts, FabricHost{Host: nodes[i].Name + ".example.org"})
		for n := range 8 {
			desc.Ports = append(desc.Ports, FabricPort{Host: nodes[i].Name + ".example.org", Device: fmt.Sprintf("mlx5_%d", n), Leaf: fmt.Sprintf("L%d", i/2*8+n), Rate: units.Gbps(400)})
		}
	}
	desc.Hosts = append(desc.Hosts, FabricHost{Host: "storage1"})
	c, err := FromNodes(nodes, desc, catalog(t))
	if err != nil {
		t.Fatal(err)
	}
	if !c.Fabric.Tiers[0].RailOptimized || c.Nodes[0].Leaf != "L0" || c.Nodes[3].Leaf != "L8" || c.Classes[0].NICs[5].Rail != 5 || c.NICBandwidth(0, 0) != units.GBps(50) || len(c.Classes) != 1 {
		t.Errorf("%+v %+v", c.Fabric, c.Nodes)
	}
	sh := shapeOf(t, c, ids(0, 8, 4))
	if sh.Leaves != 2 || !sh.CrossLeaf || sh.Oversubscription != 2 || !sh.OneRail {
		t.Errorf("%+v", sh)
	}
	if sh := shapeOf(t, c, []GPUID{0, 8}); sh.CrossLeaf {
		t.Errorf("same rail, same leaf: %+v", sh)
	}
	if len(c.Facts) != 1 || c.Facts[0].What != "storage1" {
		t.Errorf("%+v", c.Facts)
	}
	spread, err := Spread(k, desc, catalog(t))
	if err != nil || len(spread.Nodes) != 5 || spread.NumGPUs() != 40 {
		t.Errorf("%v", err)
	}
}

func BenchmarkFromNodes1024(b *testing.B) {
	nodes := discovered(1024, hgx("h100_sxm", 8, 18, units.Gbps(400)))
	cat := catalog(b)
	for b.Loop() {
		if _, err := FromNodes(nodes, nil, cat); err != nil {
			b.Fatal(err)
		}
	}
}

// TestEveryFieldCountsUnlessItIsAnIdentity changes each field of a GPU and a NIC in turn: nodes that differ in it must
// not share a class, unless it only names or numbers the part.
func TestEveryFieldCountsUnlessItIsAnIdentity(t *testing.T) {
	identity := map[string]bool{"Index": true, "UUID": true, "PCI": true, "CPUAffinity": true, "Name": true, "Device": true, "GUID": true, "NetDev": true,
		"NUMA": true, "GPUNUMA": true, "Rail": true} // the last three are relations: they are tested by drawn classes
	base := func() NodeClass { return hgx("h100_sxm", 2, 18, units.Gbps(400)) }
	for _, part := range []struct {
		name string
		of   func(k *NodeClass) reflect.Value
	}{
		{"GPU", func(k *NodeClass) reflect.Value { return reflect.ValueOf(&k.GPUs[0]).Elem() }},
		{"NIC", func(k *NodeClass) reflect.Value { return reflect.ValueOf(&k.NICs[0]).Elem() }},
		{"class", func(k *NodeClass) reflect.Value { return reflect.ValueOf(k).Elem() }},
	} {
		k := base()
		typ := part.of(&k).Type()
		for i := range typ.NumField() {
			name := typ.Field(i).Name
			b := base()
			f := part.of(&b).Field(i)
			switch f.Kind() {
			case reflect.String:
				f.SetString("other")
			case reflect.Bool:
				f.SetBool(!f.Bool())
			case reflect.Int, reflect.Int64:
				f.SetInt(f.Int() + 3)
			case reflect.Uint8:
				f.SetUint(f.Uint() + 1)
			case reflect.Float64:
				f.SetFloat(f.Float() + 3)
			case reflect.Struct:
				f.Field(0).SetInt(7)
			default:
				continue
			}
			if identity[name] && (part.name != "GPU" || name != "Name") {
				continue
			}
			if k.exact() == b.exact() || k.Fingerprint() == b.Fingerprint() {
				t.Errorf("%s.%s goes unnoticed", part.name, name)
			}
			if _, _, ok := k.Match(&b); ok {
				t.Errorf("%s.%s: classes match", part.name, name)
			}
		}
	}
}
