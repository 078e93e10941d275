package validate

import (
	"strings"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/layout"
)

// A layout that priced an engine's own kernel is no yardstick for NCCL: its number becomes a note and NCCL is priced instead.
func TestOtherKernelIsNoPrediction(t *testing.T) {
	l := &layout.Layout{Groups: []layout.Group{{Kind: parallel.TP, Members: []int{0, 1}, Collectives: []layout.Collective{
		{Name: "own", Op: parallel.AllReduce, Bytes: 1 << 16, Us: 12.34, Algorithm: "one-shot", Protocol: "vllm"},
		{Name: "nccl", Op: parallel.AllReduce, Bytes: 1 << 16, Us: 20, Algorithm: "ring", Protocol: "LL"},
	}}}}
	j := FromLayout(l, "l", "")
	own, nccl := j.Groups[0].Collectives[0], j.Groups[0].Collectives[1]
	if own.Predicted != nil || own.Kernel != "vllm one-shot, 12.34 us" || nccl.Predicted == nil || nccl.Kernel != "" {
		t.Fatalf("%+v, %+v", own, nccl)
	}
	c := &campaign{job: j, predict: func(Question) (Prediction, bool) { return Prediction{Us: 20, Basis: "measured"}, true }}
	if p := c.expect(&own, unit{}, spec{}, false, nil); p == nil || p.Us != 20 || !strings.Contains(p.Basis, "the layout priced another kernel (vllm one-shot, 12.34 us)") {
		t.Errorf("%+v", p)
	}
}
