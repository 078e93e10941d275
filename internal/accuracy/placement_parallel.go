package accuracy

import (
	"context"
	"runtime"
	"sync"

	"rankmap/compute"
	"rankmap/internal/measured"
	"rankmap/model"
	"rankmap/planner"
)

// placedRow is what came of one row: a decision or only a price, or why it was skipped.
type placedRow struct {
	job    *job
	choice *Choice
	priced *planner.Outcome
	err    error
}

// group is the rows of one model on one GPU type: they share machines and rankings.
type group []int

// place prices and ranks the rows, groups of one model and GPU type beside each other, each worker with caches of its own.
// The result stands in the order of the rows and does not depend on the number of workers.
func (c *Placer) place(ctx context.Context, rows []measured.Placement, progress func(done, all int)) []placedRow {
	out := make([]placedRow, len(rows))
	waiting := make(chan group)
	var done sync.Mutex
	n := 0
	count := func() {
		if progress == nil {
			return
		}
		done.Lock()
		defer done.Unlock()
		n++
		progress(n, len(rows))
	}
	var wg sync.WaitGroup
	for range max(1, runtime.GOMAXPROCS(0)) {
		w := c.fork()
		wg.Go(func() {
			for g := range waiting {
				for _, i := range g {
					if ctx.Err() == nil {
						out[i] = w.row(ctx, &rows[i])
						count()
					}
				}
			}
		})
	}
	for _, g := range groupRows(rows) {
		waiting <- g
	}
	close(waiting)
	wg.Wait()
	return out
}

// groupRows keeps the order of first appearance.
func groupRows(rows []measured.Placement) []group {
	type key struct{ model, gpu string }
	at := map[key]int{}
	var out []group
	for i := range rows {
		k := key{rows[i].Model, rows[i].GPU}
		g, ok := at[k]
		if !ok {
			g = len(out)
			at[k] = g
			out = append(out, nil)
		}
		out[g] = append(out[g], i)
	}
	return out
}

// fork is a placer with caches of its own over the same profiles and models.
func (c *Placer) fork() *Placer {
	w := *c
	w.sites, w.rankings = map[siteKey]*site{}, map[rankingKey]*planner.Ranking{}
	w.computes = map[string]map[model.Phase]*compute.Model{}
	return &w
}

// row confronts the planner with one row.
func (c *Placer) row(ctx context.Context, p *measured.Placement) placedRow {
	j, err := c.job(p)
	if err != nil {
		return placedRow{err: err}
	}
	if inFamily(p.Family(), choiceFamilies) && !c.TimesOnly {
		ch, o, err := c.decision(ctx, j)
		return placedRow{job: j, choice: &ch, priced: o, err: err}
	}
	o, err := c.price(j)
	return placedRow{job: j, priced: o, err: err}
}
