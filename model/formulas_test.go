package model

import (
	"math"
	"testing"

	"rankmap/configs"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// embedded loads one of the models that the program ships.
func embedded(t testing.TB, name string) *Spec {
	t.Helper()
	s, err := Load(configs.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sent is how many bytes leave one GPU for a collective over n ranks.
func sent(c CollectiveOp, n int) float64 { return float64(c.Bytes) * c.Op.BusFactor(n) }

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance*math.Abs(want) {
		t.Errorf("%s: got %v, want %v (off %+.3f%%)", what, got, want, 100*(got-want)/want)
	}
}

func find(ops []CollectiveOp, name string) CollectiveOp {
	for _, o := range ops {
		if o.Name == name {
			return o
		}
	}
	return CollectiveOp{}
}

func TestEmbeddedModelsHaveTheirPublishedSizes(t *testing.T) {
	want := map[string]int64{ // parameters of the main network, as the publishers' weight files hold them
		"llama-3.1-8b": 8030261248, "llama-3.1-70b": 70553706496, "llama-3.1-405b": 405853388800, "mixtral-8x7b": 46702792704,
		"qwen3-235b-a22b": 235093634560, "qwen3-32b": 32762123264, "gpt-oss-120b": 116829156672, "deepseek-v3": 671026419200, "kimi-k2": 1026408232448,
	}
	names := Names(configs.FS)
	if len(names) < len(want) {
		t.Errorf("names: %v, want at least %d", names, len(want))
	}
	for name, n := range want {
		s := embedded(t, name)
		if got := s.Params().Total; got != n {
			t.Errorf("%s: %d parameters, want %d", name, got, n)
		}
		if len(s.Warnings) > 0 {
			t.Errorf("%s: warnings %v", name, s.Warnings)
		}
	}
}

func TestTensorParallelVolumesOfLlama70B(t *testing.T) {
	s := embedded(t, "llama-3.1-70b")
	st := parallel.Strategy{TP: 8}.Normalize()
	ops := s.StepCollectives(st, Work{Phase: Decode, Batch: 64, Tokens: 1, Context: 4096}, 0)
	reductions, total := 0, 0.0
	for _, o := range ops {
		if o.Op != parallel.AllReduce {
			continue
		}
		if o.Bytes != 1048576 {
			t.Errorf("%s: message of %d bytes, want 1048576", o.Name, o.Bytes)
		}
		near(t, "sent for one all-reduce", sent(o, 8), 1835008, 0)
		reductions += o.Times
		total += sent(o, 8) * float64(o.Times)
	}
	if reductions != 161 { // two a layer and the embedding
		t.Errorf("%d all-reduces, want 161", reductions)
	}
	near(t, "sent for the network, decode", total, 0.2954e9, 1e-3)
	logits := find(ops, "logits")
	near(t, "logits of 64 rows in bf16", sent(logits, 8), 14.36e6, 1e-3)

	prefill := s.StepCollectives(st, Work{Phase: Prefill, Batch: 1, Tokens: 8192, Context: 8192}, 0)
	total = 0
	for _, o := range prefill {
		if o.Op == parallel.AllReduce {
			if o.Bytes != 134217728 {
				t.Errorf("%s: message of %d bytes, want 134217728", o.Name, o.Bytes)
			}
			total += sent(o, 8) * float64(o.Times)
		}
	}
	near(t, "sent for the network, prefill of 8192", total, 37.82e9, 1e-3)
}

func TestTrainingVolumesOfLlama70B(t *testing.T) {
	s := embedded(t, "llama-3.1-70b")
	w := Work{Phase: Train, Batch: 1, Tokens: 8192, Context: 8192}
	perLayer := func(st parallel.Strategy) (blocking, hidden float64) {
		for _, o := range s.StepCollectives(st.Normalize(), w, 0) {
			if o.Times < 80 {
				continue // embedding and head
			}
			b := sent(o, 8) * float64(o.Times) / 80
			if o.Overlappable {
				hidden += b
			} else {
				blocking += b
			}
		}
		return blocking, hidden
	}
	b, _ := perLayer(parallel.Strategy{TP: 8})
	near(t, "a layer and micro-batch", b, 0.9395e9, 1e-3)
	b, _ = perLayer(parallel.Strategy{TP: 8, Recompute: "full"})
	near(t, "with full recompute", b, 1.4093e9, 1e-3)
	b, h := perLayer(parallel.Strategy{TP: 8, SequenceParallel: true})
	near(t, "with sequence parallelism", b, 0.9395e9, 1e-3)
	near(t, "inputs gathered again beside the backward pass", h, 0.2349e9, 1e-3)
	loss := find(s.StepCollectives(parallel.Strategy{TP: 8}.Normalize(), w, 0), "loss")
	near(t, "three reductions of the loss", sent(loss, 8)*float64(loss.Times), 172e3, 2e-3)
}

func TestPipelineAndContextOfLlama405B(t *testing.T) {
	s := embedded(t, "llama-3.1-405b")
	st := parallel.Strategy{TP: 8, PP: 16, DP: 64}.Normalize()
	w := Work{Phase: Train, Batch: 1, Tokens: 8192, Context: 8192}
	send := find(s.StepCollectives(st, w, 3), "activation to next stage")
	near(t, "boundary message on one GPU", float64(send.Bytes), 33.55e6, 1e-3)
	whole := find(s.StepCollectives(parallel.Strategy{PP: 16}.Normalize(), w, 3), "activation to next stage")
	near(t, "boundary message", float64(whole.Bytes), 268.4e6, 1e-3)

	long := Work{Phase: Train, Batch: 1, Tokens: 131072, Context: 131072}
	cp := parallel.Strategy{TP: 8, CP: 16}.Normalize()
	var forward, backward float64
	for _, o := range s.StepCollectives(cp, long, 0) {
		if o.Group != parallel.CP {
			continue
		}
		near(t, "keys and values of the whole sequence on a rank", float64(o.Bytes), 67.1e6, 1e-3)
		b := sent(o, 16) * float64(o.Times) / 126
		if o.Op == parallel.AllGather {
			forward += b / 2 // forward and again for the backward pass
			backward += b / 2
		} else {
			backward += b
		}
	}
	near(t, "received forward, a layer", forward, 62.9e6, 1e-3)
	near(t, "backward, a layer", backward, 125.8e6, 1e-3)
	if _, ok := s.Layer(0).UlyssesBytes(131072, 8, 16); ok {
		t.Error("Ulysses over 16 ranks with one KV head a rank passed without copies")
	}
}

func TestRingAgainstUlyssesOfLlama70B(t *testing.T) {
	s := embedded(t, "llama-3.1-70b")
	w := Work{Phase: Prefill, Batch: 1, Tokens: 65536, Context: 65536}
	ring := find(s.StepCollectives(parallel.Strategy{CP: 8}.Normalize(), w, 0), "keys and values over context")
	near(t, "ring", sent(ring, 8), 234.9e6, 1e-3)
	u, ok := s.Layer(0).UlyssesBytes(65536, 1, 8)
	if !ok {
		t.Error("8 KV heads over 8 ranks refused")
	}
	near(t, "Ulysses", float64(u)*7/8, 264.2e6, 1e-3)
}

func TestDataParallelVolumes(t *testing.T) {
	big := embedded(t, "llama-3.1-405b")
	// The worked numbers spread 405,853,388,800 parameters evenly over 128 ranks: the mean over 16 stages.
	for _, c := range []struct {
		zero     int
		training Training
		want     map[parallel.Op]float64
	}{
		{0, Training{GradBytes: 2}, map[parallel.Op]float64{parallel.AllReduce: 12.485e9}},
		{1, Training{}, map[parallel.Op]float64{parallel.ReduceScatter: 12.485e9, parallel.AllGather: 6.242e9}},
		{3, Training{GradBytes: 2}, nil},
	} {
		st := parallel.Strategy{TP: 8, PP: 16, DP: 64, ZeRO: c.zero}.Normalize()
		got := map[parallel.Op]float64{}
		total := 0.0
		for stage := range st.PP {
			ops := big.GradientCollectives(st, stage, c.training)
			if c.zero == 3 {
				ops = big.StepCollectives(st, Work{Phase: Train, Batch: 1, Tokens: 8192, Context: 8192}, stage)
			}
			for _, o := range ops {
				if o.Group == parallel.DP {
					got[o.Op] += sent(o, 64) * float64(o.Times) / 16
					total += sent(o, 64) * float64(o.Times) / 16
				}
			}
		}
		for op, want := range c.want {
			near(t, op.String(), got[op], want, 1e-3)
		}
		if c.zero == 3 {
			near(t, "ZeRO-3", total, 18.727e9, 1e-3)
		}
	}

	small := embedded(t, "llama-3.1-8b")
	// One stage over 8 ranks of a small network: ZeRO-3 gathers twice and scatters once.
	st := parallel.Strategy{DP: 8, ZeRO: 3}.Normalize()
	sum := 0.0
	for _, o := range small.StepCollectives(st, Work{Phase: Train, Batch: 1, Tokens: 4096, Context: 4096}, 0) {
		if o.Group == parallel.DP {
			if !o.Overlappable {
				t.Errorf("%s is not overlappable", o.Name)
			}
			sum += sent(o, 8) * float64(o.Times)
		}
	}
	near(t, "ZeRO-3 of a pass over 8", sum, 42.16e9, 1e-3)
	// Over context parallelism alone weights are shared out as well, and gathered.
	sum = 0
	for _, o := range small.StepCollectives(parallel.Strategy{CP: 8, ZeRO: 3}.Normalize(), Work{Phase: Train, Batch: 1, Tokens: 4096, Context: 4096}, 0) {
		if o.Group == parallel.CP && o.Overlappable {
			sum += sent(o, 8) * float64(o.Times)
		}
	}
	near(t, "ZeRO-3 of a pass over cp 8", sum, 42.16e9, 1e-3)
}

func TestExpertExchangeVolumes(t *testing.T) {
	v3 := embedded(t, "deepseek-v3")
	st := parallel.Strategy{DP: 8, EP: 8}.Normalize()
	ops := v3.StepCollectives(st, Work{Phase: Decode, Batch: 128, Tokens: 1, Context: 4096}, 0)
	dispatch, combine := find(ops, "moe dispatch"), find(ops, "moe combine")
	near(t, "dispatch of 128 tokens", float64(dispatch.Bytes), 7.569e6, 1e-3)
	near(t, "combine of 128 tokens", float64(combine.Bytes), 14.680e6, 1e-3)
	near(t, "a layer sends", sent(dispatch, 8)+sent(combine, 8), 19.47e6, 1e-3)
	if dispatch.Times != 58 || dispatch.Exchange == nil || dispatch.Exchange.BytesPerCopy != 7392 || dispatch.Exchange.TopGroups != 4 {
		t.Errorf("dispatch: %+v %+v", dispatch, dispatch.Exchange)
	}
	tp := v3.StepCollectives(parallel.Strategy{TP: 8, ExpertTP: 8}.Normalize(), Work{Phase: Decode, Batch: 1024, Tokens: 1, Context: 4096}, 0)
	near(t, "tensor parallel on the same tokens, two all-reduces", 2*sent(find(tp, "attention out-projection"), 8), 51.38e6, 1e-3)

	mix := embedded(t, "mixtral-8x7b")
	ops = mix.StepCollectives(st, Work{Phase: Prefill, Batch: 1, Tokens: 4096, Context: 4096}, 0)
	near(t, "Mixtral, 4096 tokens both ways", sent(find(ops, "moe dispatch"), 8)+sent(find(ops, "moe combine"), 8), 117.4e6, 1e-3)
}

func TestExpectedDestinations(t *testing.T) {
	for _, c := range []struct {
		n    int
		want float64
	}{{8, 5.295}, {16, 6.523}, {32, 7.267}, {64, 7.676}} {
		near(t, "distinct ranks", ExpectedDestinations(c.n, 256, 8), c.want, 1e-4)
	}
	near(t, "distinct nodes at EP32", ExpectedDestinations(4, 256, 8), 3.614, 2e-4)
	near(t, "node-limited routing", NodeLimitedDestinations(8, 4, 256, 8), 3.629, 2e-4)
	// DeepSeek-V3 training, EP64 on 8 nodes, 4096 tokens a GPU: what crosses nodes.
	const tokens, remote = 4096.0, 7.0 / 8
	fp8, bf16 := float64(DispatchBytes(7168, "fp8")), 2.0*7168
	limited := NodeLimitedDestinations(8, 4, 256, 8)
	near(t, "limited dispatch", tokens*limited*remote*fp8, 96.1e6, 1e-3)
	near(t, "limited combine", tokens*limited*remote*bf16, 186.5e6, 1e-3)
	near(t, "merged dispatch", tokens*ExpectedDestinations(8, 256, 8)*remote*fp8, 140.3e6, 1e-3)
	near(t, "plain dispatch", tokens*8*remote*fp8, 211.9e6, 1e-3)
}

func TestCacheTable(t *testing.T) {
	for _, c := range []struct {
		name   string
		token  units.Bytes
		prompt float64 // 8192 tokens
	}{
		{"llama-3.1-405b", 516096, 4.228e9}, {"llama-3.1-70b", 327680, 2.684e9}, {"qwen3-235b-a22b", 192512, 1.577e9}, {"mixtral-8x7b", 131072, 1.074e9},
		{"gpt-oss-120b", 73728, 0}, {"deepseek-v3", 70272, 0.576e9}, {"kimi-k2", 70272, 0.576e9},
	} {
		s := embedded(t, c.name)
		if got := s.KVBytesPerToken("bf16"); got != c.token {
			t.Errorf("%s: %d bytes a token, want %d", c.name, got, c.token)
		}
		if c.prompt > 0 {
			near(t, c.name+": prompt of 8192", float64(s.TransferBytes(8192, "bf16")), c.prompt, 1e-3)
		}
		if s.KVBytesPerToken("fp8")*2 != c.token {
			t.Errorf("%s: fp8 does not halve the cache", c.name)
		}
	}
	oss := embedded(t, "gpt-oss-120b")
	if got, want := oss.KVBytes(8192, 1, "bf16"), units.Bytes(18*2048*(8192+128)); got != want {
		t.Errorf("gpt-oss-120b: %d bytes for 8192 tokens, want %d: half of the layers keep 128", got, want)
	}
	l70, v3 := embedded(t, "llama-3.1-70b"), embedded(t, "deepseek-v3")
	for _, c := range []struct {
		tp   int
		want units.Bytes
	}{{1, 327680}, {8, 40960}, {16, 40960}} {
		if got := l70.KVBytes(1, c.tp, "bf16"); got != c.want {
			t.Errorf("llama at tp%d: %d bytes a token on a GPU, want %d", c.tp, got, c.want)
		}
		if got := v3.KVBytes(1, c.tp, "bf16"); got != 70272 {
			t.Errorf("latent at tp%d: %d bytes a token on a GPU, want 70272", c.tp, got)
		}
	}
	if TransferPieces(4, 6) != 12 || TransferPieces(8, 8) != 8 {
		t.Error("pieces of a transfer")
	}
}

func TestWeightBytes(t *testing.T) {
	oss := embedded(t, "gpt-oss-120b")
	near(t, "gpt-oss-120b on disk, GiB", float64(oss.WeightBytes(""))/(1<<30), 60.77, 2e-4)
	near(t, "Llama 70B in bf16", float64(embedded(t, "llama-3.1-70b").WeightBytes("")), 141.11e9, 1e-4)
	v3 := embedded(t, "deepseek-v3")
	if got := v3.ScaleCount(); got != 41540496 {
		t.Errorf("DeepSeek-V3: %d scales, want 41540496", got)
	}
	near(t, "experts touched by 32 tokens", TouchedExperts(256, 8, 32), 0.64, 1e-2)
	near(t, "experts touched by 8 tokens", TouchedExperts(256, 8, 8), 0.22, 2e-2)
	near(t, "experts touched by 128 tokens", TouchedExperts(256, 8, 128), 0.98, 1e-2)
}

func TestExpertRedundancy(t *testing.T) {
	v3 := embedded(t, "deepseek-v3")
	for _, c := range []struct {
		ep, extra, slots int
		total, more      float64
	}{{32, 32, 9, 22.99e9, 2.55e9}, {144, 32, 2, 5.11e9, 0.57e9}, {72, 32, 4, 10.22e9, 1.14e9}} {
		slots, total, more, ok := v3.Redundancy(c.ep, c.extra, "fp8")
		if !ok || slots != c.slots {
			t.Errorf("ep%d: %d slots (%v), want %d", c.ep, slots, ok, c.slots)
		}
		near(t, "experts on a GPU", float64(total), c.total, 2e-3)
		near(t, "extra experts on a GPU", float64(more), c.more, 1e-2)
	}
	if _, _, _, ok := v3.Redundancy(48, 30, ""); ok {
		t.Error("286 experts over 48 ranks passed as whole")
	}
}

func TestTrainingFLOPs(t *testing.T) {
	// Tokens a second of the published rows fix the ratio; the formula's own figure at s = 8192 for Llama 3 8B:
	// 6 x (8.03e9 - embedding) + 12 L H s / 2.
	s := embedded(t, "llama-3.1-8b")
	want := 6*(8030261248.0-128256*4096) + 6*32*4096*8192
	near(t, "Llama 3 8B", s.TrainFLOPsPerToken(8192), want, 1e-9)
	v3 := embedded(t, "deepseek-v3")
	want = 6*(float64(v3.Params().Active)-129280*7168) + 3*4096*61*128*(192+128)
	near(t, "DeepSeek-V3 without MTP", v3.TrainFLOPsPerToken(4096), want, 1e-9)
}

func TestPipelineBubble(t *testing.T) {
	near(t, "16 stages, 16 micro-batches", PipelineBubble(16, 16, 1), 0.484, 1e-3)
	near(t, "seven virtual stages", PipelineBubble(16, 16, 7), 0.118, 2e-3)
}

func TestLatentAttentionWeights(t *testing.T) {
	s := embedded(t, "deepseek-v3")
	n := int64(0)
	for _, ts := range s.Layer(0).Tensors {
		if ts.Part == PartAttention {
			n += ts.Params()
		}
	}
	near(t, "attention of a layer", float64(n), 187.1e6, 1e-3)
}

func TestCompressedAndSparseCaches(t *testing.T) {
	dir, _ := readIndex(t)
	pro, err := load(t, dir, "deepseek-ai--DeepSeek-V4-Pro.json")
	if err != nil {
		t.Fatal(err)
	}
	near(t, "DeepSeek-V4-Pro at 1M tokens, GiB", float64(pro.KVBytes(1<<20, 1, "bf16"))/gib, 9.62, 1e-3)
	sparse, err := load(t, dir, "deepseek-ai--DeepSeek-V3.2.json")
	if err != nil {
		t.Fatal(err)
	}
	if got := sparse.Layer(5).LayerKVBytesPerToken("fp8"); got != 656+132 {
		t.Errorf("DeepSeek-V3.2 in fp8: %v bytes a token and layer, want 656 and an index key of 132", got)
	}
	ultra, err := load(t, dir, "nvidia--NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16.json")
	if err != nil {
		t.Fatal(err)
	}
	ops := ultra.StepCollectives(parallel.Strategy{DP: 8, EP: 8}.Normalize(), Work{Phase: Decode, Batch: 1, Tokens: 1, Context: 10}, 0)
	if d := find(ops, "moe dispatch"); d.Exchange == nil || d.Exchange.BytesPerCopy != 4096 || d.Exchange.Hidden != 2048 {
		t.Errorf("latent experts: %+v", d.Exchange)
	}
	small, err := load(t, dir, "openai--gpt-oss-20b.json")
	if err != nil {
		t.Fatal(err)
	}
	near(t, "gpt-oss-20b, GiB", float64(small.WeightBytes(""))/gib, 12.82, 1e-3)
}
