package planner

import (
	"fmt"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/topology"
)

// Keep prices a strategy with rank i on seats[i] and b sequences in flight, without any search: what a layout that exists
// costs on this machine. Limits of the workload that it misses become notes.
//
// Errors: seats that are not the strategy's ranks, a GPU twice, an invalid GPU or one that Skip forbids; an *Infeasible
// when the model's rules or the memory of a GPU forbid the strategy.
func Keep(r Request, st parallel.Strategy, seats []topology.GPUID, b int) (*Plan, error) {
	if r.Top == 0 {
		r.Top = 5
	}
	st = st.Normalize()
	if st.World() != len(seats) {
		return nil, fmt.Errorf("%d seats for the %d ranks of %s", len(seats), st.World(), st)
	}
	s := &search{Request: r, base: newSeating(r.Cluster, r.Skip)}
	held := make(map[topology.GPUID]int, len(seats))
	for rank, id := range seats {
		if !r.Cluster.Valid(id) {
			return nil, fmt.Errorf("rank %d: the cluster has no GPU %d", rank, id)
		}
		if other, dup := held[id]; dup {
			return nil, fmt.Errorf("ranks %d and %d are both on %s", other, rank, r.Cluster.GPUName(id))
		}
		if r.Skip != nil && r.Skip(id) {
			return nil, fmt.Errorf("rank %d is on %s, which cannot be used", rank, r.Cluster.GPUName(id))
		}
		held[id] = rank
	}
	if v := s.violations(st); len(v) > 0 {
		return nil, &Infeasible{Binding: v[0].String(), Nearest: "other degrees"}
	}
	if s.Workload.Task == string(TrainStep) {
		st.MicroBatch = max(1, st.MicroBatch) // a layout need not say it
		if n := s.Workload.Batch; n < 1 || n%(st.DP*st.MicroBatch) != 0 {
			return nil, &Infeasible{
				Binding: fmt.Sprintf("batch: %d sequences are not a multiple of dp %d x micro-batch %d", n, st.DP, st.MicroBatch),
				Nearest: "another batch",
			}
		}
	}
	if need := s.keptMemory(st, b); need > s.Capacity {
		return nil, &Infeasible{
			Binding: fmt.Sprintf("memory: %s with batch %d needs %s a GPU, a GPU has %s", st, b, need.Decimal(), s.Capacity.Decimal()),
			Nearest: "a smaller batch or a new plan",
		}
	}
	t := s.base.seatedOn(seats)
	o, err := s.evaluate(st, newComm(t, s.Pricer, graphLaunch, st).price, b, true)
	if err != nil {
		return nil, err
	}
	o.seats, o.MaxBatch = t, b
	s.found = []*Outcome{o}
	s.counts.Strategies = 1
	s.ideal = newIdeal(s)
	if err := s.detail(o); err != nil {
		return nil, err
	}
	o.MaxBatch = s.mostBatch(st)
	p := &Plan{Best: o, Seats: t.gpus[:t.n], Searched: s.counts, seats: t, found: s.found}
	for id := range topology.GPUID(r.Cluster.NumGPUs()) {
		if _, used := held[id]; !used {
			p.Idle = append(p.Idle, id)
		}
	}
	p.comm = newComm(t, s.Pricer, graphLaunch, st)
	p.Explained = s.explain(p)
	if err := s.launchersOf(p, false); err != nil {
		return nil, err
	}
	if why := s.misses(o); why != "" {
		p.Notes = append(p.Notes, why)
	}
	return p, nil
}

// keptMemory is the need of the fullest GPU.
func (s *search) keptMemory(st parallel.Strategy, b int) units.Bytes {
	if s.Workload.Task == string(TrainStep) {
		return s.Spec.Memory(st, s.trainWork(st), model.MemoryOptions{}).Total()
	}
	m := s.memory(st, b)
	return m.Total()
}

// mostBatch is the largest batch that memory holds, of those that a search tries.
func (s *search) mostBatch(st parallel.Strategy) int {
	if s.Workload.Task == string(TrainStep) {
		return 0
	}
	free := *s
	free.Workload.Batch = 0
	if all, _ := free.batches(st); len(all) > 0 {
		return all[len(all)-1]
	}
	return 0
}

// seatedOn returns the seating with rank i on ids[i], the other usable GPUs idle behind them.
func (s *seating) seatedOn(ids []topology.GPUID) *seating {
	t := *s
	t.n, t.known = len(ids), nil
	t.rankOf = make([]int32, len(s.rankOf))
	for i := range t.rankOf {
		t.rankOf[i] = -1
	}
	for r, id := range ids {
		t.rankOf[id] = int32(r)
	}
	t.gpus = append(make([]topology.GPUID, 0, len(s.gpus)), ids...)
	for _, id := range s.gpus {
		if t.rankOf[id] < 0 {
			t.gpus = append(t.gpus, id)
		}
	}
	t.period = t.findPeriod()
	return &t
}

// Figures are the parts of an outcome's document that comparisons show, without ranks and groups. capacity is the memory
// of a GPU.
func (o *Outcome) Figures(capacity units.Bytes) (layout.Predicted, layout.Memory) {
	return predicted(o), documentMemory(o, capacity)
}
