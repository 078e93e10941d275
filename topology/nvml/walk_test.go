package nvml

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"rankmap/configs"
	"rankmap/internal/hardware"
	"rankmap/topology"
)

func walk(t *testing.T, f *fake) *Result {
	t.Helper()
	res, err := Walk(f)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// cluster finishes the node as discovery does.
func cluster(t *testing.T, res *Result) *topology.Cluster {
	t.Helper()
	cat, err := hardware.Load(configs.FS)
	if err != nil {
		t.Fatal(err)
	}
	c, err := topology.FromNodes([]topology.DiscoveredNode{{Name: "n0", Class: res.Node}}, nil, cat)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func domains(c *topology.Cluster) string {
	if c.Domains == nil {
		return "unknown"
	}
	return fmt.Sprint(c.Domains)
}

func findings(c *topology.Cluster) string {
	var ids []string
	for _, f := range c.Findings() {
		ids = append(ids, f.ID)
	}
	return strings.Join(ids, " ")
}

func TestEightGPUsBehindNVSwitchAreOneDomainWithAllTheirLinks(t *testing.T) {
	res := walk(t, box(8, 18, "switch"))
	c := cluster(t, res)
	if d := domains(c); d != "[[0 1 2 3 4 5 6 7]]" {
		t.Errorf("domains %s", d)
	}
	if res.Node.Wiring != topology.NVLinkSwitched || len(res.Node.NVLinks) != 28 || res.Node.NVLinks[0].Count != 18 {
		t.Errorf("wiring %v, %d pairs, first %+v", res.Node.Wiring, len(res.Node.NVLinks), res.Node.NVLinks[0])
	}
	if got := res.Node.NVLinks[5].PerLink.GBps(); got != 26.562 {
		t.Errorf("one link carries %v GB/s", got)
	}
	g := res.Node.GPUs[5]
	if g.PCI != "00000000:15:00.0" || g.NUMA != 1 || g.NVLinksUp != 18 || g.ComputeMajor != 9 || g.PCIe != (topology.PCIeLink{Gen: 5, MaxGen: 5, Width: 16, MaxWidth: 16}) || g.Clique != "" {
		t.Errorf("GPU 5 is %+v", g)
	}
	if len(res.Warnings) > 0 {
		t.Errorf("warnings %v", res.Warnings)
	}
}

func TestLinkBoundOf36OnMachinesWith18(t *testing.T) {
	f := box(4, 18, "switch")
	f.noCount = true
	for i := range f.devs {
		f.devs[i].bound = MaxLinks // every state can be asked: the links that do not exist are off for ever
	}
	res := walk(t, f)
	for _, g := range res.Node.GPUs {
		if g.NVLinksUp != 18 {
			t.Errorf("GPU %d has %d links up", g.Index, g.NVLinksUp)
		}
	}
	if s := findings(cluster(t, res)); strings.Contains(s, "nvlink") {
		t.Errorf("findings %s: links that do not exist are not missing", s)
	}
}

func TestOnlyTheStateTellsWhetherALinkIsUp(t *testing.T) {
	f := box(8, 18, "switch")
	f.devs[3].up[7], f.devs[3].up[17] = false, false // a capability question would say yes for all
	res := walk(t, f)
	if n := res.Node.GPUs[3].NVLinksUp; n != 16 {
		t.Errorf("GPU 3 has %d links up, want 16", n)
	}
	for _, l := range res.Node.NVLinks {
		if want := 18 - 2*btoi(l.A == 3 || l.B == 3); l.Count != want {
			t.Errorf("pair %d-%d has %d links, want %d", l.A, l.B, l.Count, want)
		}
	}
	if s := findings(cluster(t, res)); !strings.Contains(s, "nvlink-missing") {
		t.Errorf("findings %q do not tell of the missing links", s)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestRemoteAddressesOfAllF(t *testing.T) {
	two := walk(t, box(2, 18, "hidden"))
	if len(two.Node.NVLinks) != 1 || two.Node.NVLinks[0].Count != 18 {
		t.Errorf("two GPUs: links %+v, want each other's 18", two.Node.NVLinks)
	}
	f := box(2, 18, "hidden")
	for i := range f.devs {
		f.devs[i].kind = RemoteSwitch // what the 2-GPU slice of an HGX box says
	}
	if sw := walk(t, f); sw.Node.Wiring != topology.NVLinkSwitched || sw.Node.NVLinks[0].Count != 18 {
		t.Errorf("behind a hidden switch: %v, %+v", sw.Node.Wiring, sw.Node.NVLinks)
	}
	four := walk(t, box(4, 12, "hidden"))
	if len(four.Node.NVLinks) != 0 || !four.NVLinkUnclear || domains(cluster(t, four)) != "unknown" {
		t.Errorf("four GPUs with hidden peers: %+v, domains %s: which pairs are joined cannot be known", four.Node.NVLinks, domains(cluster(t, four)))
	}
	for _, s := range []string{"FFFFFFFF:FF:FF.0", "fffffff:ff:ff.0", "ffffffff:ffff:ff"} {
		if !hiddenPCI(s) {
			t.Errorf("%s is not taken for hidden", s)
		}
	}
	if hiddenPCI("00000000:FF:00.0") || hiddenPCI("0000ffff:1f:00.0") {
		t.Error("a real address is taken for hidden")
	}
}

func TestDirectLinksCountByPeer(t *testing.T) {
	res := walk(t, box(4, 12, "mesh"))
	if len(res.Node.NVLinks) != 6 || res.Node.NVLinks[0].Count != 4 || domains(cluster(t, res)) != "[[0 1 2 3]]" {
		t.Errorf("links %+v", res.Node.NVLinks)
	}
	pair := box(4, 4, "mesh")
	for i := range pair.devs {
		for l := range pair.devs[i].peer {
			pair.devs[i].peer[l] = pair.address(i ^ 1)
		}
	}
	if d := domains(cluster(t, walk(t, pair))); d != "[[0 1] [2 3]]" {
		t.Errorf("bridged pairs give domains %s", d)
	}
	pair.devs[0].up[3] = false
	if n := walk(t, pair).Node.NVLinks[0]; n.Count != 3 {
		t.Errorf("one side lost a link: %+v, want the smaller count", n)
	}
}

func TestFabricIdentities(t *testing.T) {
	const uuid = "a1b2c3d4-0000-4000-8000-00000000beef"
	f := box(4, 18, "switch")
	for i := range f.devs {
		f.devs[i].clique = Fabric{ClusterUUID: uuid, CliqueID: uint32(7 + i/2), State: FabricCompleted}
	}
	res := walk(t, f)
	c := cluster(t, res)
	if res.Node.GPUs[3].Clique != uuid+".8" || domains(c) != "[[0 1] [2 3]]" || !strings.Contains(findings(c), "clique-split") {
		t.Errorf("two cliques in one tray: clique %s, domains %s, findings %s", res.Node.GPUs[3].Clique, domains(c), findings(c))
	}
	f.devs[2].clique.State = FabricInProgress
	res = walk(t, f)
	if g := res.Node.GPUs[2]; g.FabricState != "in progress" || g.Clique != "" {
		t.Errorf("a fabric in progress has no identity yet: %+v", g)
	}
	if s := findings(cluster(t, res)); !strings.Contains(s, "fabric-in-progress") {
		t.Errorf("findings %s", s)
	}
	f = box(2, 18, "switch")
	if g := walk(t, f).Node.GPUs[0]; g.Clique != "" || g.FabricState != "completed" {
		t.Errorf("an all-zero ClusterUUID is taken for an identity: %+v", g)
	}
	f.devs[0].clique = Fabric{ClusterUUID: uuid, State: FabricCompleted, Status: 999}
	f.devs[1].clique = Fabric{ClusterUUID: uuid, State: FabricCompleted, HealthMask: 1 | 1<<4 | 5<<8}
	res = walk(t, f)
	if res.Node.GPUs[0].FabricState != "failed" || !strings.Contains(strings.Join(res.Unhealthy, "\n"), "GPU 1: degraded bandwidth\nGPU 1: route unhealthy\nGPU 1: insufficient NVLinks") {
		t.Errorf("state %s, unhealthy %v", res.Node.GPUs[0].FabricState, res.Unhealthy)
	}
}

func TestNUMAMinusOneIsUnknown(t *testing.T) {
	f := box(2, 18, "switch")
	f.devs[0].numa = -1
	if n := walk(t, f).Node.GPUs[0].NUMA; n != -1 {
		t.Errorf("NUMA %d", n)
	}
}

func TestMIGAndP2P(t *testing.T) {
	f := box(2, 18, "switch")
	f.devs[1].mig = true
	f.p2p = 1
	c := cluster(t, walk(t, f))
	if s := findings(c); !strings.Contains(s, "mig-on") || !strings.Contains(s, "p2p-off p2p-off") {
		t.Errorf("findings %s", s)
	}
}

func TestAGPULostMidWalkCostsNoOther(t *testing.T) {
	full := walk(t, box(8, 18, "switch"))
	for after := 1; after < 60; after += 3 {
		f := box(8, 18, "switch")
		f.lostAfter[4] = after
		res := walk(t, f)
		g := res.Node.GPUs[4]
		if g.Index != 4 || !strings.Contains(g.Bad, "lost") || len(res.Trouble) != 1 {
			t.Fatalf("lost after %d questions: %+v, trouble %v", after, g, res.Trouble)
		}
		for i := range res.Node.GPUs {
			if i != 4 && !reflect.DeepEqual(res.Node.GPUs[i], full.Node.GPUs[i]) {
				t.Fatalf("lost after %d: GPU %d changed to %+v", after, i, res.Node.GPUs[i])
			}
		}
		if s := findings(cluster(t, res)); !strings.Contains(s, "gpu-bad") {
			t.Fatalf("findings %s", s)
		}
	}
}

// TestAnyOneQuestionUnsupported fails each question in turn for one device: the rest stays as it was, and a node comes
// out of it.
func TestAnyOneQuestionUnsupported(t *testing.T) {
	full := walk(t, box(4, 18, "switch"))
	for _, code := range []int{CodeNotSupported, CodeNoFunction, CodeUnknown, CodeNoPermission} {
		for _, q := range []string{"name", "uuid", "pci", "memory", "compute", "mig", "numa", "cpus", "fabric", "linkCount", "pcie", "linkState", "linkVersion",
			"linkRemotePCI", "linkRemoteType", "linkSpeed", "ancestor", "p2p"} {
			f := box(4, 18, "switch")
			f.fail[q+" 2"] = &Error{code, "no answer"}
			for l := range 18 {
				f.fail[fmt.Sprintf("%s 2 %d", q, l)] = &Error{code, "no answer"}
			}
			for _, w := range []any{PCIeGen, PCIeMaxGen, PCIeWidth, PCIeMaxWidth} {
				f.fail[fmt.Sprintf("%s 2 %v", q, w)] = &Error{code, "no answer"}
			}
			res := walk(t, f)
			for i := range res.Node.GPUs {
				if i != 2 && !reflect.DeepEqual(res.Node.GPUs[i], full.Node.GPUs[i]) {
					t.Errorf("%s failed with %d for GPU 2: GPU %d became %+v", q, code, i, res.Node.GPUs[i])
				}
			}
			told := strings.Join(res.Warnings, "\n")
			if quiet := code == CodeNotSupported || code == CodeNoFunction; quiet && told != "" {
				t.Errorf("%s is not supported: warned %s", q, told)
			}
			if code == CodeUnknown && told != "" && strings.Count(told, "\n") > 20 {
				t.Errorf("%s: %d warnings", q, strings.Count(told, "\n"))
			}
			cluster(t, res)
		}
	}
}

func TestNoDevicesAndNoAnswer(t *testing.T) {
	if _, err := Walk(&fake{asked: map[int]int{}}); err == nil || !strings.Contains(err.Error(), "no GPU") {
		t.Errorf("no device: %v", err)
	}
	f := box(1, 0, "switch")
	f.fail["count"] = &Error{CodeUnknown, "unknown error"}
	if _, err := Walk(f); err == nil {
		t.Error("no count, and no error")
	}
}

func TestReplayGivesTheSameNode(t *testing.T) {
	f := box(8, 18, "switch")
	f.lostAfter[6] = 20
	f.devs[2].up[4] = false
	f.fail["memory 1"] = &Error{CodeUnknown, "unknown error"}
	api, rec := Record(f)
	live, err := Walk(api)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	var again Recording
	if err := json.Unmarshal(data, &again); err != nil {
		t.Fatal(err)
	}
	res, err := Walk(Replay(again))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(live, res) {
		t.Errorf("live %+v\nreplay %+v", live, res)
	}
}

func TestNewWithoutDriverSaysWhatIsMissing(t *testing.T) {
	if _, err := os.Stat("/dev/nvidiactl"); err == nil {
		t.Skip("skipped: this host has a driver")
	}
	_, err := New()
	no, ok := err.(*Unavailable)
	if !ok || !strings.Contains(no.Why, "libnvidia-ml.so.1") || no.Hint == "" {
		t.Errorf("error %v", err)
	}
}

func FuzzReplay(f *testing.F) {
	api, rec := Record(box(2, 4, "hidden"))
	if _, err := Walk(api); err != nil {
		f.Fatal(err)
	}
	seed, _ := json.Marshal(rec)
	f.Add(seed)
	f.Add([]byte(`{"count":{"value":3},"linkCount 0":{"value":36},"linkState 0 1":{"value":true},"pci 1":{"value":"x"},"fabric 0":{"value":{"State":-7}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var rec Recording
		if json.Unmarshal(data, &rec) != nil || rec.Check() != nil {
			return
		}
		res, err := Walk(Replay(rec))
		if err != nil {
			return
		}
		topology.FromNodes([]topology.DiscoveredNode{{Name: "n", Class: res.Node}}, nil, nil)
	})
}
