package measured

import "testing"

const head = "id,source,gpu,nodes,gpus_per_node,ranks,intra_link,inter_link,nccl_version,algo_forced,proto_forced,collective,bytes,datatype,time_us,algbw_GBps,busbw_GBps,healthy,note\n"

// A table that names two GPUs, each with its network, means the one whose network the row states.
func TestOneOfSeveralGPUs(t *testing.T) {
	const both = "H200-SXM (p5en) or H100-SXM (CX7)"
	for _, c := range []struct{ gpu, network, want string }{
		{both, "8x400G CX7 ", "H100-SXM"},
		{both, "EFA 400G per GPU ", "H200-SXM"},
		{both, "none pplx-EFA:decode", "H200-SXM"},
		{both, "none pplx:decode", both},
		{both, "CX7 over EFA", both},
		{"SM90 (H800 or H100)", "8x400G CX7", "SM90 (H800 or H100)"},
		{"H100-SXM", "CX7", "H100-SXM"},
		{"A () or B (x)", "x", "B"},
		{" or ", "", " or "},
		{"", "CX7", ""},
	} {
		if got := oneOfSeveral(c.gpu, c.network); got != c.want {
			t.Errorf("%q with %q: %q, want %q", c.gpu, c.network, got, c.want)
		}
	}
}

// Exchanges of several libraries: the GPU of the row's network, the publisher's shape, and what is left out with its reason.
func TestPublishedExchanges(t *testing.T) {
	const two = "H200-SXM (p5en) or H100-SXM (CX7)"
	rows := "1,perplexityai/pplx-garden:x.md," + two + ",2,8,16,NVLink4 NVSwitch,8x400G CX7,,DeepEP-CX7:decode,,ep_dispatch,,fp8,120,,,yes,64 tokens per rank\n" +
		"2,perplexityai/pplx-garden:x.md," + two + ",1,8,8,NVLink4 NVSwitch,none,,pplx-EFA:decode,,ep_combine,,bfloat16,60,,,yes,64 tokens per rank\n" +
		"3,elsewhere:x.md,H100-SXM,1,8,8,NVLink4 NVSwitch,none,,pplx:decode,,ep_combine,,bfloat16,60,,,yes,64 tokens per rank\n" +
		"4,site,H100-SXM,1,8,8,NVLink4 NVSwitch,none,,nccl_ep:low_latency,,ep_dispatch,,fp8,,220,,yes,128 tokens\n" +
		"5,site,H100-SXM,1,8,8,NVLink4 NVSwitch,none,,pplx-CX7:prefill,,ep_dispatch,,fp8,5000,,,yes,64 tokens; EP8 dispatch of pplx-CX7 and EP16 combine of pplx-CX7 look mistyped\n" +
		"6,site,H100-SXM,1,8,8,NVLink4 NVSwitch,none,,pplx-CX7:prefill,,ep_combine,,fp8,5000,,,yes,64 tokens; EP8 dispatch of pplx-CX7 and EP16 combine of pplx-CX7 look mistyped\n" +
		"7,site," + two + ",1,8,8,NVLink4 NVSwitch,none,,pplx:decode,,ep_combine,,bfloat16,60,,,yes,64 tokens\n"
	f := mustRead(t, head+rows, "p.csv")
	if len(f.Rows) != 4 {
		t.Fatalf("%d rows, %v", len(f.Rows), reasons(f))
	}
	if x := f.Rows[0]; x.System != "h100_sxm" || x.Library != "deepep" || x.Kernel != "decode" || *x.Exchange != (ExchangeShape{Phase: "dispatch", Tokens: 64, Hidden: 7168, TopK: 8, Expert: 256}) || len(x.Flags) != 1 {
		t.Errorf("%+v %+v", x, x.Exchange)
	}
	if x := f.Rows[1]; x.System != "h200_sxm" || x.Library != "pplx" || x.Exchange.Hidden == 0 {
		t.Errorf("%+v %+v", x, x.Exchange)
	}
	if x := f.Rows[2].Exchange; x.Hidden != 0 || x.Expert != 0 {
		t.Errorf("another publisher's shape is not known: %+v", x)
	}
	if m := reasons(f); m[SkipBandwidth] != 1 || m[SkipMistyped] != 1 || m[SkipGPUUnclear] != 1 {
		t.Errorf("%v", m)
	}
}
