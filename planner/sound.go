package planner

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"rankmap/internal/units"
	"rankmap/layout"
	"rankmap/topology"
)

// Sound returns the cluster as if every part worked: nothing marked bad, no NVLink down, no NIC port down. parts names
// what is broken, at most maxParts; the cluster itself and no parts when nothing is.
func Sound(c *topology.Cluster) (sound *topology.Cluster, parts []string) {
	out := c.Clone()
	add := func(format string, args ...any) {
		if len(parts) < maxParts {
			parts = append(parts, fmt.Sprintf(format, args...))
		} else if len(parts) == maxParts {
			parts = append(parts, "more")
		}
	}
	for i := range out.Nodes {
		n := &out.Nodes[i]
		k := &out.Classes[n.Class]
		if n.Bad != "" {
			add("%s (%s)", n.Name, n.Bad)
			n.Bad = ""
		}
		full := 0
		for g := range c.Classes[n.Class].GPUs {
			full = max(full, c.Classes[n.Class].GPUs[g].NVLinksUp)
		}
		for g := range k.GPUs {
			was := &c.Classes[n.Class].GPUs[g]
			if was.Bad != "" {
				add("%s (%s)", c.GPUName(n.First+topology.GPUID(g)), was.Bad)
			} else if was.NVLinksUp < full && was.NVLinksUp > 0 {
				add("%s (%d of %d NVLinks up)", c.GPUName(n.First+topology.GPUID(g)), was.NVLinksUp, full)
			}
			k.GPUs[g].Bad = ""
			if k.GPUs[g].NVLinksUp > 0 {
				k.GPUs[g].NVLinksUp = full
			}
		}
		for x := range k.NICs {
			was := &c.Classes[n.Class].NICs[x]
			if was.Bad != "" {
				add("%s/%s (%s)", n.Name, c.NICIdent(topology.NodeID(i), x).Label(), was.Bad)
			}
			k.NICs[x].Bad = ""
		}
		for j := range k.NVLinks {
			if l := c.Classes[n.Class].NVLinks[j]; l.Down > 0 {
				add("%s NVLink %d-%d (%d down)", n.Name, l.A, l.B, l.Down)
			}
			l := &k.NVLinks[j]
			l.Count, l.Down = l.Count+l.Down, 0
		}
	}
	if len(parts) == 0 {
		return c, nil
	}
	return out, parts
}

// maxParts is how many broken parts are named.
const maxParts = 8

// CostOfAvoiding prices what broken parts cost: sound is the request on the cluster that Sound returned, finished and
// with its own prices. Both plans count all GPUs, so that an idle one costs. A cancelled ctx gives nothing.
func CostOfAvoiding(ctx context.Context, p *Plan, sound Request, parts []string) (*layout.Avoided, error) {
	sound.Top, sound.Progress = 1, nil // its progress is not that of the plan
	best, err := Search(ctx, sound)
	var no *Infeasible
	if errors.As(err, &no) || ctx.Err() != nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := &layout.Avoided{
		Parts: parts, CostPercent: round(100*(p.Best.CostRatio(best.Best)-1), 3),
		Strategy: best.Best.Strategy.String(), StepMs: round(best.Best.Step.Time.Millis(), 4),
		TokensPerSecondPerGPU: round(best.Best.PerGPU, 5),
	}
	line := fmt.Sprintf("broken parts cost %s %%: were %s sound, the best plan would be %s, step %s, %.4g tokens/s/GPU against %.4g",
		units.Trim(out.CostPercent, 1), strings.Join(parts, ", "), out.Strategy, best.Best.Step.Time, best.Best.PerGPU, p.Best.PerGPU)
	if out.CostPercent < 0.05 {
		line = fmt.Sprintf("broken parts cost nothing: were %s sound, the best plan would be %s at the same cost", strings.Join(parts, ", "), out.Strategy)
	}
	p.Notes = append(p.Notes, line)
	return out, nil
}
