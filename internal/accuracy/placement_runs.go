package accuracy

import (
	"errors"

	"rankmap/internal/measured"
	"rankmap/internal/units"
)

// Runs compares measured training steps (of placements) and serving points with the predictions for their own layouts.
// Their cases are called step, and ttft, tpot and tokens/s/GPU. system limits them to one GPU; "" = all.
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
	least := smallest(f.Serving)
	for i := range f.Serving {
		p := &f.Serving[i]
		if system != "" && hardwareKey(p.System) != hardwareKey(system) {
			left[errOtherSystem.Error()]++
			continue
		}
		if p.Flag == "" && gpusOf(p) > least[measurementOf(p)] {
			left["the same measurement stands under a smaller layout"]++
			continue
		}
		if squared(p) {
			left["dp is printed as moe_tp x ep, as tp is in rows that the source flags"]++
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
