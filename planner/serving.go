package planner

import (
	"fmt"

	"rankmap/internal/engine"
	"rankmap/internal/parallel"
	"rankmap/model"
	"rankmap/planner/step"
)

// scheduler is how the engine of the request serves, as the workload sets it up.
func (s *search) scheduler() engine.Serving {
	e := engine.ServingOf("", "")
	switch {
	case s.Serving != nil:
		e = *s.Serving
	case s.Engine != nil:
		e = engine.ServingOf(s.Engine.Name, s.Engine.Version)
	}
	if s.Workload.Chunk > 0 {
		e.Budget = s.Workload.Chunk
	}
	e.Halves = e.Halves || s.Workload.Overlap
	e.Eager = e.Eager || s.Workload.Eager
	return e
}

// host is the scheduler as it drives the ranks of a strategy: those of one attention replica are workers of one scheduler.
func (s *search) host(st parallel.Strategy) engine.Serving {
	e := s.scheduler()
	if st.TP*st.PP*st.CP > 1 {
		e.Step += e.Workers
	}
	if st.PP > 1 {
		e.Step += e.Pipeline
	}
	return e
}

// assumed says in words what a serving plan takes for granted of the engine.
func (s *search) assumed(o *Outcome) string {
	e := s.host(o.Strategy)
	how := "prompts share steps with decode"
	if e.Apart {
		how = "prompts have steps of their own"
	}
	text := fmt.Sprintf("assumed of the engine (%s): %d tokens a step, %s, %s of host time a step and stage, %s a request", e.Name, e.Budget, how, e.Step, e.Request)
	if e.Halves {
		text += ", exchanges of experts beside the other half of the batch where that is shorter"
	}
	if e.Eager {
		text += fmt.Sprintf(", no CUDA graphs (%s a kernel)", e.Launch)
	}
	if v := o.Service; v != nil {
		text += fmt.Sprintf("; %d of %d requests decode at a time, %.0f %% of the steps carry prompts", v.Running, o.Batch, 100*v.Mixed)
	}
	return text
}

// serve is the steady state of a strategy with b requests in flight over all GPUs. Requests that memory does not hold at
// their full length wait.
func (s *search) serve(st parallel.Strategy, price step.Comm, b int) (step.Service, error) {
	l := step.Load{Replicas: s.together(st), ISL: s.Workload.ISL, OSL: s.Workload.OSL, Burst: s.Burst, Equal: s.Equal}
	alone := st.DP / l.Replicas
	l.Clients = (b + alone - 1) / alone
	w := s.work(st, model.Decode, b)
	w.Context = s.Workload.ISL + s.Workload.OSL
	if m := s.spec(st).Memory(st, w, model.MemoryOptions{Capacity: s.Capacity}); m.MaxBatch > 0 && m.MaxBatch < w.Batch {
		l.Slots = m.MaxBatch * l.Replicas
	}
	v, err := step.Serve(l, s.host(st), &servingSteps{s: s, st: st, price: price})
	instances := float64(alone)
	if l.Clients*alone != b { // some have a client less than the fullest, or none
		instances = float64(b) / float64(l.Clients)
	}
	v.Rate, v.Running = v.Rate*instances, min(b, v.Running*alone)
	return v, err
}

// together is how many attention replicas share experts, so that each of their steps waits for all of them; the others are
// instances of their own.
func (s *search) together(st parallel.Strategy) int {
	if n := st.EP * st.ExpertTP / (st.TP * st.CP); s.spec(st).MoE() && n > 1 && st.DP%n == 0 {
		return n
	}
	return 1
}

// servingSteps prices the steps of one strategy.
type servingSteps struct {
	s     *search
	st    parallel.Strategy
	price step.Comm
}

// Decode prices a step of seqs sequences on each replica.
func (p *servingSteps) Decode(seqs int) (step.Passage, error) {
	return step.Pass(step.Input{
		Spec: p.s.spec(p.st), Strategy: p.st, Work: p.decode(seqs), Kernel: p.s.kernel(model.Decode), Comm: p.price, Scratch: &p.s.served[0],
		Halves: p.s.scheduler().Halves,
	})
}

func (p *servingSteps) decode(seqs int) model.Work {
	w := p.s.work(p.st, model.Decode, 1)
	w.Batch = seqs
	return w
}

// Prompt prices a step with a piece of a prompt beside seqs sequences.
func (p *servingSteps) Prompt(seqs, tokens, context int, share float64) (step.Passage, error) {
	chunk := p.s.work(p.st, model.Prefill, 1)
	tokens, context = max(tokens, 1), max(context, 1) // of a workload without prompts
	chunk.Batch = max(1, (tokens+context-1)/context)  // several prompts, or a piece of one
	chunk.Tokens, chunk.Context = (tokens+chunk.Batch-1)/chunk.Batch, context
	in := step.Input{Spec: p.s.spec(p.st), Strategy: p.st, Comm: p.price, Scratch: &p.s.served[1], Halves: p.s.scheduler().Halves}
	if seqs == 0 {
		in.Work, in.Kernel = chunk, p.s.kernel(model.Prefill)
	} else {
		in.Work, in.Kernel = p.decode(seqs), p.s.kernel(model.Decode)
		in.Chunk, in.ChunkKernel, in.ChunkShare = chunk, p.s.kernel(model.Prefill), share
	}
	return step.Pass(in)
}

// Side is one half of a deployment with prefill and decode apart.
type Side struct {
	Ranking   *Ranking
	Strategy  parallel.Strategy
	Instances int
}

// steps seats a strategy as Price does and returns its prices.
func (d *Side) steps(held Held) (*servingSteps, *Outcome, error) {
	o, err := d.Ranking.Price(d.Strategy, held, 0)
	if err != nil {
		return nil, nil, err
	}
	s := *d.Ranking.s
	s.scratch, s.served = step.Scratch{}, [2]step.Scratch{}
	cm := newComm(o.seats, s.Pricer, graphLaunch, o.Strategy)
	return &servingSteps{s: &s, st: o.Strategy, price: cm.price}, o, nil
}

// ServeApart is the steady state of a deployment whose prefill and decode run on instances of their own, with clients
// requests in flight over all of it.
func ServeApart(p, d *Side, clients int) (step.Service, error) {
	ps, _, err := p.steps(Held{})
	if err != nil {
		return step.Service{}, err
	}
	ds, do, err := d.steps(Held{})
	if err != nil {
		return step.Service{}, err
	}
	w := ds.s.Workload
	l := step.Load{Clients: clients, ISL: w.ISL, OSL: w.OSL, Burst: ds.s.Burst, Equal: ds.s.Equal}
	a := step.Apart{
		Prefill: p.Instances, Decode: d.Instances, PrefillReplicas: ps.st.DP, DecodeReplicas: ds.st.DP,
		PrefillE: ps.s.host(ps.st), DecodeE: ds.s.host(ds.st),
	}
	full := ds.s.work(ds.st, model.Decode, max(1, clients/d.Instances))
	full.Context = w.ISL + w.OSL
	if m := ds.s.spec(ds.st).Memory(do.Strategy, full, model.MemoryOptions{Capacity: ds.s.Capacity}); m.MaxBatch > 0 && m.MaxBatch < full.Batch {
		a.DecodeSlots = m.MaxBatch * ds.st.DP
	}
	return step.ServeApart(l, a, ps, ds)
}
