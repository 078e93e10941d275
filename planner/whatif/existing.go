package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"rankmap/internal/hardware"
	"rankmap/internal/units"
	"rankmap/layout"
	"rankmap/planner"
	"rankmap/topology"
)

// Existing is a layout on the machine that it holds.
type Existing struct {
	Layout  *layout.Layout
	Machine Machine
	Seats   []topology.GPUID // by rank
}

// FromLayout finds the GPUs of a layout's ranks in its own cluster.
func FromLayout(l *layout.Layout, name string, cat *hardware.Catalog) (*Existing, error) {
	if l.Cluster == nil {
		return nil, fmt.Errorf("%s: the layout holds no cluster", name)
	}
	c, err := l.Cluster.Cluster(name, cat)
	if err != nil {
		return nil, err
	}
	e := &Existing{Layout: l, Machine: Machine{Name: l.Inputs.Cluster.Name, Source: l.Inputs.Cluster, Cluster: c}}
	if u := l.Inputs.Use; u != nil {
		e.Machine.count = u.GPUs
		e.Machine.barred, _ = u.Barred(c)
	}
	var errs []error
	bad := func(format string, args ...any) {
		if len(errs) < 20 {
			errs = append(errs, fmt.Errorf(name+": "+format, args...))
		}
	}
	for _, r := range l.Ranks {
		n, ok := c.FindNode(r.Host)
		if !ok {
			bad("rank %d: host %q is not in the layout's cluster", r.Rank, r.Host)
			continue
		}
		node, class := c.Node(n)
		g := -1
		for i := range class.GPUs {
			if c.GPUIdent(node.First+topology.GPUID(i)).Index == r.GPU {
				g = i
			}
		}
		if g < 0 {
			bad("rank %d: host %q has no GPU %d", r.Rank, r.Host, r.GPU)
			continue
		}
		e.Seats = append(e.Seats, node.First+topology.GPUID(g))
	}
	return e, errors.Join(errs...)
}

// The names of the columns of a changed layout.
const (
	AsPlanned = "as planned"
	Kept      = "kept"
	Spares    = "with spares"
	Replanned = "re-planned"
)

// Change prices the layout as it is, kept on the changed machine, with lost ranks on idle GPUs, and planned anew. Without
// a change, and after one that changes nothing, there are two columns and the diff is empty.
func (e *Existing) Change(ctx context.Context, p *Problem, ch Changes) (*Comparison, error) {
	if slices.ContainsFunc(ch.Set, func(s string) bool { return strings.HasPrefix(s, "gpus=") }) {
		return nil, errors.New("gpus: a layout has its GPUs; compare clusters to change their number")
	}
	out := p.newComparison()
	out.Changes = ch.Texts()
	base, err := e.price(&e.Machine, p, e.Seats, AsPlanned)
	if err != nil {
		return nil, err
	}
	after, q, err := ch.Apply(e.Machine, p)
	if err != nil {
		return nil, err
	}
	kept, err := e.keep(&after, q)
	if err != nil {
		return nil, err
	}
	out.Columns = []*Column{base, kept}
	moved := clusterDiff("machine", e.Machine.Cluster, after.Cluster)
	out.Diff = append(out.Diff, moved...)
	out.Diff = append(out.Diff, diffColumns(base, kept, "")...)
	if len(moved) == 0 && p.same(q) {
		if !ch.Empty() {
			out.Notes = append(out.Notes, "the changes change nothing")
		}
		return out, nil
	}
	var spared *Column
	if lost := e.lost(after.Cluster); len(lost) > 0 {
		spare, err := e.spare(&after, q, lost)
		if err != nil {
			return nil, err
		}
		if spared = spare; spare != nil {
			out.Columns = append(out.Columns, spare)
			out.Diff = append(out.Diff, diffColumns(base, spare, "")...)
		}
	}
	again, r, no, err := e.renew(ctx, &after, q)
	if err != nil {
		return nil, err
	}
	again.Name = Replanned
	if no == nil && base.Strategy != nil { // a layout that breaks a rule has no plan to compare with
		again.Moved = moves(e.Machine.Cluster, base, again)
	}
	why, err := q.whyOther(ctx, r, kept, again)
	if err != nil {
		return nil, err
	}
	out.Columns = append(out.Columns, again)
	out.Diff = append(out.Diff, diffColumns(base, again, why)...)
	out.Notes = append(out.Notes, verdict(q, kept, spared, again)...)
	return out, nil
}

// renew plans anew: the best plan, or the one that leaves most ranks in place where that costs no more.
func (e *Existing) renew(ctx context.Context, m *Machine, p *Problem) (col *Column, r *planner.Request, no *planner.Infeasible, err error) {
	req, err := p.request(m, 0)
	if err != nil {
		return nil, nil, nil, err
	}
	f := planner.Former{Strategy: e.Layout.Strategy.Parallel(), Seats: e.Seats, Batch: e.batch(p)}
	col, no, err = p.searchWith(m, &req, 0, func() (*planner.Plan, error) { return planner.Renew(ctx, req, f) })
	return col, &req, no, err
}

// verdict says what planning anew wins over the cheapest way to go on.
func verdict(p *Problem, kept, spared, again *Column) []string {
	on := kept
	if on.Predicted == nil {
		on = spared
	}
	if on == nil || on.Predicted == nil || again.Predicted == nil {
		return nil
	}
	m := metricOf(p)
	gain := m.get(again)/m.get(on) - 1
	if !m.larger {
		gain = m.get(on)/m.get(again) - 1
	}
	if gain < minGain {
		return []string{fmt.Sprintf("a new plan wins nothing over %q", on.Name)}
	}
	return []string{fmt.Sprintf("a new plan wins %s %% over %q (%s)", units.Signif(100*gain, 2), on.Name, m.name)}
}

// minGain is the gain below which a new plan is not worth naming.
const minGain = 1e-3

// Against adds a column for the best plan of each machine, compared with the layout.
func (e *Existing) Against(ctx context.Context, p *Problem, out *Comparison, machines []Machine) error {
	base := out.Columns[0]
	for i := range machines {
		col, r, _, err := p.best(ctx, &machines[i], 0)
		if err != nil {
			return err
		}
		why, err := p.whyOther(ctx, r, base, col)
		if err != nil {
			return err
		}
		out.Columns = append(out.Columns, col)
		out.Diff = append(out.Diff, diffColumns(base, col, why)...)
	}
	return nil
}

// same says that two problems ask for the same.
func (p *Problem) same(q *Problem) bool {
	return p.Workload == q.Workload && p.Costs == q.Costs && p.Spec == q.Spec && p.GPUs == q.GPUs
}

// batch is how many sequences the layout keeps in flight.
func (e *Existing) batch(p *Problem) int {
	if p.Workload.Batch > 0 {
		return p.Workload.Batch
	}
	return max(1, e.Layout.Predicted.Batch)
}

// price is the column of the layout's strategy on given seats.
func (e *Existing) price(m *Machine, p *Problem, seats []topology.GPUID, name string) (*Column, error) {
	named := *m
	named.Name = name
	r, err := p.request(&named, 0)
	if err != nil {
		return nil, err
	}
	plan, err := planner.Keep(r, e.Layout.Strategy.Parallel(), seats, e.batch(p))
	if err != nil {
		if no, ok := infeasible(err); ok {
			return noPlan(&named, named.paid(p, 0), no), nil
		}
		return nil, err
	}
	col := column(&named, &r, plan, named.paid(p, 0))
	col.Notes = plan.Notes
	return col, nil
}

// lost lists the ranks whose GPU cannot be used: it is bad, or its node is cut off from the other ranks.
func (e *Existing) lost(c *topology.Cluster) []int {
	cut := e.apart(c)
	var out []int
	for r, id := range e.Seats {
		if c.GPUBad(id) != "" || cut != nil && cut[c.NodeOf(id)] {
			out = append(out, r)
		}
	}
	return out
}

// apart says which nodes cannot take part in the layout for want of a NIC; nil when none, or when all ranks sit in one
// NVLink domain and need none.
func (e *Existing) apart(c *topology.Cluster) []bool {
	for _, id := range e.Seats {
		if c.DomainOf(id) != c.DomainOf(e.Seats[0]) {
			return cutOff(c)
		}
	}
	return nil
}

// keep prices the layout with every rank where it is.
func (e *Existing) keep(m *Machine, p *Problem) (*Column, error) {
	lost := e.lost(m.Cluster)
	if len(lost) == 0 {
		return e.price(m, p, e.Seats, Kept)
	}
	var list []string
	for _, r := range lost[:min(len(lost), 8)] {
		list = append(list, fmt.Sprintf("rank %d (%s)", r, m.Cluster.GPUName(e.Seats[r])))
	}
	if n := len(lost) - len(list); n > 0 {
		list = append(list, fmt.Sprintf("%d more", n))
	}
	why := "without a GPU"
	if e.apart(m.Cluster) != nil {
		why = "without a GPU or cut off (no NIC is left)"
	}
	why += ": " + strings.Join(list, ", ")
	named := *m
	named.Name = Kept
	return &Column{Name: Kept, Machine: factsOf(&named, named.paid(p, 0)), Binding: why, Infeasible: why}, nil
}

// maxPriced is up to how many lost ranks the choice of spares is priced; beyond it the nearest spare is taken.
const maxPriced = 16

// spare moves each lost rank to the idle GPU on which the layout is fastest; nil when there are too few.
//
// GPUs of one node are tried once for each number of NVLinks up; nodes once for each class and NVLink domain. So a rack
// of idle GPUs costs a handful of prices a rank.
func (e *Existing) spare(m *Machine, p *Problem, lost []int) (*Column, error) {
	c := m.Cluster
	used := map[topology.GPUID]bool{}
	for _, id := range e.Seats {
		used[id] = true
	}
	cut := cutOff(c)
	var idle []topology.GPUID
	for id := range topology.GPUID(c.NumGPUs()) {
		if !used[id] && c.GPUBad(id) == "" && !m.bars(id) && (cut == nil || !cut[c.NodeOf(id)]) {
			idle = append(idle, id)
		}
	}
	if len(idle) < len(lost) {
		return nil, nil
	}
	seats := slices.Clone(e.Seats)
	for i, r := range lost { // any valid seating first
		seats[r] = idle[i]
	}
	taken := map[topology.GPUID]bool{}
	for _, r := range lost {
		was := e.Seats[r]
		choices := candidates(c, idle, taken, was)
		best := choices[0]
		if len(lost) <= maxPriced {
			var fastest float64
			for _, id := range choices {
				try := swapInto(seats, r, id)
				col, err := e.price(m, p, try, Spares)
				if err != nil {
					return nil, err
				}
				if col.Predicted == nil {
					return col, nil
				}
				if fastest == 0 || col.Predicted.StepMs < fastest {
					best, fastest = id, col.Predicted.StepMs
				}
			}
		}
		seats = swapInto(seats, r, best)
		taken[best] = true
	}
	col, err := e.price(m, p, seats, Spares)
	if err != nil || col.Predicted == nil {
		return col, err
	}
	before := &Column{seats: e.Seats, Strategy: col.Strategy}
	col.Moved = moves(c, before, col)
	return col, nil
}

// swapInto returns seats with rank r on id; a rank that sat there takes r's place.
func swapInto(seats []topology.GPUID, r int, id topology.GPUID) []topology.GPUID {
	out := slices.Clone(seats)
	if at := slices.Index(out, id); at >= 0 {
		out[at] = out[r]
	}
	out[r] = id
	return out
}

// candidates lists idle GPUs that could differ, nearest to the lost one first: its node, its NVLink domain, others.
func candidates(c *topology.Cluster, idle []topology.GPUID, taken map[topology.GPUID]bool, was topology.GPUID) []topology.GPUID {
	type kind struct {
		node   topology.NodeID
		domain int
		class  int
		links  int
	}
	far := func(id topology.GPUID) int {
		switch {
		case c.NodeOf(id) == c.NodeOf(was):
			return 0
		case c.DomainOf(id) == c.DomainOf(was):
			return 1
		}
		return 2
	}
	sorted := slices.Clone(idle)
	slices.SortStableFunc(sorted, func(a, b topology.GPUID) int { return cmp.Compare(far(a), far(b)) })
	seen := map[kind]bool{}
	var out []topology.GPUID
	for _, id := range sorted {
		if taken[id] {
			continue
		}
		n, _ := c.Node(c.NodeOf(id))
		k := kind{domain: c.DomainOf(id), class: n.Class, links: c.LinksUp(id), node: -1}
		if far(id) == 0 {
			k.node = c.NodeOf(id)
		}
		if !seen[k] {
			seen[k] = true
			out = append(out, id)
		}
	}
	return out
}

// moves counts what a new layout changes for the processes and the GPUs of the old one.
func moves(c *topology.Cluster, before, after *Column) *Moved {
	m := &Moved{}
	a, b := before.Strategy.Parallel(), after.Strategy.Parallel()
	held := map[topology.GPUID]layout.Strategy{}
	for r, id := range before.seats {
		held[id] = shard(&a, r)
	}
	for r, id := range after.seats {
		if now := shard(&b, r); !reflect.DeepEqual(held[id], now) {
			m.Reloads++
		}
		if r < len(before.seats) && before.seats[r] == id {
			continue
		}
		m.Ranks++
		if len(m.List) < maxListed {
			from := "new"
			if r < len(before.seats) {
				from = c.GPUName(before.seats[r])
			}
			m.List = append(m.List, fmt.Sprintf("%d: %s to %s", r, from, c.GPUName(id)))
		}
	}
	if n := m.Ranks - len(m.List); n > 0 {
		m.List = append(m.List, fmt.Sprintf("and %d more", n))
	}
	return m
}

// maxListed is how many moved ranks are named.
const maxListed = 16
