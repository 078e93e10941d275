package accuracy

import (
	"cmp"
	"context"
	"io/fs"
	"slices"
	"strings"

	"rankmap/compute"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/model"
	"rankmap/planner"
)

// Families of published placements: choices are one decision each, sweeps are many layouts of one model, measured. The
// others are only compared in time.
var (
	choiceFamilies = []string{"dgxc", "mguide", "srt", "mlinf", "llama3", "dsv3", "kimik2", "nem340", "mlperf", "mbridge"}
	sweepFamilies  = []string{"bloom", "vtrain", "silicon", "simumax", "sc21zero", "sgl-h100"}
)

// inFamily says whether a family is one of those listed or a part of it ("mlperf-405b" of "mlperf"); "dgxc-inf" is a
// source of its own.
func inFamily(f string, list []string) bool {
	if f == "dgxc-inf" {
		return false
	}
	return slices.ContainsFunc(list, func(l string) bool { return f == l || strings.HasPrefix(f, l+"-") })
}

// Placer confronts the planner with published placements. It keeps machines, kernel prices and rankings, since rows share
// them. It is not safe for concurrent use; Rows runs workers of its own.
type Placer struct {
	configs  fs.FS
	catalog  *hardware.Catalog
	profiles *hardware.Profiles
	models   Models
	sites    map[siteKey]*site
	computes map[string]map[model.Phase]*compute.Model
	rankings map[rankingKey]*planner.Ranking
	// TimesOnly leaves out the searches and compares times alone.
	TimesOnly bool
}

// NewPlacer prices with the datasheets and profiles of configs.
func NewPlacer(configs fs.FS, models Models) (*Placer, error) {
	cat, err := hardware.Load(configs)
	if err != nil {
		return nil, err
	}
	profiles, err := hardware.LoadProfiles(configs)
	if err != nil {
		return nil, err
	}
	models.Configs = configs
	return &Placer{
		configs: configs, catalog: cat, profiles: profiles, models: models, sites: map[siteKey]*site{},
		computes: map[string]map[model.Phase]*compute.Model{}, rankings: map[rankingKey]*planner.Ranking{},
	}, nil
}

// Placements is the result of a confrontation with published placements.
type Placements struct {
	Choices []Choice
	Sweeps  []Sweep
	Times   []Timed // predicted against measured times, choices and sweeps included
	Skipped []Skipped
}

// Rows confronts the planner with rows. progress is called as rows are done; nil = not.
func (c *Placer) Rows(ctx context.Context, rows []measured.Placement, progress func(done, all int)) (*Placements, error) {
	placed := c.place(ctx, rows, progress)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	out := &Placements{}
	skipped := skips{}
	sweeps := newSweeps()
	for i := range placed {
		p := &placed[i]
		if p.err != nil {
			skipped[p.err.Error()]++
			continue
		}
		used := false
		if p.choice != nil {
			out.Choices, used = append(out.Choices, *p.choice), true
		} else if inFamily(rows[i].Family(), sweepFamilies) {
			used = sweeps.add(p.job, p.priced)
		}
		if t, ok := timed(p.job, p.priced); ok {
			out.Times, used = append(out.Times, t), true
		}
		if !used {
			skipped["neither a published decision nor a measured time"]++
		}
	}
	out.Sweeps = sweeps.list()
	out.Skipped = skipped.list()
	slices.SortStableFunc(out.Choices, func(a, b Choice) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}
