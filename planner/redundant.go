package planner

import (
	"rankmap/internal/parallel"
	"rankmap/model"
)

// balancers are the engines that place copies of experts: vLLM (--enable-eplb with num_redundant_experts), SGLang
// (--ep-num-redundant-experts), TensorRT-LLM (moe_config.load_balancer with num_slots). Megatron trains every expert once.
var balancers = map[string]bool{"vllm": true, "sglang": true, "trtllm": true}

// maxCopies bounds the copies that the search adds by itself where ep does not divide the experts: an eighth of them, as
// DeepSeek-V3's own deployments hold (32 beside 256; arXiv 2412.19437, section 3.4).
func maxCopies(experts int) int { return experts / 8 }

// copiesFor is how many redundant experts a layer needs so that ep divides its physical experts: what the user asked for,
// or the fewest. ok is false when no permitted number does.
func (s splitter) copiesFor(ep int) (extra int, ok bool) {
	if s.copies > 0 {
		return s.copies, (s.expert+s.copies)%ep == 0
	}
	extra = (ep - s.expert%ep) % ep
	return extra, extra == 0 || s.balanced && extra <= maxCopies(s.expert)
}

// copiesAllowed says whether the search may add redundant experts by itself.
func (s *search) copiesAllowed() bool {
	return s.Workload.Task != string(TrainStep) && (s.Engine == nil || balancers[s.Engine.Name])
}

// spec is the network that a strategy runs: with its redundant experts. The same number gives the same pointer.
func (s *search) spec(st parallel.Strategy) *model.Spec {
	n := st.RedundantExperts
	if n == 0 {
		return s.Spec
	}
	if m := s.specs[n]; m != nil {
		return m
	}
	if s.specs == nil {
		s.specs = map[int]*model.Spec{}
	}
	s.specs[n] = s.Spec.WithRedundantExperts(n)
	return s.specs[n]
}
