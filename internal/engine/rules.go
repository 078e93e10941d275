package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rankmap/internal/parallel"
)

// Facts are what the rules of an engine need of a model and a workload; 0 = not known, and rules on it are not checked.
type Facts struct {
	Layers, Heads, KVHeads int  // KVHeads: of the layer with the fewest; 0 for latent attention
	Experts                int  // routed, of the layer with the fewest; 0 = dense
	StateHeads             int  // of Mamba-2 layers, the fewest; 0 = none
	StateGroups            int  // of Mamba-2 layers: groups of B and C, the fewest; 0 = none
	GlobalBatch, SeqLen    int  // training
	Training, Serving      bool // what the task is; neither = not known
	Decode                 bool // an instance that only decodes: its caches come from another one
}

// Violation is a rule of an engine that a strategy breaks.
type Violation struct {
	Engine string // "vllm@0.24"
	Rule   string // "ep = tp x dp"
	Text   string // with the numbers, and what would be right
	Source string // where the engine states the rule
}

// String is what a user reads: engine, rule, numbers.
func (v Violation) String() string { return v.Engine + ": " + v.Rule + ": " + v.Text }

// rule is one condition. It returns "" when the strategy keeps it.
type rule struct {
	name, source string
	// since and before bound the versions that have the rule, as in "0.13"; empty = open.
	since, before string
	broken        func(st parallel.Strategy, f Facts) string
}

// rules of each engine, in the order they are checked.
var rules = map[string][]rule{
	"vllm":     {headsByTP("vllm/config/model.py verify_with_parallel_config"), kvHeads("vllm/model_executor/models/llama.py LlamaAttention"), singleState("vllm/model_executor/layers/mamba/mamba_mixer2.py"), vllmExperts, vllmDecode, noTraining},
	"sglang":   {headsByTP("sglang/srt/layers/dp_attention.py, attention tp = tp / dp"), kvHeads("sglang/srt/models/llama.py LlamaAttention"), singleState("sglang/srt/layers/attention/mamba/mamba_mixer2.py"), sglangDP, sglangExperts, expertsByEP("sglang/srt/layers/moe/fused_moe_triton/layer.py FusedMoE"), noTraining},
	"trtllm":   {headsByTP("tensorrt_llm/models/modeling_utils.py PretrainedConfig"), kvHeads("tensorrt_llm/_torch/modules/attention.py"), trtState, trtAttentionDP, trtExperts, expertsByEP("tensorrt_llm/_torch/modules/fused_moe/interface.py"), noTraining},
	"megatron": {headsByTP("megatron/core/transformer/transformer_config.py"), megatronGroups, megatronState, expertsByEP("megatron/core/transformer/transformer_config.py num_moe_experts"), megatronWorld, megatronSP, megatronSequence, megatronBatch, megatronLayers, megatronInterleave, megatronMicro, megatronCP, trainingOnly},
}

func headsByTP(source string) rule {
	return rule{name: "heads % tp", source: source, broken: func(st parallel.Strategy, f Facts) string {
		if f.Heads == 0 || f.Heads%st.TP == 0 {
			return ""
		}
		return fmt.Sprintf("%d attention heads are not a multiple of tp %d", f.Heads, st.TP)
	}}
}

func kvHeads(source string) rule {
	return rule{name: "kv heads and tp", source: source, broken: func(st parallel.Strategy, f Facts) string {
		if f.KVHeads == 0 || f.KVHeads%st.TP == 0 || st.TP%f.KVHeads == 0 {
			return ""
		}
		return fmt.Sprintf("%d KV heads and tp %d: one must divide the other", f.KVHeads, st.TP)
	}}
}

// singleState: groups of Mamba-2 layers are divided, or a single one is copied to every rank.
func singleState(source string) rule {
	return rule{name: "state groups and tp", source: source, broken: func(st parallel.Strategy, f Facts) string {
		if f.StateGroups < 2 || f.StateGroups%st.TP == 0 {
			return ""
		}
		return fmt.Sprintf("%d groups of the Mamba-2 layers are not a multiple of tp %d (only a single group is copied)", f.StateGroups, st.TP)
	}}
}

// trtState: groups of Mamba-2 layers are divided and never copied.
var trtState = rule{name: "state groups % tp", source: "tensorrt_llm/_torch/modules/mamba/mamba2_mixer.py", broken: func(st parallel.Strategy, f Facts) string {
	if f.StateGroups == 0 || f.StateGroups%st.TP == 0 {
		return ""
	}
	return fmt.Sprintf("%d groups of the Mamba-2 layers are not a multiple of tp %d", f.StateGroups, st.TP)
}}

func expertsByEP(source string) rule {
	return rule{name: "experts % ep", source: source, broken: func(st parallel.Strategy, f Facts) string {
		if f.Experts == 0 || f.Experts%st.EP == 0 {
			return ""
		}
		return fmt.Sprintf("%d experts are not a multiple of ep %d", f.Experts, st.EP)
	}}
}

var noTraining = rule{name: "inference only", source: "the engine has no backward pass", broken: func(_ parallel.Strategy, f Facts) string {
	if f.Training {
		return "cannot train"
	}
	return ""
}}

// vllmExperts: with --enable-expert-parallel the experts spread over all ranks of tp x dp, without it each expert is cut
// over all of them; there is nothing between. Data parallelism beyond that is separate instances.
var vllmExperts = rule{name: "ep = tp x dp", source: "vllm/model_executor/layers/fused_moe/config.py FusedMoEParallelConfig.make", broken: func(st parallel.Strategy, f Facts) string {
	ranks := st.EP * st.ExpertTP
	switch {
	case f.Experts == 0:
		return ""
	case st.EP > 1 && st.ExpertTP > 1:
		return fmt.Sprintf("ep %d with expert-tp %d: wants ep %d, or expert-tp %d with ep 1", st.EP, st.ExpertTP, ranks, ranks)
	case ranks%st.TP != 0:
		return fmt.Sprintf("experts over %d ranks and attention over tp %d: wants tp x dp ranks", ranks, st.TP)
	}
	return ""
}}

// vllmDecode: caches are handed over between equal stages or from a pipeline to a decoder without one, never to one with.
var vllmDecode = rule{name: "no pipeline in decode instances", source: "vllm/distributed/kv_transfer/kv_connector/v1/nixl: set_xfer_handshake_metadata_pp_aware; pull request 45880 covers pipelines that prefill alone", broken: func(st parallel.Strategy, f Facts) string {
	if !f.Decode || st.PP == 1 {
		return ""
	}
	return fmt.Sprintf("pp %d in an instance that only decodes: wants pp 1", st.PP)
}}

// sglangDP: --tp is the size of the instance; with --enable-dp-attention, --dp divides it and attention runs on tp / dp.
var sglangDP = rule{name: "tp % dp", source: "sglang/srt/server_args.py enable_dp_attention", broken: func(st parallel.Strategy, f Facts) string {
	if f.Experts == 0 || st.EP*st.ExpertTP <= st.TP || st.EP*st.ExpertTP%st.TP == 0 {
		return ""
	}
	return fmt.Sprintf("the instance has %d ranks and attention uses tp %d: dp = tp / attention-tp must be whole", st.EP*st.ExpertTP, st.TP)
}}

// sglangExperts: --ep divides --tp, the rest is the experts' tensor parallelism.
var sglangExperts = rule{name: "tp % ep", source: "sglang/srt/distributed/parallel_state.py initialize_model_parallel, moe_tp = tp / ep", broken: func(st parallel.Strategy, f Facts) string {
	if f.Experts == 0 || st.EP*st.ExpertTP >= st.TP {
		return ""
	}
	return fmt.Sprintf("ep %d x expert-tp %d is smaller than tp %d: experts use every rank of the instance", st.EP, st.ExpertTP, st.TP)
}}

// trtAttentionDP: enable_attention_dp replaces tensor parallelism in attention altogether.
var trtAttentionDP = rule{name: "attention dp = tp or 1", source: "tensorrt_llm/mapping.py enable_attention_dp", broken: func(st parallel.Strategy, f Facts) string {
	if f.Experts == 0 || st.TP == 1 || st.EP*st.ExpertTP <= st.TP {
		return ""
	}
	return fmt.Sprintf("attention tp %d beside attention-dp %d: attention is either split over all %d ranks or copied to each", st.TP, st.EP*st.ExpertTP/st.TP, st.EP*st.ExpertTP)
}}

var trtExperts = rule{name: "moe_tp x moe_ep = tp", source: "tensorrt_llm/mapping.py Mapping.__init__", broken: func(st parallel.Strategy, f Facts) string {
	if f.Experts == 0 || st.EP*st.ExpertTP%st.TP == 0 && st.EP*st.ExpertTP >= st.TP {
		return ""
	}
	return fmt.Sprintf("expert-tp %d x ep %d is not the %d ranks of the instance", st.ExpertTP, st.EP, st.TP)
}}

// Find returns the engine of a target such as "vllm" or "vllm@0.24". Without a version the newest rules hold.
func Find(target string) (Engine, error) {
	name, version, given := strings.Cut(target, "@")
	all := All()
	i := slices.IndexFunc(all, func(e Engine) bool { return e.Name == name })
	if i < 0 {
		var known []string
		for _, e := range all {
			known = append(known, e.Name)
		}
		return Engine{}, fmt.Errorf("unknown target %q (known: %s)", target, strings.Join(known, ", "))
	}
	e := all[i]
	if given {
		if _, ok := parseVersion(version); !ok {
			return Engine{}, fmt.Errorf("target %q: want NAME@VERSION with a version such as 0.24", target)
		}
		e.Version = version
	}
	return e, nil
}

// Check lists the engine's rules that the strategy breaks, then what its rank arithmetic cannot express; nil when it can
// run it. An engine without an order of its own has no rules here.
func (e Engine) Check(st parallel.Strategy, f Facts) []Violation {
	var out []Violation
	st = st.Normalize()
	for _, r := range rules[e.Name] {
		if !e.has(r) {
			continue
		}
		if why := r.broken(st, f); why != "" {
			out = append(out, Violation{e.target(), r.name, why, r.source})
		}
	}
	if st.CP > 1 && !e.CP {
		out = append(out, Violation{e.target(), "no context parallelism", fmt.Sprintf("cp %d", st.CP), e.Why})
	}
	return out
}

// Permits says whether a dimension order is one that the engine's rank arithmetic produces.
func (e Engine) Permits(order []parallel.Dim, st parallel.Strategy) bool {
	if e.Orders == nil {
		return true
	}
	want := live(order, st)
	return slices.ContainsFunc(e.Orders, func(o []parallel.Dim) bool { return slices.Equal(live(o, st), want) })
}

func (e Engine) target() string {
	if e.Version == "" {
		return e.Name
	}
	return e.Name + "@" + e.Version
}

// has says whether the engine's version has a rule; no version = the newest.
func (e Engine) has(r rule) bool {
	if e.Version == "" {
		return r.before == ""
	}
	return !(r.since != "" && older(e.Version, r.since)) && !(r.before != "" && !older(e.Version, r.before))
}

// parseVersion reads "0.24", "v1.2.0rc6" or "0.5.8.post1" as numbers; false when the first part is none.
func parseVersion(s string) ([]int, bool) {
	var out []int
	for _, part := range strings.Split(strings.TrimPrefix(s, "v"), ".") {
		end := 0
		for end < len(part) && part[end] >= '0' && part[end] <= '9' {
			end++
		}
		n, err := strconv.Atoi(part[:end])
		if err != nil {
			break
		}
		out = append(out, n)
		if end < len(part) {
			break
		}
	}
	return out, len(out) > 0
}

// IsVersion says whether a text is a version by numbers, such as "0.24" or "1.2.0rc6".
func IsVersion(s string) bool {
	_, ok := parseVersion(s)
	return ok
}

// SameMajor says whether two versions share their first number: before 1.0 the interfaces of an engine move with the second
// one, but its kernels change slowly.
func SameMajor(a, b string) bool {
	x, okA := parseVersion(a)
	y, okB := parseVersion(b)
	return okA && okB && x[0] == y[0]
}

// older compares versions; missing parts count as 0.
func older(a, b string) bool {
	x, _ := parseVersion(a)
	y, _ := parseVersion(b)
	for i := range max(len(x), len(y)) {
		var p, q int
		if i < len(x) {
			p = x[i]
		}
		if i < len(y) {
			q = y[i]
		}
		if p != q {
			return p < q
		}
	}
	return false
}
