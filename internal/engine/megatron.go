package engine

import (
	"fmt"

	"rankmap/internal/parallel"
)

// The rules of Megatron-LM, in the order of their checks.

// megatronGroups: query groups are divided, never copied: tp is at most the number of KV heads.
var megatronGroups = rule{name: "kv heads % tp", source: "megatron/core/transformer/transformer_config.py num_query_groups", broken: func(st parallel.Strategy, f Facts) string {
	if f.KVHeads == 0 || f.KVHeads%st.TP == 0 {
		return ""
	}
	return fmt.Sprintf("%d KV heads are not a multiple of tp %d: it divides query groups and copies none", f.KVHeads, st.TP)
}}

// megatronState: Mamba-2 layers give each tensor rank whole groups; context ranks divide them, or copy them and divide the heads.
var megatronState = rule{name: "state groups and tp x cp", source: "megatron/core/ssm/mamba_mixer.py, mamba_context_parallel.py", broken: func(st parallel.Strategy, f Facts) string {
	if f.StateGroups == 0 {
		return ""
	}
	if f.StateGroups%st.TP != 0 {
		return fmt.Sprintf("%d groups of the Mamba-2 layers are not a multiple of tp %d", f.StateGroups, st.TP)
	}
	local := f.StateGroups / st.TP
	switch {
	case st.CP == 1 || f.StateHeads == 0:
		return ""
	case f.StateHeads%(st.TP*st.CP) != 0:
		return fmt.Sprintf("%d Mamba-2 heads are not a multiple of tp %d x cp %d", f.StateHeads, st.TP, st.CP)
	case local%st.CP != 0 && st.CP%local != 0:
		return fmt.Sprintf("%d groups a tensor rank and cp %d: one must divide the other", local, st.CP)
	}
	return ""
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

// megatronSequence: with sequence parallelism each tensor rank keeps an equal part of the tokens of its context rank.
var megatronSequence = rule{name: "sequence % (tp x cp)", source: "megatron/core/tensor_parallel/mappings.py _split_along_first_dim", broken: func(st parallel.Strategy, f Facts) string {
	if f.SeqLen == 0 || !f.Training || !st.SequenceParallel || f.SeqLen%(st.TP*st.CP) == 0 {
		return ""
	}
	return fmt.Sprintf("sequence length %d is not a multiple of tp %d x cp %d, which --sequence-parallel divides it by", f.SeqLen, st.TP, st.CP)
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

// trainingOnly: what is known of the framework is its training; its inference server is another program.
var trainingOnly = rule{name: "training only", source: "megatron/training/arguments.py", broken: func(_ parallel.Strategy, f Facts) string {
	if f.Serving {
		return "serves nothing that is known: want --task train, or one of vllm, sglang, trtllm"
	}
	return ""
}}
