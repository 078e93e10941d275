package accuracy

import (
	"errors"

	"rankmap/internal/measured"
	"rankmap/internal/units"
	"rankmap/planner/step"
)

// Runs compares measured training steps (of placements) and serving points with the predictions for their own layouts.
// Their cases are called step, ttft and tpot. system limits them to one GPU; "" = all.
func (c *Placer) Runs(f *measured.File, system string) Result {
	var res Result
	left := skips{}
	for i := range f.Placed {
		p := &f.Placed[i]
		cs, err := c.trainRun(p)
		if err == nil && system != "" && cs.System != hardwareKey(system) {
			err = errOtherSystem
		}
		if err != nil {
			left[err.Error()]++
			continue
		}
		res.Cases = append(res.Cases, cs)
	}
	for i := range f.Serving {
		p := &f.Serving[i]
		if system != "" && hardwareKey(p.System) != hardwareKey(system) {
			left[errOtherSystem.Error()]++
			continue
		}
		cs, err := c.servingRun(p)
		if err != nil {
			left[err.Error()]++
			continue
		}
		res.Cases = append(res.Cases, cs...)
	}
	res.Skipped = left.list()
	return res
}

// trainRun is the case of a training row.
func (c *Placer) trainRun(p *measured.Placement) (Case, error) {
	if p.Task != "train" {
		return Case{}, errors.New("a serving row of a table of placements: see --placements")
	}
	j, err := c.job(p)
	if err != nil {
		return Case{}, err
	}
	t, ok := stepTime(j)
	if !ok || p.SeqLen == 0 {
		return Case{}, errors.New("the row measures no step")
	}
	o, err := c.price(j)
	if err != nil {
		return Case{}, err
	}
	return Case{
		System: j.site.sheet.System, Collective: "step", Nodes: len(j.site.cluster.Nodes), Ranks: p.GPUs, Source: p.Family(),
		Measured: units.Duration(t), Ours: o.Step.Time, P10: o.Step.P10, P90: o.Step.P90,
	}, nil
}

// servingRun is the cases of a serving point: TTFT and TPOT.
func (c *Placer) servingRun(p *measured.ServingPoint) ([]Case, error) {
	if p.Flag != "" {
		return nil, errors.New("flagged by the source as doubtful")
	}
	if p.Concurrency == 0 {
		return nil, errors.New("the row states no concurrency")
	}
	ttft, tpot := step.Band{}, step.Band{}
	gpus, system := 0, ""
	for _, part := range p.Parts {
		row := &measured.Placement{
			ID: p.ID, Model: p.Model, Task: "serve", GPU: p.System, GPUs: part.GPUs(), TP: part.TP, PP: part.PP, DP: part.DP, EP: part.EP,
			CP: 1, ISL: p.ISL, OSL: p.OSL, Precision: p.Precision, Concurrency: max(1, (p.Concurrency+part.Count-1)/part.Count),
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
		j.engine = p.Backend
		if row.Task == "prefill" {
			j.work.Batch = 1
		}
		o, err := c.price(j)
		if err != nil {
			return nil, err
		}
		if part.Role != "D" {
			ttft = o.TTFT
		}
		if part.Role != "P" {
			tpot = o.TPOT
		}
		gpus += part.Count * part.GPUs()
		system = j.site.sheet.System
	}
	var out []Case
	for _, m := range []struct {
		kind string
		ms   float64
		b    step.Band
	}{{"ttft", p.TTFT, ttft}, {"tpot", p.TPOT, tpot}} {
		if m.ms > 0 && m.b.Time > 0 {
			out = append(out, Case{
				System: system, Collective: m.kind, Nodes: 1, Ranks: gpus, Source: p.Backend,
				Measured: units.Millis(m.ms), Ours: m.b.Time, P10: m.b.P10, P90: m.b.P90,
			})
		}
	}
	if len(out) == 0 {
		return nil, errors.New("the row measures neither TTFT nor TPOT")
	}
	return out, nil
}
