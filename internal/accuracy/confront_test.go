package accuracy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rankmap/configs"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/internal/parallel"
	"rankmap/internal/testdata"
	"rankmap/internal/units"
	"rankmap/topology"
)

func confronter(t testing.TB, o Options) *Confronter {
	t.Helper()
	c, err := New(configs.FS, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func row(system string, op parallel.Op, ranks, nodes int, bytes units.Bytes) measured.Row {
	return measured.Row{System: system, Hardware: strings.TrimSuffix(system, "_server"), GPU: system, Library: "nccl", Version: "2.27.3", Op: op, DType: "bf16",
		Ranks: ranks, Nodes: nodes, GPUsPerNode: ranks / nodes, Bytes: bytes, Time: units.Micros(20)}
}

func TestEveryRowIsPricedOrListed(t *testing.T) {
	net := row("h100_sxm", parallel.AllReduce, 16, 2, 1024)
	net.NICs, net.NICRate, net.Fabric = 8, units.Gbps(400), "InfiniBand"
	rail := row("gb200", parallel.AllToAll, 72, 18, 1<<20)
	rail.Wiring, rail.DomainGPUs = measured.WiringRack, 72
	ring := row("a100_sxm", parallel.SendRecv, 8, 1, 4096)
	custom := row("h100_sxm", parallel.AllReduce, 8, 1, 1024)
	custom.Library = "vllm"
	exchange := row("h100_sxm", parallel.AllToAll, 8, 1, 1024)
	exchange.Kind, exchange.Exchange = measured.Exchange, &measured.ExchangeShape{}
	noNIC := row("h100_sxm", parallel.AllReduce, 16, 2, 1024)
	f := measured.File{Skipped: []measured.Skip{{Reason: measured.SkipUnhealthy}}, Rows: []measured.Row{
		row("h100_sxm", parallel.AllReduce, 8, 1, 1024), row("rtx_pro_6000_server", parallel.AllGather, 4, 1, 1<<20), net, rail, ring,
		custom, exchange, noNIC, row("h100_sxm", parallel.AllReduce, 1, 1, 8), row("tpu_v7", parallel.AllReduce, 8, 1, 8),
	}}
	res := confronter(t, Options{}).Rows(f)
	n := 0
	for _, s := range res.Skipped {
		n += s.N
	}
	if len(res.Cases)+n != len(f.Rows)+1 {
		t.Errorf("%d cases and %d listed of %d rows", len(res.Cases), n, len(f.Rows)+1)
	}
	if len(res.Cases) < 5 {
		t.Errorf("priced %d rows, want 5 at least; left out: %v", len(res.Cases), res.Skipped)
	}
	for _, c := range res.Cases {
		if !(c.Ours > 0) || c.P10 > c.Ours || c.P90 < c.Ours || !(c.Textbook > 0) && c.Row.Kind == measured.Collective {
			t.Errorf("%s %s: ours %v (%v to %v), textbook %v", c.System, c.Collective, c.Ours, c.P10, c.P90, c.Textbook)
		}
		if strings.Contains(c.Collective, "/") {
			continue
		}
		if has := c.NCCL > 0; has != (c.Collective != "all_to_all" && c.Collective != "sendrecv") {
			t.Errorf("%s: NCCL's own time %v", c.Collective, c.NCCL)
		}
	}
}

func TestOptionsCompleteRows(t *testing.T) {
	bare := measured.Row{Library: "nccl", Op: parallel.AllReduce, Ranks: 16, Nodes: 2, GPUsPerNode: 8, Bytes: 8, Time: 1}
	eager := measured.LaunchEager
	c := confronter(t, Options{System: "h100_sxm", Launch: &eager, NICs: 8, NICRate: units.Gbps(400), Fabric: "RoCE"})
	got := c.Complete(bare)
	if got.System != "h100_sxm" || got.Hardware != "h100_sxm" || got.Launch != measured.LaunchEager || got.NICs != 8 || got.Fabric != "RoCE" {
		t.Errorf("%+v", got)
	}
	named := bare
	named.GPU = "NVIDIA H200"
	if got := c.Complete(named); got.System != "h200_sxm" {
		t.Errorf("a printed name wins over the option: %+v", got)
	}
	res := c.Rows(measured.File{Rows: []measured.Row{bare, named}})
	if len(res.Cases) != 1 || len(res.Skipped) != 1 || res.Skipped[0].Reason != errOtherSystem.Error() {
		t.Errorf("%d cases, %v", len(res.Cases), res.Skipped)
	}
}

func TestImpossibleRowsAreListed(t *testing.T) {
	c := confronter(t, Options{})
	for want, edit := range map[string]func(*measured.Row){
		"more GPUs than a cluster may have": func(r *measured.Row) { r.Nodes, r.Ranks = 1<<30, 1<<31 },
		"more ranks than GPUs":              func(r *measured.Row) { r.Ranks = 99 },
		"no peer access between the GPUs":   func(r *measured.Row) { r.Wiring = measured.WiringPCIeHost },
	} {
		r := row("h100_sxm", parallel.AllReduce, 8, 1, 1024)
		edit(&r)
		if res := c.Rows(measured.File{Rows: []measured.Row{r}}); len(res.Skipped) != 1 || res.Skipped[0].Reason != want {
			t.Errorf("%v, want %q", res.Skipped, want)
		}
	}
}

func TestServerBoardsAreOneSystem(t *testing.T) {
	r := row("rtx_pro_6000_server", parallel.AllReduce, 2, 1, 1024)
	for _, s := range []string{"rtx_pro_6000", "rtx_pro_6000_server"} {
		if res := confronter(t, Options{System: s}).Rows(measured.File{Rows: []measured.Row{r}}); len(res.Cases) != 1 {
			t.Errorf("--system %s: %v", s, res.Skipped)
		}
	}
}

func TestMachines(t *testing.T) {
	cat, err := hardware.Load(configs.FS)
	if err != nil {
		t.Fatal(err)
	}
	direct := row("h100_sxm", parallel.AllReduce, 8, 2, 8)
	direct.Wiring, direct.NICs, direct.NICRate, direct.Fabric = measured.WiringDirect, 4, units.Gbps(200), "InfiniBand"
	racks := row("gb200", parallel.AllReduce, 144, 36, 8)
	racks.NICs, racks.NICRate, racks.Fabric = 4, units.Gbps(400), "InfiniBand"
	few := row("a100_sxm", parallel.AllReduce, 8, 2, 8)
	few.NICs, few.NICRate, few.Fabric = 2, units.Gbps(200), "Slingshot"
	for _, c := range []struct {
		name                string
		row                 measured.Row
		endpoints, nics     int
		linkGBps, nicGBps   float64
		network, wholeDomai bool
	}{
		{"8 GPUs of an HGX box", row("h100_sxm", parallel.AllReduce, 8, 1, 8), 1, 0, 450, 0, false, true},
		{"4-GPU boards: a third of the links to each peer", direct, 2, 4, 450, 100, true, true},
		{"two NVL72 racks", racks, 2, 72, 900, 3600, true, true},
		{"8 ranks of a rack that a table calls one node", row("gb200", parallel.AllReduce, 8, 1, 8), 1, 0, 900, 0, false, true},
		{"two NICs for four GPUs", few, 2, 2, 300, 50, true, true},
	} {
		m, err := machineOf(&c.row)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		cl, err := m.cluster(cat)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		s, err := cl.NewShaper().Shape(m.members())
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if s.Endpoints != c.endpoints || s.NICs != c.nics || s.LinkBW.GBps() != c.linkGBps || s.NICBW.GBps() != c.nicGBps || s.Network != c.network || s.NVLink != c.wholeDomai {
			t.Errorf("%s: endpoints %d NICs %d link %v NIC %v network %v NVLink %v", c.name, s.Endpoints, s.NICs, s.LinkBW, s.NICBW, s.Network, s.NVLink)
		}
	}
}

func TestNeighboursTakeTheLongestWay(t *testing.T) {
	m := machine{gpus: 8, used: 4, nodes: 3, ranks: 12, nics: 1, rate: 1}
	if p := m.neighbours(); p[0] != 3 || p[1] != 8 {
		t.Errorf("over nodes the last GPU of one sends to the first of the next: %v", p)
	}
	m = machine{gpus: 4, used: 4, nodes: 36, rack: 18, ranks: 144}
	if p := m.neighbours(); p[0] != 71 || p[1] != 72 {
		t.Errorf("over racks: %v", p)
	}
	m = machine{gpus: 8, used: 8, nodes: 1, ranks: 8}
	if p := m.neighbours(); p[0] != topology.GPUID(0) || p[1] != 1 {
		t.Errorf("in a node: %v", p)
	}
}

func TestKernelsOfFrameworks(t *testing.T) {
	vllm := row("h100_sxm", parallel.AllReduce, 8, 1, 64<<10)
	vllm.Library, vllm.Kernel, vllm.Version = "vllm", "vLLM_custom_eager", "0.19.0"
	vllm.Launch = measured.LaunchEager
	ll := row("h200_sxm", parallel.AllToAll, 8, 1, 0)
	ll.Kind, ll.Library, ll.Kernel = measured.Exchange, "deepep", "deepep_ll"
	ll.Exchange = &measured.ExchangeShape{Phase: "dispatch", Tokens: 128, Hidden: 7168, TopK: 8, Expert: 256}
	far, partial, v2, prepare, prefill, experts, pplx := ll, ll, ll, ll, ll, ll, ll
	prefill.Kernel, pplx.Library, pplx.Kernel = "prefill", "pplx", "decode"
	experts.Exchange = &measured.ExchangeShape{Phase: "dispatch", Tokens: 128, Hidden: 7168, TopK: 8}
	far.Nodes, far.Ranks = 2, 16
	partial.Exchange = &measured.ExchangeShape{Phase: "dispatch", Tokens: 128}
	v2.Kernel = "v2"
	prepare.Exchange = &measured.ExchangeShape{Phase: "prepare"}
	gather := vllm
	gather.Op = parallel.AllGather
	decode := ll
	decode.Kernel = "decode"
	c := confronter(t, Options{})
	if res := c.Rows(measured.File{Rows: []measured.Row{decode}}); len(res.Cases) != 1 || res.Cases[0].Collective != "ep_dispatch/deepep low_latency" {
		t.Errorf("what a table calls decode is DeepEP's low latency: %+v %v", res.Cases, res.Skipped)
	}
	res := c.Rows(measured.File{Rows: []measured.Row{vllm, ll}})
	if len(res.Cases) != 2 || res.Cases[0].Collective != "all_reduce/vllm eager" || res.Cases[1].Collective != "ep_dispatch/deepep low_latency" || res.Cases[1].Size != Middle {
		t.Errorf("%+v %v", res.Cases, res.Skipped)
	}
	for want, r := range map[string]measured.Row{
		"crosses nodes, and the NICs are not stated (--nics, --nic-rate, --fabric)": far, "the exchange's shape is not stated in full": partial,
		"the exchange's number of experts is not stated": experts, "the number of SMs that the exchange may use is not stated": prefill,
		"no model of this expert-parallel kernel: pplx decode": pplx,
		"no model of this expert-parallel kernel: deepep v2":   v2, "no model of the exchange's preparation": prepare, "no model of vllm's all_gather": gather,
	} {
		if res := c.Rows(measured.File{Rows: []measured.Row{r}}); len(res.Skipped) != 1 || res.Skipped[0].Reason != want {
			t.Errorf("%v, want %q", res.Skipped, want)
		}
	}
}

func TestComputations(t *testing.T) {
	op := measured.OpRow{Kind: "gemm", System: "h100_sxm", Framework: "trtllm", DType: "bf16", M: 64, N: 8192, K: 8192, Time: units.Micros(50)}
	plain, odd, other := op, op, op
	plain.System, plain.Framework = "", "plain"
	odd.DType = "fp3"
	other.System = "tpu"
	f := measured.File{Ops: []measured.OpRow{op, plain, odd, other}, Steps: make([]measured.StepRow, 2)}
	res := confronter(t, Options{}).Rows(f)
	if len(res.Cases) != 1 || res.Cases[0].Collective != "gemm" || res.Cases[0].System != "h100_sxm" || !(res.Cases[0].Ours > 0) {
		t.Errorf("%+v", res.Cases)
	}
	want := []Skipped{{"the file names no GPU (--system is missing)", 3}, {"no datasheet of this GPU", 1}, {"no model of this computation's type", 1}}
	if !slices.Equal(res.Skipped, want) {
		t.Errorf("%v", res.Skipped)
	}
	if res := confronter(t, Options{System: "h200_sxm"}).Rows(f); len(res.Cases) != 1 || res.Cases[0].System != "h200_sxm" {
		t.Errorf("--system names the GPU of a table that names none: %+v %v", res.Cases, res.Skipped)
	}
	var b strings.Builder
	if err := res.WriteTable(&b); err != nil || !strings.Contains(b.String(), "gemm") {
		t.Errorf("%v %s", err, b.String())
	}
}

// What lies in testdata is ours and always there.
func TestOwnMeasurements(t *testing.T) {
	files := readAll(t, "testdata/h200-x2/nccl-tests/*.txt", "testdata/h200-x2/raw_graph.csv")
	res := confronter(t, Options{}).Rows(files...)
	if len(res.Cases) != 379 || len(res.Skipped) != 0 {
		t.Errorf("%d cases, left out %v", len(res.Cases), res.Skipped)
	}
	for _, c := range res.Cases {
		if c.System != "h200_sxm" {
			t.Fatalf("%+v", c)
		}
	}
	sweep := readAll(t, "testdata/h200-x2/sweep.csv")
	if res := confronter(t, Options{}).Rows(sweep...); len(res.Cases) != 0 {
		t.Error("a sweep names no GPU: without --system nothing can be priced")
	}
	if res := confronter(t, Options{System: "h200_sxm"}).Rows(sweep...); len(res.Cases) != 342 {
		t.Errorf("%d cases, left out %v", len(res.Cases), res.Skipped)
	}
}

func TestPointsLeaveOutWhatTheFormsDoNotDescribe(t *testing.T) {
	r := row("h100_sxm", parallel.AllReduce, 8, 1, 1024)
	if _, ok := PointOf(&r); !ok {
		t.Error("an ordinary row is a point")
	}
	for name, edit := range map[string]func(*measured.Row){
		"another library": func(r *measured.Row) { r.Library = "vllm" },
		"forced":          func(r *measured.Row) { r.ForcedAlgorithm = "Tree" },
		"through PyTorch": func(r *measured.Row) { r.Kernel = "pytorch" },
		"contention":      func(r *measured.Row) { r.Kind = measured.Contention },
		"unknown GPU":     func(r *measured.Row) { r.Hardware = "" },
		"no NIC":          func(r *measured.Row) { r.Nodes = 2 },
	} {
		x := r
		edit(&x)
		if _, ok := PointOf(&x); ok {
			t.Errorf("%s: no point", name)
		}
	}
	rack := row("gb200", parallel.AllReduce, 144, 36, 8)
	rack.DomainGPUs, rack.NICs, rack.NICRate, rack.Fabric = 72, 4, units.Gbps(400), "RoCE"
	if p, ok := PointOf(&rack); !ok || p.Nodes != 2 || p.NIC.GBps() != 3600 {
		t.Errorf("%+v", p)
	}
}

// The real tables: nothing is lost, and NCCL's model comes out where COLLECTIVES.md has it (21 to 25 % median, 41 % at
// the 90th percentile, in one domain).
func TestPublicTables(t *testing.T) {
	dir := testdata.Dir(t, "measured", "public")
	for _, name := range []string{"collectives.csv", "published_tables.csv", "deepep.csv", "nvl_alltoall.csv"} {
		f := readAll(t, filepath.Join(dir, name))[0]
		res := confronter(t, Options{}).Rows(f)
		listed := 0
		for _, s := range res.Skipped {
			listed += s.N
		}
		if len(res.Cases)+listed != len(f.Rows)+len(f.Skipped) {
			t.Errorf("%s: %d cases and %d listed of %d", name, len(res.Cases), listed, len(f.Rows)+len(f.Skipped))
		}
		if name == "collectives.csv" {
			var nccl []Case
			for _, x := range res.Cases {
				if x.Row.Library == "nccl" {
					nccl = append(nccl, x)
				}
			}
			if s := Score(nccl, NCCL); s.MedianAPE < 18 || s.MedianAPE > 28 || s.P90APE < 35 || s.P90APE > 46 {
				t.Errorf("NCCL's model is off by %.1f / %.1f %%, COLLECTIVES.md has 21 to 25 / 41", s.MedianAPE, s.P90APE)
			}
		}
	}
}

func readAll(t testing.TB, patterns ...string) []measured.File {
	t.Helper()
	var files []measured.File
	for _, p := range patterns {
		names, err := filepath.Glob(p)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: no files", p)
		}
		for _, name := range names {
			r, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			f, err := measured.Read(r, name)
			r.Close()
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
	}
	return files
}
