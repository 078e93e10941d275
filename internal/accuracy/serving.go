package accuracy

import (
	"errors"
	"strings"

	"rankmap/internal/engine"
	"rankmap/internal/measured"
	"rankmap/internal/units"
	"rankmap/planner"
	"rankmap/planner/step"
)

// protocol is how a benchmark loaded an engine.
type protocol struct {
	mean  float64 // mean length of prompts and answers over the nominal one
	burst float64 // share of requests that are sent at the start, all at once
	equal bool    // all requests have the same lengths
	lag   float64 // steps that a request waits for, where the server was told to look for new ones less often; 0 = as the engine does
}

// protocolOf tells the two benchmarks of the tables apart by where a row was taken from.
//
// InferenceMAX (tables without a data/ folder) draws lengths evenly from 0.8 to 1.0 of the nominal ones and sends ten
// requests a client at an unlimited rate: its README and scripts have RANDOM_RANGE_RATIO 0.8, num-prompts = 10 x
// concurrency. Its SGLang servers on Blackwell (benchmarks/dsr1_fp4_b200_docker.sh and the like) look for new requests
// every 10 steps, from 16 clients on every 30 (--scheduler-recv-interval).
//
// The others do not say how they were loaded. Their times to the first token grow with the clients as if all started at
// once, ten requests each, and do not depend on the length of the answer, as with requests of equal length.
func protocolOf(p *measured.ServingPoint) protocol {
	if strings.Contains(p.Provenance, "data/") || p.Provenance == "" {
		return protocol{mean: 1, burst: 0.1, equal: true}
	}
	out := protocol{mean: 0.9, burst: 0.1}
	if s := strings.ToLower(p.System); p.Backend == "sglang" && len(p.Parts) == 1 && (strings.HasPrefix(s, "b200") || strings.HasPrefix(s, "b300")) {
		if out.lag = 5; p.Concurrency >= 16 {
			out.lag = 15
		}
	}
	return out
}

// served is a serving point with our prediction.
type served struct {
	ttft, tpot step.Band
	gpus       int
	system     string
	parts      []*planner.Outcome
}

// predict prices a serving point.
func (c *Placer) predict(p *measured.ServingPoint) (*served, error) {
	if p.Flag != "" {
		return nil, errors.New("flagged by the source as doubtful")
	}
	if p.Concurrency == 0 {
		return nil, errors.New("the row states no concurrency")
	}
	proto := protocolOf(p)
	out := &served{}
	sides := map[string]*planner.Side{}
	for _, part := range p.Parts {
		row := &measured.Placement{
			ID: p.ID, Note: "backend " + p.Backend, Model: p.Model, Task: "serve", GPU: p.System, GPUs: part.GPUs(), TP: part.TP, PP: part.PP, DP: part.DP, EP: part.EP,
			CP: 1, ISL: max(1, int(proto.mean*float64(p.ISL))), OSL: max(1, int(proto.mean*float64(p.OSL))), Precision: p.Precision, Concurrency: max(1, (p.Concurrency+part.Count-1)/part.Count),
		}
		switch part.Role {
		case "P":
			row.Task, row.Concurrency = "prefill", 1
		case "D":
			row.Task = "decode"
		}
		j, err := c.job(row)
		if err != nil {
			return nil, err
		}
		if part.ExpertTP > 0 && j.spec.MoE() {
			j.strategy.ExpertTP = part.ExpertTP
		}
		if row.Task == "prefill" {
			j.work.Batch = 1
		}
		s := engine.ServingOf(p.Backend, p.Version)
		if proto.lag > 0 {
			s.Lag = proto.lag
		}
		r := j.site.request(j.spec)
		r.Workload, r.GPUs, r.Serving, r.Burst, r.Equal = j.work, j.row.GPUs, &s, proto.burst, proto.equal
		k, err := planner.NewRanking(r)
		if err != nil {
			return nil, err
		}
		sides[part.Role] = &planner.Side{Ranking: k, Strategy: j.strategy, Instances: part.Count}
		o, err := k.Price(j.strategy, j.exact, 0)
		if err != nil {
			return nil, err
		}
		if part.Role != "D" {
			out.ttft = o.TTFT
		}
		if part.Role != "P" {
			out.tpot = o.TPOT
		}
		out.parts = append(out.parts, o)
		out.gpus += part.Count * part.GPUs()
		out.system = j.site.sheet.System
	}
	if pre, dec := sides["P"], sides["D"]; pre != nil && dec != nil {
		v, err := planner.ServeApart(pre, dec, p.Concurrency)
		if err != nil {
			return nil, err
		}
		out.ttft, out.tpot = v.TTFT, v.TPOT
		out.parts[len(out.parts)-1].Service = &v
	}
	return out, nil
}

// servingKinds name the cases of serving points. Throughput is compared as the time that a GPU takes for a token.
const (
	ServingTTFT   = "ttft"
	ServingTPOT   = "tpot"
	ServingTokens = "tokens/s/GPU"
)

// servingRun is the cases of a serving point.
func (c *Placer) servingRun(p *measured.ServingPoint) ([]Case, error) {
	s, err := c.predict(p)
	if err != nil {
		return nil, err
	}
	var out []Case
	add := func(kind string, measured units.Duration, b step.Band) {
		if measured > 0 && b.Time > 0 {
			out = append(out, Case{
				System: s.system, Collective: kind, Nodes: 1, Ranks: s.gpus, Source: p.Backend, Measured: measured, Ours: b.Time, P10: b.P10, P90: b.P90,
				Apart: len(p.Parts) > 1,
			})
		}
	}
	add(ServingTTFT, units.Millis(p.TTFT), s.ttft)
	add(ServingTPOT, units.Millis(p.TPOT), s.tpot)
	if p.TokensPerGPU > 0 {
		// The tables work throughput out of both times at the nominal length of the answer; so do we.
		answer := s.ttft.Add(s.tpot.Scale(float64(max(0, p.OSL-1))))
		add(ServingTokens, units.Duration(1/p.TokensPerGPU), answer.Scale(float64(s.gpus)/float64(p.Concurrency*p.OSL)))
	}
	if len(out) == 0 {
		return nil, errors.New("the row measures neither TTFT nor TPOT")
	}
	return out, nil
}

// measurement identifies what was measured, without the layout.
type measurement struct {
	model, system, backend, version, precision string
	isl, osl, concurrency                      int
	ttft, tpot                                 float64
}

func measurementOf(p *measured.ServingPoint) measurement {
	return measurement{p.Model, p.System, p.Backend, p.Version, p.Precision, p.ISL, p.OSL, p.Concurrency, p.TTFT, p.TPOT}
}

// smallest is, for each measurement, the GPUs of the smallest layout that it stands under. Tables that multiply tensor and
// expert degrees where both describe the same GPUs repeat a measurement under a layout several times too large.
func smallest(points []measured.ServingPoint) map[measurement]int {
	out := map[measurement]int{}
	for i := range points {
		p := &points[i]
		k, n := measurementOf(p), gpusOf(p)
		if old, ok := out[k]; n > 0 && (!ok || n < old) {
			out[k] = n
		}
	}
	return out
}

func gpusOf(p *measured.ServingPoint) int {
	n := 0
	for _, part := range p.Parts {
		n += part.Count * part.GPUs()
	}
	return n
}

// squared says that a layout of attention data parallelism counts its GPUs twice: "dp64 moe_tp8 ep8" of a run on 8 GPUs
// with ep 8. The source flags rows that do so with tp.
func squared(p *measured.ServingPoint) bool {
	if p.Flag != "" || len(p.Parts) != 1 {
		return false
	}
	x := &p.Parts[0]
	return x.TP == 1 && x.EP > 1 && x.ExpertTP == x.EP && x.DP == x.EP*x.ExpertTP
}
