package accuracy

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"rankmap/internal/engine"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/planner"
)

// tuple is what a published decision is compared by.
type tuple struct{ tp, pp, cp, ep int }

func tupleOf(st parallel.Strategy) tuple { return tuple{st.TP, st.PP, st.CP, st.EP} }

func (t tuple) String() string {
	var b []string
	for _, d := range []struct {
		name string
		n    int
	}{{"tp", t.tp}, {"pp", t.pp}, {"cp", t.cp}, {"ep", t.ep}} {
		if d.n > 1 {
			b = append(b, fmt.Sprintf("%s%d", d.name, d.n))
		}
	}
	if len(b) == 0 {
		return "data parallel"
	}
	return strings.Join(b, " ")
}

// Choice is one published decision against ours.
type Choice struct {
	ID, Family, Model, GPU, Task string
	GPUs                         int
	Row, Ours                    string  // degrees
	Rank                         int     // place of the row's tuple among ours, from 1; 0 = the search drops it
	Of                           int     // distinct tuples that fit
	Ratio                        float64 // predicted cost of the row's layout over our best
	Fits                         bool    // the row's layout fits the memory as we count it
	Reason                       string  // why we disagree; empty when the row is our best
	Chance                       float64 // share of the layouts that fit which would count as among our first three
	Loads                        int     // loads that the row was compared under: it counts where it does best
}

// rankingKey is what a ranking depends on.
type rankingKey struct {
	model  string
	site   *site
	work   layout.Workload
	held   planner.Held
	gpus   int
	engine string
	copies int
}

// ranking searches the request of a job, once for all rows that share it.
func (c *Placer) ranking(ctx context.Context, j *job) (*planner.Ranking, error) {
	key := rankingKey{j.row.Model + "|" + j.spec.Name, j.site, j.work, j.held, j.row.GPUs, j.engine, j.copies}
	if k := c.rankings[key]; k != nil {
		return k, nil
	}
	r := j.site.request(j.spec)
	r.Workload, r.Held, r.GPUs = j.work, j.held, j.row.GPUs
	if e, err := engine.Find(j.engine); err == nil {
		r.Engine = &e
	}
	r.RedundantExperts = j.copies
	k, err := planner.Rank(ctx, r)
	if err == nil {
		c.rankings[key] = k
	}
	return k, err
}

// price prices a row's own layout.
func (c *Placer) price(j *job) (*planner.Outcome, error) {
	k, err := j.site.ranking(j)
	if err != nil {
		return nil, err
	}
	return j.stated(k)
}

// own prices a row's own layout in the best rank order. A training run whose row names no sharding and that does not fit with the optimizer dealt out
// must have sharded its parameters too.
func (j *job) own(k *planner.Ranking) (*planner.Outcome, error) {
	return j.priced(k, j.strategy)
}

// stated prices a row's own layout in the rank order that it states, for times; what a choice of degrees costs is another matter.
func (j *job) stated(k *planner.Ranking) (*planner.Outcome, error) {
	st := j.strategy
	st.Order = statedOrder(j.row.RankOrder)
	return j.priced(k, st)
}

func (j *job) priced(k *planner.Ranking, st parallel.Strategy) (*planner.Outcome, error) {
	o, err := k.Price(st, j.exact, 0)
	if err != nil || j.row.Task != "train" || j.held.ZeRO != 0 || j.exact.ZeRO != 1 || o.Memory.Total() <= k.Capacity() {
		return o, err
	}
	free := j.exact
	free.ZeRO = 0
	return k.Price(st, free, 0)
}

// decision compares a row under each load that it may have been decided for, and returns the comparison that it does best in.
func (c *Placer) decision(ctx context.Context, j *job) (Choice, *planner.Outcome, error) {
	best, own, top, err := c.choice(ctx, j)
	if err != nil {
		return best, nil, err
	}
	for _, x := range j.others {
		ch, _, more, err := c.choice(ctx, x)
		if err != nil {
			return best, nil, err
		}
		for t := range more {
			top[t] = true
		}
		of := max(ch.Of, best.Of) // the loads' layouts are of one set: the most that fit under any
		if better(&ch, &best) {
			best = ch
		}
		best.Of = of
	}
	best.Loads = 1 + len(j.others)
	if best.Of > 0 {
		best.Chance = float64(len(top)) / float64(best.Of)
	}
	return best, own, nil
}

// better says that a row does better in one comparison than in another: it fits, stands higher, costs less.
func better(a, b *Choice) bool {
	switch {
	case (a.Rank > 0) != (b.Rank > 0):
		return a.Rank > 0
	case a.top() != b.top():
		return a.top()
	case a.near() != b.near():
		return a.near()
	}
	return a.Ratio < b.Ratio
}

// choice finds the row's tuple in our ranking. The set holds the tuples that count as among our first three.
func (c *Placer) choice(ctx context.Context, j *job) (Choice, *planner.Outcome, map[tuple]bool, error) {
	p := j.row
	ch := Choice{ID: p.ID, Family: p.Family(), Model: p.Model, GPU: p.GPU, Task: p.Task, GPUs: p.GPUs, Row: tupleOf(j.strategy).String()}
	k, err := c.ranking(ctx, j)
	if err != nil {
		return ch, nil, nil, err
	}
	var tuples []tuple
	var first []*planner.Outcome
	for _, o := range k.Outcomes {
		if !j.alternative(o.Strategy) {
			continue
		}
		if t := tupleOf(o.Strategy); !slices.Contains(tuples, t) {
			tuples, first = append(tuples, t), append(first, o)
		}
	}
	ch.Of = len(tuples)
	own, err := j.own(k)
	if err != nil {
		ch.Reason = err.Error()
		if len(first) > 0 {
			ch.Ours = tuples[0].String()
		}
		return ch, nil, firsts(tuples, first), nil
	}
	ch.Fits = own.Memory.Total() <= k.Capacity()
	if len(tuples) == 0 {
		ch.Reason = fmt.Sprintf("nothing fits as we count memory; the row needs %s of %s", own.Memory.Total().Decimal(), k.Capacity().Decimal())
		return ch, own, nil, nil
	}
	ch.Ours = tuples[0].String()
	best := first[0]
	at := slices.Index(tuples, tupleOf(j.strategy))
	ch.Rank = rankAt(first, at)
	ch.Ratio = own.CostRatio(best)
	full, err := k.Price(best.Strategy, heldOf(best.Strategy, j.held), best.Batch)
	if err != nil {
		return ch, nil, nil, err
	}
	timed, err := j.stated(k)
	if err != nil {
		return ch, nil, nil, err
	}
	if at == 0 && ch.Ratio > 1 {
		ch.Reason = fmt.Sprintf("same degrees; %s", settings(best.Strategy, own.Strategy))
	} else if at != 0 {
		ch.Reason = reason(own, full, k.Capacity(), ch)
	}
	return ch, timed, firsts(tuples, first), nil
}

// firsts is the set of tuples that count as among our first three.
func firsts(tuples []tuple, first []*planner.Outcome) map[tuple]bool {
	out := map[tuple]bool{}
	for i, t := range tuples {
		if rankAt(first, i) > topRank {
			break
		}
		out[t] = true
	}
	return out
}

// tie is how much better a layout must be to stand before another: prices are not known more closely.
const tie = 0.01

// rankAt is the rank of the tuple at a place of the list, best first: 1 + those that are better by more than a tie; 0 for
// none.
func rankAt(first []*planner.Outcome, at int) int {
	if at < 0 {
		return 0
	}
	n := 1
	for _, o := range first[:at] {
		if first[at].CostRatio(o) > 1+tie {
			n++
		}
	}
	return n
}

// alternative says that a layout is one that the row's decision was taken against. A serving row is one instance of an
// engine (README of the tables; MLPerf Inference states whole systems): all its ranks step together, so several copies of
// a smaller instance are another decision, which the tables list with fewer GPUs.
func (j *job) alternative(st parallel.Strategy) bool {
	if j.row.Task == "train" || j.row.Family() == "mlinf" {
		return true
	}
	if st.PP > 1 && j.strategy.PP == 1 && j.drafts() {
		return false
	}
	return instances(st, j.spec.MoE()) == 1 || instances(j.strategy, j.spec.MoE()) > 1
}

// mtpNote counts the recipes that use a layout, and those of them that draft tokens (multi-token prediction).
var mtpNote = regexp.MustCompile(`(\d+) recipe file\(s\) use this layout \((\d+) with MTP\)`)

// drafts says that at least half of the recipes behind a row draft tokens where SGLang allows no pipeline then: outside
// prefill instances (sglang/srt/server_args.py: "PP + speculative decoding is only supported in disaggregated prefill
// mode").
func (j *job) drafts() bool {
	m := mtpNote.FindStringSubmatch(j.row.Note)
	if m == nil || j.engine != "sglang" || j.row.Task == "prefill" {
		return false
	}
	all, _ := strconv.Atoi(m[1])
	mtp, _ := strconv.Atoi(m[2])
	return mtp > 0 && 2*mtp >= all
}

// instances is how many engines a serving layout is: replicas of attention that share no experts know nothing of each
// other.
func instances(st parallel.Strategy, mixture bool) int {
	if mixture {
		return st.ExpertDP()
	}
	return st.DP
}

// heldOf holds everything that a found strategy settled.
func heldOf(st parallel.Strategy, h planner.Held) planner.Held {
	h.MicroBatch, h.Interleave, h.ZeRO, h.RecomputeLayers, h.OffloadLayers = st.MicroBatch, st.Interleave, st.ZeRO, st.RecomputeLayers, st.OffloadLayers
	if h.Recompute = st.Recompute; h.Recompute == "" {
		h.Recompute = "none"
	}
	return h
}

// settings names what differs beside the degrees.
func settings(ours, row parallel.Strategy) string {
	var b []string
	add := func(name string, a, x any) {
		if a != x {
			b = append(b, fmt.Sprintf("%s %v instead of %v", name, a, x))
		}
	}
	none := func(s string) string {
		if s == "" {
			return "none"
		}
		return s
	}
	add("virtual stages", max(ours.Interleave, 1), max(row.Interleave, 1))
	add("recomputation", none(ours.Recompute), none(row.Recompute))
	add("micro-batch", ours.MicroBatch, row.MicroBatch)
	add("ZeRO", ours.ZeRO, row.ZeRO)
	add("expert-tp", ours.ExpertTP, row.ExpertTP)
	if len(b) == 0 {
		return "another order of ranks"
	}
	return "we take " + strings.Join(b, ", ")
}

// reason says, from the parts of the price, why our best beats the row.
func reason(row, best *planner.Outcome, capacity units.Bytes, ch Choice) string {
	var b []string
	if need := row.Memory.Total(); need > capacity {
		b = append(b, fmt.Sprintf("the row's memory would be %.0f of %.0f GB (%s)", float64(need)/1e9, float64(capacity)/1e9, largest(row.Memory)))
	}
	per := func(o *planner.Outcome) map[string]float64 {
		m := map[string]float64{}
		for _, p := range o.Step.Parts {
			m[kindName(p.Kind)] += p.Band.Time.Seconds() / float64(max(o.Batch, 1))
		}
		return m
	}
	x, y := per(row), per(best)
	total := 0.0
	for _, v := range x {
		total += v
	}
	save, saved, pay, paid := "", 0.0, "", 0.0
	for _, k := range kindNames {
		switch d := (x[k] - y[k]) / total; {
		case d > saved:
			save, saved = k, d
		case -d > paid:
			pay, paid = k, -d
		}
	}
	s := fmt.Sprintf("%s would save %.0f %% of the row's step in %s", ch.Ours, 100*saved, save)
	if saved < 0.005 {
		s = fmt.Sprintf("%s costs as much in every part", ch.Ours)
	} else if paid >= 0.005 {
		s += fmt.Sprintf(" and pay %.0f %% more %s", 100*paid, pay)
	}
	return strings.Join(append(b, s), "; ")
}

// kindNames are the parts of a step in words.
var kindNames = []string{"computation", "tensor-parallel traffic", "expert traffic", "context-parallel traffic", "pipeline traffic", "pipeline bubble", "gradient traffic", "engine overhead"}

func kindName(kind string) string {
	switch kind {
	case "compute":
		return kindNames[0]
	case "tp":
		return kindNames[1]
	case "ep", "expert-tp":
		return kindNames[2]
	case "cp":
		return kindNames[3]
	case "pp":
		return kindNames[4]
	case "bubble":
		return kindNames[5]
	case "dp", "expert-dp":
		return kindNames[6]
	}
	return kindNames[7]
}

// largest names the largest part of memory.
func largest(m model.Memory) string {
	name, most := "weights", m.Weights
	for _, p := range []struct {
		name string
		b    units.Bytes
	}{{"KV cache", m.KV}, {"activations", m.Activations}, {"logits", m.Logits}, {"gradients", m.Gradients}, {"optimizer", m.Optimizer}} {
		if p.b > most {
			name, most = p.name, p.b
		}
	}
	return fmt.Sprintf("%s %.0f GB", name, float64(most)/1e9)
}
