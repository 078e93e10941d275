package planner

import (
	"fmt"
	"strings"
)

// explainTraining says what a training step is beside its degrees: micro-batches, virtual stages, what is recomputed and why,
// and stages of their own size.
func (s *search) explainTraining(o *Outcome) []string {
	st := o.Strategy
	if s.Workload.Task != string(TrainStep) {
		return nil
	}
	b := []string{fmt.Sprintf("training: %s of %s a replica", manyOf(s.Workload.Batch/st.DP/st.MicroBatch, "micro-batch", "micro-batches"), many(st.MicroBatch, "sequence"))}
	if st.Interleave > 1 {
		b = append(b, fmt.Sprintf("%d virtual stages a rank", st.Interleave))
	}
	switch {
	case st.Recompute == "full" && st.RecomputeLayers > 0:
		b = append(b, fmt.Sprintf("the first %s of each virtual stage recomputed, as few as memory allows", many(st.RecomputeLayers, "layer")))
	case st.Recompute == "full":
		b = append(b, "every layer recomputed")
	case st.Recompute != "":
		b = append(b, st.Recompute+" recomputation")
	case st.OffloadLayers > 0:
		b = append(b, fmt.Sprintf("results of the first %s wait in host memory, as few as memory allows", many(st.OffloadLayers, "layer")))
	default:
		b = append(b, "nothing recomputed")
	}
	if st.FirstStage > 0 || st.LastStage > 0 {
		first, last := s.Spec.EndLayers(st)
		b = append(b, fmt.Sprintf("%s on the first and %s on the last virtual stage, which hold embedding and head, of at most %d", many(first, "layer"), many(last, "layer"), s.Spec.LargestPiece(st)))
	}
	if st.ZeRO > 0 {
		b = append(b, fmt.Sprintf("ZeRO-%d", st.ZeRO))
	}
	if l := s.lora(); l.Rank > 0 {
		b = append(b, fmt.Sprintf("adapters of rank %d in %s layers beside frozen weights (%.3g million parameters trained)", l.Rank, l.Targets, float64(s.Spec.AdapterParams(l))/1e6))
	}
	return append([]string{strings.Join(b, ", ")}, s.tight(o)...)
}

// memorySpread is how far the count of a training step's memory lies below measured peaks at most: 16 dense steps of simumax came
// out at -6.5 to +4.8 % (docs/training.md).
const memorySpread = 0.065

// tight says that a training step is counted to fill the GPU so far that the real one may not fit.
func (s *search) tight(o *Outcome) []string {
	need := o.Memory.Total()
	if s.Capacity <= 0 || float64(need) < float64(s.Capacity)*(1-memorySpread) {
		return nil
	}
	return []string{fmt.Sprintf("memory is %.1f %% full by a count that came out up to %.1f %% below real peaks: a smaller micro-batch, recomputation or more shards leave room",
		100*float64(need)/float64(s.Capacity), 100*memorySpread)}
}

func many(n int, what string) string { return manyOf(n, what, what+"s") }

func manyOf(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
