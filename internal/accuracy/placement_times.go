package accuracy

import (
	"math"
	"sort"
	"strings"

	"rankmap/planner"
)

// Timed is one measured time against ours, in the unit of Kind.
type Timed struct {
	ID, Family, Model, GPU string
	Kind                   string  // "step" (seconds), "ttft", "tpot" (milliseconds), "tokens/s/GPU"
	Measured, Ours         float64 //
	P10, P90               float64
}

// Error is predicted/measured - 1 as a time: above 0 we are too slow.
func (t Timed) Error() float64 {
	if t.Kind == "tokens/s/GPU" {
		return t.Measured/t.Ours - 1
	}
	return t.Ours/t.Measured - 1
}

// timed compares what a row measured with the price of its own layout.
func timed(j *job, o *planner.Outcome) (Timed, bool) {
	if o == nil {
		return Timed{}, false
	}
	p := j.row
	t := Timed{ID: p.ID, Family: p.Family(), Model: p.Model, GPU: p.GPU}
	if p.Task == "train" {
		s, ok := stepTime(j)
		t.Kind, t.Measured, t.Ours, t.P10, t.P90 = "step", s, o.Step.Time.Seconds(), o.Step.P10.Seconds(), o.Step.P90.Seconds()
		return t, ok && p.SeqLen > 0
	}
	if m, ok := p.Metric("TPOT", "TPOT median"); ok && p.Concurrency > 0 {
		t.Kind, t.Measured, t.Ours, t.P10, t.P90 = "tpot", m.Value, o.TPOT.Time.Millis(), o.TPOT.P10.Millis(), o.TPOT.P90.Millis()
		return t, true
	}
	return t, false
}

// stepTime is the measured seconds of a training step: as stated, from tokens a second, or from FLOP/s; false without.
// SC21's FLOP/s count the second forward pass of full recomputation.
func stepTime(j *job) (float64, bool) {
	p := j.row
	if m, ok := p.Metric("step time", "iteration time"); ok && m.Unit == "s" {
		return m.Value, !contradicts(j)
	}
	tokens := float64(j.work.Batch) * float64(j.work.SeqLen)
	if p.GlobalBatch == 0 && p.BatchTokens == 0 {
		return 0, false
	}
	if m, ok := p.Metric("tokens/s/GPU"); ok {
		return tokens / float64(p.GPUs) / m.Value, true
	}
	flops := tokens * j.spec.TrainFLOPsPerToken(j.work.SeqLen) / float64(p.GPUs)
	if strings.HasPrefix(p.Family(), "sc21") {
		flops *= 4.0 / 3
	}
	if m, ok := p.Metric("model TFLOP/s/GPU", "TFLOP/s/GPU"); ok {
		return flops / (m.Value * 1e12), true
	}
	if m, ok := p.Metric("MFU"); ok && m.Unit == "%" {
		return flops / (m.Value / 100 * j.site.sheet.TFLOPS["bf16"] * 1e12), true
	}
	return 0, false
}

// contradicts says that a row's step time and FLOP/s cannot both be of its batch: the operations that they multiply to are less
// than half or more than twice the network's, which full recomputation makes a third more.
func contradicts(j *job) bool {
	stated := statedFLOPs(j.row)
	own := float64(j.work.Batch) * float64(j.work.SeqLen) * j.spec.TrainFLOPsPerToken(j.work.SeqLen)
	return stated < own/2 || stated > own*2
}

// TimeStats sums errors up, percent.
type TimeStats struct {
	Family    string  `json:"family" yaml:"family"`
	Kind      string  `json:"kind" yaml:"kind"`
	N         int     `json:"n" yaml:"n"`
	MedianAPE float64 `json:"medianAPE" yaml:"medianAPE"`
	P90APE    float64 `json:"p90APE" yaml:"p90APE"`
	Bias      float64 `json:"bias" yaml:"bias"`
	Coverage  float64 `json:"coverage80" yaml:"coverage80"`
}

// TimeScores sums the times up by family (mlperf's benchmarks apart) and kind, in order.
func TimeScores(all []Timed) []TimeStats {
	groups := map[[2]string][]Timed{}
	for _, t := range all {
		k := [2]string{t.Family, t.Kind}
		groups[k] = append(groups[k], t)
	}
	keys := make([][2]string, 0, len(groups))
	for k := range groups {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, k int) bool {
		return keys[i][0] < keys[k][0] || keys[i][0] == keys[k][0] && keys[i][1] < keys[k][1]
	})
	var out []TimeStats
	for _, k := range keys {
		out = append(out, timeScore(k[0], k[1], groups[k]))
	}
	return out
}

func timeScore(family, kind string, all []Timed) TimeStats {
	s := TimeStats{Family: family, Kind: kind, N: len(all)}
	var ape, bias []float64
	in := 0
	for _, t := range all {
		e := t.Error()
		bias, ape = append(bias, e), append(ape, math.Abs(e))
		if t.Measured >= t.P10 && t.Measured <= t.P90 {
			in++
		}
	}
	sort.Float64s(ape)
	sort.Float64s(bias)
	s.MedianAPE, s.P90APE, s.Bias = 100*quantile(ape, 0.5), 100*quantile(ape, 0.9), 100*quantile(bias, 0.5)
	s.Coverage = 100 * float64(in) / float64(max(1, len(all)))
	return s
}
