package accuracy

import (
	"context"
	"fmt"
	"io"
	"slices"

	"rankmap/internal/measured"
	"rankmap/internal/parallel"
	"rankmap/planner"
)

// Explain prints one row's layout beside our best, part by part, and the first few of the ranking.
func (c *Placer) Explain(ctx context.Context, w io.Writer, p *measured.Placement) error {
	j, err := c.job(p)
	if err != nil {
		return err
	}
	k, err := c.ranking(ctx, j)
	if err != nil {
		return err
	}
	own, err := k.Price(j.strategy, j.exact, 0)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: %s on %d x %s, batch %d, %+v\n", p.ID, p.Model, p.GPUs, p.GPU, own.Batch, j.work)
	if t, ok := timed(j, own); ok {
		fmt.Fprintf(w, "measured %.4g, ours %.4g (%.4g to %.4g) %s: %+.1f %%\n", t.Measured, t.Ours, t.P10, t.P90, t.Kind, 100*t.Error())
	}
	show(w, "theirs", own)
	var seen []tuple
	for _, o := range k.Outcomes {
		t := tupleOf(o.Strategy)
		if slices.Contains(seen, t) {
			continue
		}
		if seen = append(seen, t); len(seen) > 6 {
			break
		}
		fmt.Fprintf(w, "  %d. %s mb%d v%d %s zero%d batch %d: %.4g\n", len(seen), o.Strategy, o.Strategy.MicroBatch, o.Strategy.Interleave, o.Strategy.Recompute, o.Strategy.ZeRO, o.Batch, o.CostRatio(k.Outcomes[0]))
	}
	if len(k.Outcomes) > 0 {
		best := k.Outcomes[0]
		full, err := k.Price(best.Strategy, heldOf(best.Strategy, j.held), best.Batch)
		if err != nil {
			return err
		}
		show(w, "ours", full)
	}
	return nil
}

func show(w io.Writer, name string, o *planner.Outcome) {
	st := o.Strategy
	fmt.Fprintf(w, "%s: %s mb%d v%d recompute %q zero%d sp %v order %v, step %s, memory %.1f GB, FLOPs %.4g\n", name, st, st.MicroBatch, st.Interleave, st.Recompute, st.ZeRO, st.SequenceParallel, order(st), o.Step.Time, float64(o.Memory.Total())/1e9, o.Step.FLOPs)
	for _, p := range o.Step.Parts {
		fmt.Fprintf(w, "    %-10s %-32s %12s  %s\n", p.Kind, p.Name, p.Band.Time, p.Bound)
	}
}

func order(st parallel.Strategy) []parallel.Dim { return st.Order }
