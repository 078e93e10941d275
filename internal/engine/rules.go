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
	Layers, Heads, KVHeads int // KVHeads: of the layer with the fewest; 0 for latent attention
	Experts                int // routed, of the layer with the fewest; 0 = dense
	GlobalBatch, SeqLen    int // training
	Training               bool
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
	"vllm":     {headsByTP("vllm/config/model.py verify_with_parallel_config"), kvHeads("vllm/model_executor/models/llama.py LlamaAttention"), vllmExperts, vllmDecode, noTraining},
	"sglang":   {headsByTP("sglang/srt/layers/dp_attention.py, attention tp = tp / dp"), kvHeads("sglang/srt/models/llama.py LlamaAttention"), sglangDP, sglangExperts, expertsByEP("sglang/srt/server_args.py ep_size"), noTraining},
	"trtllm":   {headsByTP("tensorrt_llm/models/modeling_utils.py PretrainedConfig"), kvHeads("tensorrt_llm/_torch/modules/attention.py"), trtAttentionDP, trtExperts, expertsByEP("tensorrt_llm/_torch/modules/fused_moe/interface.py"), noTraining},
	"megatron": {headsByTP("megatron/core/transformer/transformer_config.py"), kvHeads("megatron/core/transformer/transformer_config.py num_query_groups"), expertsByEP("megatron/core/transformer/transformer_config.py num_moe_experts"), megatronWorld, megatronSP, megatronBatch, megatronLayers, megatronInterleave, megatronMicro, megatronCP},
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

var megatronWorld = rule{name: "world % (expert-tp x ep x pp)", source: "megatron/core/parallel_state.py initialize_model_parallel", broken: func(st parallel.Strategy, _ Facts) string {
	if st.StageRanks()%(st.EP*st.ExpertTP) == 0 {
		return ""
	}
	return fmt.Sprintf("%d ranks of a stage are not a multiple of expert-tp %d x ep %d", st.StageRanks(), st.ExpertTP, st.EP)
}}

var megatronSP = rule{name: "ep and tp need sequence parallelism", source: "megatron/training/arguments.py validate_args", broken: func(st parallel.Strategy, f Facts) string {
	if !f.Training || f.Experts == 0 || st.EP == 1 || st.TP == 1 || st.SequenceParallel {
		return ""
	}
	return fmt.Sprintf("ep %d with tp %d needs --sequence-parallel", st.EP, st.TP)
}}

var megatronBatch = rule{name: "global batch % (micro-batch x dp)", source: "megatron/core/num_microbatches_calculator.py", broken: func(st parallel.Strategy, f Facts) string {
	n := max(st.MicroBatch, 1) * st.DP
	if f.GlobalBatch == 0 || f.GlobalBatch%n == 0 {
		return ""
	}
	return fmt.Sprintf("global batch %d is not a multiple of micro-batch %d x dp %d", f.GlobalBatch, max(st.MicroBatch, 1), st.DP)
}}

// megatronLayers: stages are equal; embedding and loss may count as a layer each. From 0.13 on
// --pipeline-model-parallel-layout takes any split.
var megatronLayers = rule{name: "layers % (pp x virtual stages)", before: "0.13", source: "megatron/core/transformer/transformer_block.py get_num_layers_to_build", broken: func(st parallel.Strategy, f Facts) string {
	n := st.PP * max(st.Interleave, 1)
	layers := f.Layers
	for _, end := range []int{st.FirstStage, st.LastStage} { // --decoder-first-pipeline-num-layers and -last-
		if end > 0 && n > 1 {
			layers, n = layers-end, n-1
		}
	}
	if layers != f.Layers {
		if f.Layers == 0 || layers%n == 0 {
			return ""
		}
		return fmt.Sprintf("%d layers beside the first and last stage are not a multiple of %d pieces", layers, n)
	}
	if f.Layers == 0 || n == 1 || f.Layers%n == 0 || (f.Layers+1)%n == 0 || (f.Layers+2)%n == 0 {
		return ""
	}
	return fmt.Sprintf("%d layers (or 1 or 2 more with embedding and loss) are not a multiple of %d pieces", f.Layers, n)
}}

var megatronInterleave = rule{name: "virtual stages need a pipeline", source: "megatron/training/arguments.py validate_args", broken: func(st parallel.Strategy, f Facts) string {
	if !f.Training || st.Interleave <= 1 || st.PP > 1 {
		return ""
	}
	return fmt.Sprintf("%d virtual stages with pp 1", st.Interleave)
}}

var megatronMicro = rule{name: "micro-batches >= pp when interleaved", source: "megatron/core/pipeline_parallel/schedules.py forward_backward_pipelining_with_interleaving", broken: func(st parallel.Strategy, f Facts) string {
	if !f.Training || st.Interleave <= 1 || f.GlobalBatch == 0 {
		return ""
	}
	if m := f.GlobalBatch / (max(st.MicroBatch, 1) * st.DP); m < st.PP {
		return fmt.Sprintf("%d micro-batches are fewer than %d stages", m, st.PP)
	}
	return ""
}}

var megatronCP = rule{name: "sequence % (2 x cp)", source: "megatron/core/utils.py get_batch_on_this_cp_rank", broken: func(st parallel.Strategy, f Facts) string {
	if f.SeqLen == 0 || st.CP == 1 || f.SeqLen%(2*st.CP) == 0 {
		return ""
	}
	return fmt.Sprintf("sequence length %d is not a multiple of 2 x cp %d", f.SeqLen, st.CP)
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
