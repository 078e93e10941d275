package measured

import (
	"math"
	"strings"
	"testing"

	"rankmap/internal/parallel"
)

// Small files of each format, in our own numbers, with the oddities of the real ones.
const (
	smallCollectives = "\ufeffsystem,library,version,kernel,collective,dtype,ranks,nodes,bytes,time_us\r\n" +
		"h100_sxm,nccl,2.27.3,,all_gather,half,2,1,512,6.500\r\n" +
		"rtx_pro_6000_server,nccl,2.29.2,,alltoall,int8,8,1,1024,9.5\r\n" +
		"b200_sxm,vllm,0.19.0,vLLM_custom_eager,all_reduce,bfloat16,4,1,4096,22\r\n" +
		"gb200,nccl,2.23,,all_reduce,half,8,2,4096,\r\n"

	smallPublished = `id,source,gpu,nodes,gpus_per_node,ranks,intra_link,inter_link,nccl_version,algo_forced,proto_forced,collective,bytes,datatype,time_us,algbw_GBps,busbw_GBps,healthy,note
A-1,site,H100-SXM,2,8,16,NVLink4 NVSwitch,8x400G IB NDR,2.21,,,all_reduce,1024,float,31.5,0.03,0.06,yes,
A-2,site,H100-SXM,2,4,8,NVLink4 direct (4 GPU),4x200G IB,2.21,Ring,,all_reduce,1024,float,18,,,yes,"forced, quoted"
A-3,site,GB200,36,4,144,NVLink5 NVL72,4x400G IB NDR per tray,,,,alltoall,1048576,bfloat16,400,,,yes,
A-4,site,RTX-4090,1,4,4,PCIe4 (no P2P),none,,,,all_reduce,1024,float,40,,,no,
A-5,site,SM90 (H800 or H100),2,8,16,NVLink4 NVSwitch,8x400G IB NDR,,deepep:v2,,ep_dispatch,,fp8,90,,,yes,"8K tokens, hidden 7168, top-8, 12 SMs"
A-6,site,H800-SXM,2,8,16,"NVLink4 NVSwitch (H800, 8 links)",8x400G IB NDR,,deepep:low_latency,,ep_combine,14430000,bfloat16,195,,,yes,"128 tokens, hidden 7168, top-8"
A-7,site,H100-SXM,1,8,8,NVLink4 NVSwitch,none,,,,all_reduce,1024,float,15,,,unknown,
`

	smallSweep = "init,2,all_reduce,1048576,30.1,25.7,39,\ndefault,2,all_reduce,8,34.4,29.5,36.5,10.04\n" +
		"default,2,p2p_oneway,8,20,19,21,\nRing-LL,2,all_reduce,8,22,21,23,11\nshm,2,all_reduce,8,30,29,31,20\n"

	smallContention = "channels,case,bytes,gemm_m,first_us,second_us\n" +
		"default,all_reduce alone,65536,,66.8,\n4,all_reduce alone,65536,,70,\ndefault,two all_reduce at once,65536,,168,169\n" +
		"8,all_reduce with all_to_all,1048576,,100,90\ndefault,gemm alone,,512,400,\ndefault,all_reduce x3 with gemm x1,1048576,512,120,410\n"

	smallDeepEP = "system,mode,version,nodes,hidden,tokens_per_rank,topk,experts,sms,dispatch_us,combine_us\n" +
		"b200_sxm,deepep_ll,0.5.12,1,2048,1,8,128,,16.5,16.8\nh200_sxm,deepep_normal,0.5.6.post2,2,7168,128,8,256,24,200,210\n"

	smallNVL = "system,version,kernel,op,dtype,tokens,hidden,topk,experts,ep_size,time_us\n" +
		"gb200,1.3.0rc10,NVLinkTwoSided,alltoall_dispatch,nvfp4,1,7168,8,256,16,14.8\n"
)

// Tables of computations and steps go into their own lists.
func TestOtherTables(t *testing.T) {
	for _, c := range []struct {
		text, format string
		ops, steps   int
	}{
		{"system,version,gemm_dtype,m,n,k,time_us\na100_sxm,1.0,bfloat16,1,1024,4096,12\n", "gemm.csv", 1, 0},
		{"system,version,attn_dtype,kv_cache_dtype,batch_size,isl,num_heads,num_key_value_heads,head_dim,window_size,time_us\nh100_sxm,1.0,bfloat16,fp8,1,1024,32,8,128,0,60\n", "attention table", 1, 0},
		{"kind,name,m,k,n,time_us,TFLOPs,GBps\ngemm_bf16,qkv,1,8192,10240,43,3.9,3866\n", "compute.csv", 1, 0},
		{"model,tp,phase,case,comm,layers,time_us,per_layer_us\nllama70b,tp2,decode,b1_ctx1024,comm,8,3625.5,453.2\nsymm,one_shot,all_reduce,1024,,1,6.3,\n", "step.csv", 0, 1},
	} {
		f := mustRead(t, c.text, "x")
		if f.Format != c.format || len(f.Ops) != c.ops || len(f.Steps) != c.steps || len(f.Rows) != 0 {
			t.Errorf("%s: read as %s with %d computations, %d steps, %d rows", c.format, f.Format, len(f.Ops), len(f.Steps), len(f.Rows))
		}
	}
}

func mustRead(t *testing.T, text, name string) File {
	t.Helper()
	f, err := Read(strings.NewReader(text), name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return f
}

func reasons(f File) map[string]int {
	m := map[string]int{}
	for _, s := range f.Skipped {
		m[s.Reason]++
	}
	return m
}

func TestFormatIsToldByHeaderOrContent(t *testing.T) {
	for _, c := range []struct {
		text, format  string
		rows, skipped int
	}{
		{smallCollectives, "collectives.csv", 3, 1},
		{smallPublished, "published_tables.csv", 4, 3},
		{smallSweep, "sweep.csv", 3, 5},
		{smallContention, "contention.csv", 7, 1},
		{smallDeepEP, "deepep.csv", 2, 2},
		{smallNVL, "nvl_alltoall.csv", 1, 0},
		{runOf2026, "nccl-tests text", 6, 0},
		{smallJSON, "nccl-tests JSON", 3, 1},
		{smallReport, "validation report", 1, 1},
	} {
		f := mustRead(t, c.text, "some-name")
		if f.Format != c.format || len(f.Rows) != c.rows || len(f.Skipped) != c.skipped {
			t.Errorf("%s: read as %s with %d rows, %d skipped; want %d, %d", c.format, f.Format, len(f.Rows), len(f.Skipped), c.rows, c.skipped)
		}
		for _, r := range f.Rows {
			if r.File != "some-name" || r.Line < 1 || !(r.Time > 0) || r.Ranks < 1 || r.Nodes < 1 || r.GPUsPerNode < 1 {
				t.Errorf("%s: incomplete row %+v", c.format, r)
			}
		}
	}
	if _, err := Read(strings.NewReader("a,b\n1,2\n"), "x.csv"); err == nil || !strings.Contains(err.Error(), "known: collectives.csv") {
		t.Errorf("an unknown table must name the known ones: %v", err)
	}
}

func TestCollectives(t *testing.T) {
	rows := mustRead(t, smallCollectives, "c.csv").Rows
	if r := rows[0]; r.Line != 2 || r.DType != "fp16" || r.Launch != LaunchGraph || r.Op != parallel.AllGather {
		t.Errorf("%+v", r)
	}
	if r := rows[1]; r.System != "rtx_pro_6000_server" || r.Hardware != "rtx_pro_6000" || r.Op != parallel.AllToAll || r.DType != "int8" {
		t.Errorf("%+v", r)
	}
	if r := rows[2]; r.Launch != LaunchEager || r.Library != "vllm" {
		t.Errorf("%+v", r)
	}
}

func TestPublished(t *testing.T) {
	f := mustRead(t, smallPublished, "p.csv")
	r := f.Rows
	if x := r[0]; x.System != "h100_sxm" || x.NICs != 8 || x.NICRate.Gbps() != 400 || x.Fabric != "InfiniBand" || x.Launch != LaunchEager || x.Wiring != WiringNVSwitch {
		t.Errorf("%+v", x)
	}
	if x := r[1]; x.System != "H100-SXM" || x.Hardware != "h100_sxm" || x.Wiring != WiringDirect || x.ForcedAlgorithm != "Ring" {
		t.Errorf("a four-GPU board is no HGX box: %+v", x)
	}
	if x := r[2]; x.System != "gb200" || x.DomainGPUs != 72 || x.Nodes != 36 || x.NICs != 4 {
		t.Errorf("%+v", x)
	}
	if x := r[3]; x.Kind != Exchange || x.Library != "deepep" || x.Kernel != "low_latency" || *x.Exchange != (ExchangeShape{Phase: "combine", Tokens: 128, Hidden: 7168, TopK: 8}) {
		t.Errorf("%+v %+v", x, x.Exchange)
	}
	want := map[string]int{SkipUnhealthy: 1, SkipUnknown: 1, SkipGPUUnclear: 1}
	for k, n := range want {
		if reasons(f)[k] != n {
			t.Errorf("skipped %v, want %v", reasons(f), want)
		}
	}
}

func TestNetworkDescriptions(t *testing.T) {
	for s, want := range map[string]network{
		"none (one NVL72)":                 {},
		"8x400G IB NDR with SHARP":         {8, 50e9, "InfiniBand"},
		"32x100G EFA":                      {32, 12.5e9, "EFA"},
		"EFA 400G per GPU":                 {8, 50e9, "EFA"},
		"TCP over Slingshot":               {0, 0, "TCP"},
		"4x200G TCPX (GCP A3 High)":        {4, 25e9, "TCP"},
		"1x IB ConnectX-7":                 {1, 0, "InfiniBand"},
		"16x400G EFA (p6-b300)":            {16, 50e9, "EFA"},
		"RoCE between racks (per-GPU NIC)": {0, 0, "RoCE"},
		"8x400G CX7":                       {8, 50e9, "InfiniBand"},
	} {
		if got := parseNetwork(s, 8); got != want {
			t.Errorf("%q: %+v, want %+v", s, got, want)
		}
	}
}

// What a later table may hold does not spoil the rest of it: other collectives and rows without a time are listed, other
// element types and networks are kept as they are called.
func TestUnknownThingsAreKeptOrListed(t *testing.T) {
	more := "h100_sxm,nccl,2.27.3,,scatter,half,2,1,512,6.5\nh100_sxm,nccl,2.27.3,,all_gather,float6_e3m2,2,1,512,6.5\nh100_sxm,nccl,2.27.3,,all_gather,half,2,1,512,0.0\n"
	f := mustRead(t, smallCollectives+more, "c.csv")
	if m := reasons(f); m[SkipNoOp] != 1 || m[SkipNoTime] != 2 || f.Rows[len(f.Rows)-1].DType != "float6_e3m2" {
		t.Errorf("%v %+v", m, f.Rows[len(f.Rows)-1])
	}
	p := mustRead(t, strings.ReplaceAll(smallPublished, "4x200G IB", "4x100G Omni-Path"), "p.csv").Rows[1]
	if p.Fabric != "" || p.NICs != 4 || p.NICRate.Gbps() != 100 || p.FabricDetail != "4x100G Omni-Path" {
		t.Errorf("%+v", p)
	}
	foreign := strings.ReplaceAll(runOf2026, "reduce_scatter_perf", "scatter_perf")
	if f := mustRead(t, foreign, "x"); len(f.Rows) != 0 || reasons(f)[SkipNoOp] != 4 {
		t.Errorf("%d rows, %v", len(f.Rows), reasons(f))
	}
	f = mustRead(t, strings.ReplaceAll(smallJSON, "alltoall_perf", "gather_perf"), "x")
	if len(f.Rows) != 0 || reasons(f)[SkipNoOp] != 1 {
		t.Errorf("%d rows, %v", len(f.Rows), reasons(f))
	}
}

func TestSweep(t *testing.T) {
	f := mustRead(t, smallSweep, "s")
	if f.Rows[0].Launch != LaunchEager || f.Rows[1].Launch != LaunchGraph || !near(f.Rows[1], 10.04) {
		t.Errorf("%+v", f.Rows)
	}
	if f.Rows[2].Op != parallel.SendRecv {
		t.Errorf("%+v", f.Rows[2])
	}
	if m := reasons(f); m[SkipSetup] != 1 || m[SkipForced] != 2 || m[SkipP2POff] != 2 {
		t.Errorf("%v", m)
	}
}

func TestContention(t *testing.T) {
	r := mustRead(t, smallContention, "c").Rows
	if r[0].Kind != Collective || r[0].Beside != nil {
		t.Errorf("alone on the default channels is an ordinary collective: %+v", r[0])
	}
	if r[1].Kind != Contention || r[1].Beside.Channels != 4 {
		t.Errorf("%+v", r[1])
	}
	if r[2].Beside.Op != parallel.AllReduce || !near(r[3], 169) {
		t.Errorf("%+v", r[2:4])
	}
	if r[5].Op != parallel.AllToAll || r[5].Beside.Op != parallel.AllReduce || !near(r[5], 90) {
		t.Errorf("the second side sees the first: %+v %+v", r[5], r[5].Beside)
	}
	if r[6].Beside.GEMMRows != 512 {
		t.Errorf("%+v", r[6].Beside)
	}
}

func TestBadLinesAreErrorsWithFileAndLine(t *testing.T) {
	head := "system,library,version,kernel,collective,dtype,ranks,nodes,bytes,time_us\n"
	for _, c := range []struct{ name, text, want string }{
		{"collective", head + "h100_sxm,nccl,2.27,,all_sum,half,2,1,8,5\n", `x.csv:2: unknown collective "all_sum"`},
		{"ranks", head + "h100_sxm,nccl,2.27,,all_reduce,half,-2,1,8,5\n", `x.csv:2: ranks "-2": want a whole number of at least 1`},
		{"time", head + "h100_sxm,nccl,2.27,,all_reduce,half,2,1,8,NaN\n", `x.csv:2: time_us "NaN"`},
		{"type", head + "h100_sxm,nccl,2.27,,all_reduce,half!,2,1,8,5\n", `x.csv:2: dtype "half!": want the name of an element type`},
		{"fields", head + "h100_sxm,nccl\n", "x.csv:2: 2 fields, want 10"},
		{"uneven", head + "h100_sxm,nccl,2.27,,all_reduce,half,7,2,8,5\n", "x.csv:2: 7 ranks on 2 nodes"},
		{"sweep tag", "defualt,2,all_reduce,8,34,29,36,10\n", `x.csv:1: tag "defualt"`},
		{"case", "channels,case,bytes,gemm_m,first_us,second_us\ndefault,sleep alone,8,,1,\n", `x.csv:2: case "sleep alone": want`},
		{"health", strings.ReplaceAll(smallPublished, ",unknown,", ",perhaps,"), `x.csv:8: healthy "perhaps": want yes, no or unknown`},
	} {
		_, err := Read(strings.NewReader(c.text), "x.csv")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	var many strings.Builder
	many.WriteString(head)
	for range 50 {
		many.WriteString("h100_sxm,nccl,2.27,,all_reduce,half,0,1,8,5\n")
	}
	_, err := Read(strings.NewReader(many.String()), "x.csv")
	if lines := strings.Count(err.Error(), "\n"); lines != problemCap || !strings.Contains(err.Error(), "30 more problems") {
		t.Errorf("want %d problems and a count of the rest, got %d lines: %v", problemCap, lines, err)
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{smallCollectives, smallPublished, smallSweep, smallContention, smallDeepEP, smallNVL, runOf2026, runOf2018, smallJSON, smallReport} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		file, _ := Read(strings.NewReader(s), "fuzz")
		for _, r := range file.Rows {
			if !(r.Time > 0) || r.Ranks < 1 || r.Nodes < 1 || r.Bytes < 0 || r.GPUsPerNode < 1 {
				t.Fatalf("%s gave an impossible row: %+v", file.Format, r)
			}
		}
	})
}

// fuzzReader runs one reader on any bytes.
func fuzzReader(f *testing.F, name string, seeds ...string) {
	for _, s := range seeds {
		f.Add(s)
	}
	for _, format := range formats {
		if format.name == name {
			f.Fuzz(func(t *testing.T, s string) {
				file := File{Name: "all_reduce"}
				_ = format.read(strings.NewReader(s), &file)
				for _, r := range file.Rows {
					if !(r.Time > 0) || r.Ranks < 1 || r.Nodes < 1 || r.GPUsPerNode < 1 {
						t.Fatalf("impossible row: %+v", r)
					}
				}
			})
			return
		}
	}
	f.Fatalf("no format %s", name)
}

func FuzzCollectives(f *testing.F)    { fuzzReader(f, "collectives.csv", smallCollectives) }
func FuzzPublished(f *testing.F)      { fuzzReader(f, "published_tables.csv", smallPublished) }
func FuzzSweep(f *testing.F)          { fuzzReader(f, "sweep.csv", smallSweep) }
func FuzzContention(f *testing.F)     { fuzzReader(f, "contention.csv", smallContention) }
func FuzzDeepEP(f *testing.F)         { fuzzReader(f, "deepep.csv", smallDeepEP) }
func FuzzNVLinkAllToAll(f *testing.F) { fuzzReader(f, "nvl_alltoall.csv", smallNVL) }
func FuzzNCCLTests(f *testing.F)      { fuzzReader(f, "nccl-tests text", runOf2026, runOf2018) }
func FuzzNCCLTestsJSON(f *testing.F)  { fuzzReader(f, "nccl-tests JSON", smallJSON) }
func FuzzReport(f *testing.F)         { fuzzReader(f, "validation report", smallReport) }

// near compares a time up to the rounding of its unit.
func near(r Row, us float64) bool { return math.Abs(r.Time.Micros()/us-1) < 1e-12 }
