package step

import (
	"math"

	"rankmap/internal/engine"
	"rankmap/internal/units"
)

// Load is what one instance of an inference engine serves: clients that each send the next request when the last one is
// answered.
type Load struct {
	Clients  int // requests in flight
	Slots    int // of them that the KV cache holds at once; the others wait. 0 = all
	Replicas int // attention replicas that share the requests and step together
	ISL, OSL int // mean prompt and answer, tokens
	// Burst is the share of requests that arrive at the very start, all clients at once: a benchmark of ten requests a
	// client has 0.1. 0 = an instance that has been running for long.
	Burst float64
	// Equal says that all requests have the same lengths, as synthetic benchmarks send them: they stay in step with each
	// other for the whole run. See Serve.
	Equal bool
}

// Steps prices the micro-batches of an instance.
type Steps interface {
	// Decode prices one micro-batch with seqs decoding sequences on each replica.
	Decode(seqs int) (Passage, error)
	// Prompt prices one with a piece of tokens of a prompt beside them, read by attention up to context, on the share of
	// the replicas that have one. seqs may be 0.
	Prompt(seqs, tokens, context int, share float64) (Passage, error)
}

// Service is the steady state of an instance under a load.
type Service struct {
	Decode  Band    // a step of decode alone
	Prompt  Band    // a step that carries a piece of a prompt
	TPOT    Band    // mean time between tokens of a request, steps with other requests' prompts included
	TTFT    Band    // mean time to the first token
	Queue   Band    // of TTFT: waiting for the running step and for others' prompts
	Running int     // sequences that decode at the same time
	Mixed   float64 // share of the steps that carry prompts
	Rate    float64 // requests a second
	Chunks  int     // pieces a prompt is cut in
}

// Serve finds the steady state of continuous batching.
//
// Each of D decoding sequences ends after OSL steps, so D/OSL prompts arrive a step. A step carries k of them (several that
// arrive during one step share the next, up to the budget), a prompt needs n steps, and a share f = D n/(OSL k) of all
// steps carries prompts:
//
//	TPOT = t(decode) + f (t(mixed) - t(decode)), with the prompts of the other clients: (C-1)/C
//
// In a pipeline t(decode) is what all its micro-batches take, and each may carry a prompt: f goes up to their number, and the
// occupancy below is f over it.
//
//	TTFT = request + lag x running step + queue + n t(mixed)
//	queue = f n t(mixed) / (2 (1-f))                      M/D/1 with the occupancy f
//
// A request holds its place for TTFT + OSL TPOT, of which it decodes OSL TPOT: D follows by Little's law. Requests beyond
// the slots wait until one is free: (C-slots) requests pass at the instance's rate. At the start of a benchmark all
// prompts arrive at once and are taken up to the budget at a time; the mean request waits for half of them.
//
// Requests of equal length never drift apart. On an engine that runs all waiting prompts before it decodes again, every
// round is such a burst, and a token waits for those of its round that start later, half of them. On an engine that mixes,
// the groups of the first burst end one step after the other; while one group's new prompts run the next group ends, so
// that a request waits for a whole step with prompts. A group is split each time between those that return before the
// next step begins and those that do not, down to pairs.
func Serve(l Load, e engine.Serving, s Steps) (Service, error) {
	v := solver{l: l, e: e, s: s, slots: l.Clients}
	if l.Slots > 0 {
		v.slots = min(l.Slots, l.Clients)
	}
	d := float64(v.slots)
	var out Service
	for pass := range 3 {
		var err error
		if out, err = v.at(d); err != nil {
			return out, err
		}
		next := v.decoding(&out)
		// Below 3 % the price of a step does not change enough to pay for another look.
		if pass == 2 || math.Abs(next-d) < 0.03*d || int(next+0.5) == int(d+0.5) {
			break
		}
		d = next
	}
	out.TTFT, out.TPOT = widen(out.TTFT, ttftSpread), widen(out.TPOT, tpotSpread)
	// Less than one may decode at a time: a lone client waits for its prompts. No more pass than steps with prompts have room for.
	out.Rate = min(d/v.over, v.little(&out), v.most()) / (out.TPOT.Time.Seconds() * float64(max(1, l.OSL)))
	return out, nil
}

// full is the share of steps with prompts from which on an instance counts as full.
const full = 0.98

// solver holds what does not change with the number of decoding sequences.
type solver struct {
	l      Load
	e      engine.Serving
	s      Steps
	slots  int
	chunks int     // steps a prompt needs
	piece  int     // tokens of one
	left   int     // tokens of a micro-batch that prompts may take; 0 = any number
	ring   float64 // micro-batches that pass the pipeline in the time of a token
	over   float64 // prompts that arrive over those that the steps have room for, 1 at least
}

// cut divides a prompt by what d decoding sequences leave of the budget: they come first, a token each, and every micro-batch of a
// pipeline has a budget of its own.
func (v *solver) cut(d float64) {
	left := v.e.Budget
	if !v.e.Apart && left > 0 {
		beside := min(d, v.most()) / (v.ring * float64(max(1, v.l.Replicas)))
		left = max(left-int(math.Ceil(beside)), 1)
	}
	v.cutBy(left)
}

// most is how many sequences can decode in a steady state on an engine that mixes: each takes a token of every step, and isl/osl
// tokens for the prompt of its successor.
func (v *solver) most() float64 {
	if v.e.Apart || v.e.Budget <= 0 {
		return math.Inf(1)
	}
	budget := float64(v.e.Budget)
	if v.e.Whole {
		budget = max(budget, float64(v.l.ISL)) // a longer prompt runs all the same, alone
	}
	return budget * float64(max(1, v.l.Replicas)) * v.ring / (1 + float64(max(0, v.l.ISL))/float64(max(1, v.l.OSL)))
}

// group is how many prompts share a step, over all replicas, when a arrive a step: those of one step's Poisson arrivals
// that are not none, as far as the budget goes. Replicas that step together hold prompts back to start several at once.
func (v *solver) group(a float64) float64 {
	a /= max(1, v.ring)
	if v.l.Replicas > 1 {
		a *= 1 + v.e.Gather
	}
	if v.chunks > 1 {
		return max(1, min(float64(v.l.Replicas), a))
	}
	k := 1.0
	if v.l.Equal {
		if k = 2; v.e.Apart {
			k = v.room(v.left)
		}
		return max(1, min(k, v.room(v.left), float64(v.slots)))
	}
	if a > 1e-6 {
		k = a / (1 - math.Exp(-a))
	}
	return max(1, min(k, v.room(v.left)))
}

// room is how many prompts fit the given tokens of a step over all replicas. Engines that cut prompts fill a step with the first
// part of the next one. Those that never cut take as many as fit an empty step: nobody limits a step so that a prompt more would
// fit but for the few decoding sequences beside it, and measured points agree (docs/serving.md).
func (v *solver) room(tokens int) float64 {
	per := 1.0
	switch {
	case v.e.Budget <= 0:
		per = float64(v.slots)
	case v.e.Whole:
		per = math.Floor(max(1, float64(v.e.Budget)/float64(v.piece)))
	default:
		per = max(1, float64(tokens)/float64(v.piece))
	}
	return per * float64(max(1, v.l.Replicas))
}

// at is the state with d decoding sequences.
func (v *solver) at(d float64) (Service, error) {
	l := &v.l
	reps := float64(max(1, l.Replicas))
	seqs := max(1, int(math.Ceil(d/reps)))
	dec, err := v.s.Decode(seqs)
	if err != nil {
		return Service{}, err
	}
	osl := float64(max(1, l.OSL))
	arrive := d / osl
	v.ring = float64(max(1, dec.Ring))
	v.cut(d)
	k := v.group(arrive)
	context := (l.ISL + v.piece) / 2 // the mean over the pieces of a prompt
	tokens := int(math.Ceil(float64(v.piece) * max(1, k/reps)))
	beside := seqs
	if v.e.Apart {
		beside = 0
	}
	mix, err := v.s.Prompt(beside, tokens, max(context, v.piece), min(1, k/reps))
	if err != nil {
		return Service{}, err
	}
	// The burst: as many prompts together as the budget takes.
	first, many := mix, 1.0
	if l.Burst > 0 || l.Equal {
		many = min(v.room(v.e.Budget), float64(v.slots)) // nobody decodes yet
		if t := int(math.Ceil(float64(v.piece) * max(1, many/reps))); t > tokens {
			if first, err = v.s.Prompt(0, t, max(context, v.piece), 1); err != nil {
				return Service{}, err
			}
		}
	}
	out := Service{Running: int(d + 0.5), Chunks: v.chunks}
	t := times{
		solver: v, dec: dec, mix: mix, first: first, groups: (float64(v.slots)/many + 1) / 2,
		f: arrive * float64(v.chunks) / k, others: max(0, float64(l.Clients-1)) / float64(max(1, l.Clients)),
	}
	v.over = max(1, t.f/(full*v.ring))
	t.f /= v.over
	out.Mixed = t.f / v.ring
	for _, f := range bandFields {
		t.work(f.get)
		f.set(&out.Decode, t.decode)
		f.set(&out.Prompt, t.decode+t.extra)
		f.set(&out.TPOT, t.tpot)
		f.set(&out.TTFT, t.ttft)
		f.set(&out.Queue, t.queue)
	}
	return out, nil
}

// times is a state with its steps priced, and what work makes of one of the three times of each.
type times struct {
	*solver
	dec, mix, first Passage // a step of decode, one with a piece of a prompt, one of the first burst
	groups          float64 // steps with prompts that the mean request of the burst waits for, its own included
	f               float64 // pieces of prompts in the time of a token
	others          float64 // share of the clients that are others

	decode, extra, tpot, ttft, queue units.Duration
}

func (t *times) work(get func(Band) units.Duration) {
	l, e := &t.l, &t.e
	host := e.Step * units.Duration(max(1, t.dec.Stages))
	pace := t.floor(get(t.dec.Pace), t.dec.Kernels, e.Eager)
	own := t.floor(get(t.mix.Through), t.mix.Kernels, true) + host
	mixed := t.floor(get(t.mix.Pace), t.mix.Kernels, true)
	t.decode = pace*units.Duration(t.ring) + host
	t.extra = max(0, mixed-pace)
	late := 1.0 // share of the others' prompts that a token waits for
	if e.Apart {
		t.extra = mixed + e.Step
		if l.Equal {
			late = 0.5
		}
	}
	t.tpot = t.decode + units.Duration(t.f*t.others*late)*t.extra

	n := units.Duration(t.chunks)
	busy := units.Duration(t.f / t.ring * t.others)
	running := units.Duration(t.lag()) * (t.decode + busy*t.extra)
	t.queue = running + min(busy/(2*(1-busy))*n*own, n*own*units.Duration(max(0, l.Clients-1))/2)
	burst := units.Duration(l.Burst)
	if l.Equal && t.slots > 1 {
		if t.queue = units.Duration(e.Lag) * n * own; e.Apart {
			burst = 1
		}
	}
	steady := e.Request + t.queue + n*own
	atOnce := e.Request + n*(t.floor(get(t.first.Through), t.first.Kernels, true)+host)*units.Duration(t.groups)
	t.ttft = steady + burst*(atOnce-steady)
	if over := l.Clients - t.slots; over > 0 {
		t.ttft += units.Duration(float64(over)/float64(t.slots)) * (t.tpot*units.Duration(max(1, l.OSL)) + steady)
	}
}

// lag is how many running steps a new request waits for.
func (v *solver) lag() float64 {
	if v.l.Replicas > 1 {
		return v.e.Lag + v.e.Gather/2
	}
	return v.e.Lag
}

// floor is the time of a micro-batch outside CUDA graphs: the GPU cannot be faster than the host that starts its kernels.
func (v *solver) floor(t units.Duration, kernels int, eager bool) units.Duration {
	if !eager {
		return t
	}
	return max(t, units.Duration(kernels)*v.e.Launch)
}

// little is how many of the requests that hold a slot decode on average, by Little's law.
func (v *solver) little(o *Service) float64 {
	answer := o.TPOT.Time.Seconds() * float64(max(1, v.l.OSL))
	first := o.Queue.Time.Seconds() + float64(v.chunks)*o.Prompt.Time.Seconds() + v.e.Request.Seconds()
	return float64(v.slots) * answer / (answer + first)
}

// decoding is how many sequences a step carries.
func (v *solver) decoding(o *Service) float64 {
	d := v.little(o)
	if o.Mixed >= full { // every step carries prompts: no more requests get through
		d = min(d, full*v.ring*float64(v.l.OSL)*v.group(d/float64(v.l.OSL))/float64(v.chunks))
	}
	return max(1, min(d, v.most()))
}

// The 10th and 90th percentile of measured over predicted times of serving points on H200 (396 points of instances that do
// both; none of another system): what schedulers, options that nobody states and the load itself add to the errors of kernels.
var (
	ttftSpread = [2]units.Duration{0.74, 2.06}
	tpotSpread = [2]units.Duration{0.84, 1.7}
)

// widen makes the interval at least as wide as a spread around its middle.
func widen(b Band, spread [2]units.Duration) Band {
	b.P10, b.P90 = min(b.P10, spread[0]*b.Time), max(b.P90, spread[1]*b.Time)
	return b
}

// bandField is one of the three times of a band. The errors of a profile are common to all its predictions, so that a
// steady state is worked out once for each.
type bandField struct {
	get func(Band) units.Duration
	set func(*Band, units.Duration)
}

var bandFields = [...]bandField{
	{func(b Band) units.Duration { return b.Time }, func(b *Band, t units.Duration) { b.Time = t }},
	{func(b Band) units.Duration { return b.P10 }, func(b *Band, t units.Duration) { b.P10 = t }},
	{func(b Band) units.Duration { return b.P90 }, func(b *Band, t units.Duration) { b.P90 = t }},
}
