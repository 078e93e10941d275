// Package engine knows the target engines and launchers by version: the rank arithmetic that each can express, the
// degrees that it has words for, and its own divisibility rules. Facts were read in the projects' sources (vLLM
// vllm/distributed/parallel_state.py, SGLang entrypoints/engine.py, Megatron-LM core/parallel_state.py, PyTorch
// torch/distributed/run.py, Slurm srun(1), PRRTE cli-map-by) in the snapshots of August 2026.
package engine

import (
	"fmt"
	"slices"
	"strings"

	"rankmap/internal/parallel"
)

// Engine is one launcher or engine.
type Engine struct {
	Name string
	Why  string // how it expresses a layout
	// Orders lists the dimension orders that its rank arithmetic can produce, fastest first, without ep. Nil means any
	// map of ranks to GPUs.
	Orders [][]parallel.Dim
	// CP, ExpertTP and AttentionDP say which degrees it has words for.
	CP, ExpertTP bool
	Version      string // as asked for, "0.24"; empty = the newest that is known
}

var (
	tpFirst    = []parallel.Dim{parallel.TP, parallel.CP, parallel.DP, parallel.PP}
	tpPPFirst  = []parallel.Dim{parallel.TP, parallel.CP, parallel.PP, parallel.DP}
	vllmOrder  = []parallel.Dim{parallel.TP, parallel.CP, parallel.PP, parallel.DP}
	sglangRank = []parallel.Dim{parallel.TP, parallel.CP, parallel.DP, parallel.PP}
)

// All lists the engines and launchers, in a fixed order.
func All() []Engine {
	return []Engine{
		{Name: "megatron", Why: "orders tp-cp-ep-dp-pp and tp-cp-ep-pp-dp (--use-tp-pp-dp-mapping)", Orders: [][]parallel.Dim{tpFirst, tpPPFirst}, CP: true, ExpertTP: true},
		{Name: "mpi", Why: "a rankfile places every rank", CP: true, ExpertTP: true},
		{Name: "sglang", Why: "tp ranks are consecutive, attention dp is carved out of tp, pp over node ranks", Orders: [][]parallel.Dim{sglangRank}, ExpertTP: true},
		{Name: "slurm", Why: "srun -m arbitrary with a host file places every rank", CP: true, ExpertTP: true},
		{Name: "torchrun", Why: "rank = node rank x processes + local rank; the process group code chooses the order", CP: true, ExpertTP: true},
		{Name: "trtllm", Why: "tp fastest, then pp; expert ranks inside tp", Orders: [][]parallel.Dim{tpPPFirst}, ExpertTP: true},
		{Name: "vllm", Why: "world is dp x pp x tp with tp fastest; experts over dp x tp", Orders: [][]parallel.Dim{vllmOrder}},
	}
}

// live keeps the dimensions of degree above 1.
func live(order []parallel.Dim, st parallel.Strategy) []parallel.Dim {
	deg := map[parallel.Dim]int{parallel.TP: st.TP, parallel.CP: st.CP, parallel.DP: st.DP, parallel.PP: st.PP}
	return slices.DeleteFunc(slices.Clone(order), func(d parallel.Dim) bool { return deg[d] < 2 })
}

// Expresses says whether the engine can express the strategy's order and degrees.
func (e Engine) Expresses(st parallel.Strategy) bool { return e.WhyNot(st) == "" }

// WhyNot names what the engine cannot express; empty when it can.
func (e Engine) WhyNot(st parallel.Strategy) string {
	if st.CP > 1 && !e.CP {
		return "has no context parallelism of this form"
	}
	if st.EP > 1 && st.ExpertTP > 1 && !e.ExpertTP {
		return fmt.Sprintf("has no expert-tp beside ep (wants ep = %d, expert-tp = 1)", st.EP*st.ExpertTP)
	}
	if e.Orders == nil {
		return ""
	}
	want := live(st.Order, st)
	var known []string
	for _, o := range e.Orders {
		have := live(o, st)
		if slices.Equal(have, want) {
			return ""
		}
		if k := join(have); !slices.Contains(known, k) { // orders differ in degrees of 1 alone
			known = append(known, k)
		}
	}
	return fmt.Sprintf("cannot order the ranks %s (can: %s)", join(want), strings.Join(known, "; "))
}

func join(ds []parallel.Dim) string {
	s := make([]string, len(ds))
	for i, d := range ds {
		s[i] = d.String()
	}
	return strings.Join(s, "-")
}
