package validate

import (
	"context"
	"fmt"
	"time"

	"rankmap/internal/measured"
	"rankmap/internal/parallel"
)

// campaign measures a job once the communicators exist. Rows go into the report as they come, so that what was measured
// before a failure is kept.
type campaign struct {
	s       *session
	job     *Job
	fams    []family
	m       Measuring
	predict Predictor
	library string // NCCL version, for the predictor
	cap     int64  // largest size by memory
	rep     *measured.Report
	require *Require
	choices bool // read NCCL's log

	checked map[string]*check
	found   func(id, format string, args ...any)
}

// check is the outcome of a verification, one for each group of a family.
type check struct {
	wrong  map[int]int64 // by rank
	choice map[int]*measured.Choice
}

func (k *check) wrongOf(ranks []int) (n int64) {
	for _, r := range ranks {
		n += k.wrong[r]
	}
	return n
}

func (k *check) choiceOf(ranks []int) *measured.Choice {
	for _, r := range ranks {
		if c := k.choice[r]; c != nil {
			return c
		}
	}
	return nil
}

// run measures everything, in the order: contents, then speed group by group, then siblings, mix, and pairs where a group
// is slow.
func (c *campaign) run(ctx context.Context) error {
	c.checked = map[string]*check{}
	for i, f := range c.fams {
		for _, s := range f.specs(c.m.Sweep) {
			if why := c.tooLarge(s); why != "" {
				continue // the timing below notes it
			}
			if err := c.verify(ctx, i, f, s); err != nil {
				return err
			}
		}
	}
	if c.choices {
		res, err := c.s.do(ctx, c.s.all(), step{Do: doQuiet}, c.s.d.Step, "switching NCCL's log off")
		if err != nil {
			return err
		}
		c.netFindings(res)
		for _, r := range res {
			if r.Logging && !c.rep.Environment.LogWhileTiming {
				c.rep.Environment.LogWhileTiming = true
				c.found("log-on", "libnccl %s does not offer it", c.rep.Environment.NCCL)
			}
		}
	}
	for i, f := range c.fams {
		specs := f.specs(c.m.Sweep)
		for k, s := range specs {
			c.s.talk("%s %s %d B (%d of %d)", f.kind, s.op, s.bytes, k+1, len(specs))
			if err := c.measure(ctx, i, f, s); err != nil {
				return err
			}
		}
	}
	if c.m.Mix {
		if err := c.mix(ctx); err != nil {
			return err
		}
	}
	if c.m.Pairs {
		if err := c.rails(ctx); err != nil {
			return err
		}
		return c.blame(ctx)
	}
	return nil
}

func (c *campaign) tooLarge(s spec) string {
	if c.cap > 0 && bufferNeed(s) > c.cap {
		return fmt.Sprintf("needs %d MB on each GPU, %d MB may be used", bufferNeed(s)/1e6, c.cap/1e6)
	}
	if c.m.MaxBytes > 0 && s.bytes > c.m.MaxBytes {
		return "larger than --max-bytes"
	}
	return ""
}

func specKey(family int, s spec) string {
	return fmt.Sprint(family, s.op, s.bytes, s.dtype)
}

// verify runs a call in all groups of the family at once and compares contents.
func (c *campaign) verify(ctx context.Context, i int, f family, s spec) error {
	what := fmt.Sprintf("verifying %s %s %d B", f.kind, s.op, s.bytes)
	st := step{Do: doVerify, Calls: []call{f.together(i, s)}, Native: c.m.NativeA2A}
	res, err := c.s.do(ctx, f.ranks(), st, c.limit(0, s.bytes), what)
	if err != nil {
		return err
	}
	k := &check{wrong: map[int]int64{}, choice: map[int]*measured.Choice{}}
	for r, v := range res {
		k.wrong[r], k.choice[r] = v.Wrong, v.Choice
		if v.Wrong > 0 {
			c.found("wrong-data", "%s %s of %d B: rank %d holds %d wrong element(s), the first at %d", f.kind, s.op, s.bytes, r, v.Wrong, v.FirstBad)
		}
	}
	c.checked[specKey(i, s)] = k
	return nil
}

// limit is the deadline of a step that should take expectedUs. Without an expectation 1 GB/s is assumed, which is slower
// than any link worth planning for.
func (c *campaign) limit(expectedUs float64, bytes int64) time.Duration {
	if expectedUs == 0 {
		expectedUs = float64(bytes) / 1e3
	}
	return max(c.s.d.Step, time.Duration(c.s.d.StepFactor*expectedUs*float64(time.Microsecond)))
}

// measure times one operation: each group alone, then all at once, with graphs and eagerly.
func (c *campaign) measure(ctx context.Context, i int, f family, s spec) error {
	us := f.units(i, s.op)
	if why := c.tooLarge(s); why != "" {
		for _, u := range us {
			row := c.row(f, u, s, false, nil)
			row.Verdict, row.Why = measured.VerdictSkipped, why
			c.rep.Groups = append(c.rep.Groups, row)
		}
		c.found("gpu-memory", "%s %s of %d B %s", f.kind, s.op, s.bytes, why)
		return nil
	}
	slowestPass := map[bool]float64{}
	for k, u := range us {
		if k > 0 && !c.m.AllGroups {
			break
		}
		for _, eager := range c.launches() {
			pass, err := c.pilot(ctx, u.ranks, eager, u.alone(s))
			if err != nil {
				return err
			}
			slowestPass[eager] = max(slowestPass[eager], pass)
			row, err := c.timeUnit(ctx, i, f, s, u, eager, pass, c.m.NativeA2A)
			if err != nil {
				return err
			}
			c.rep.Groups = append(c.rep.Groups, row)
			if s.op == parallel.AllToAll && !s.sweep && !c.m.NativeA2A && c.s.facts[u.ranks[0]].AllToAll {
				row, err := c.timeUnit(ctx, i, f, s, u, eager, pass, true)
				if err != nil {
					return err
				}
				row.Name += " (ncclAlltoAll)"
				c.rep.Variants = append(c.rep.Variants, row)
			}
		}
	}
	if len(us) < 2 || !c.m.Siblings {
		return nil
	}
	together := []call{f.together(i, s)}
	for _, eager := range c.launches() {
		res, inner, err := c.time(ctx, f.ranks(), together, eager, slowestPass[eager], c.m.NativeA2A)
		if err != nil {
			return err
		}
		for _, u := range us {
			row := c.row(f, u, s, eager, us)
			row.CallsPerBatch = inner
			mine := map[int]result{}
			for _, r := range u.ranks {
				mine[r] = res[r]
			}
			c.finish(&row, i, s, u, mine)
			c.rep.Siblings = append(c.rep.Siblings, row)
		}
	}
	return nil
}

// timeUnit times one unit alone and judges it.
func (c *campaign) timeUnit(ctx context.Context, i int, f family, s spec, u unit, eager bool, pass float64, native bool) (measured.ReportGroup, error) {
	res, inner, err := c.time(ctx, u.ranks, []call{u.alone(s)}, eager, pass, native)
	row := c.row(f, u, s, eager, nil)
	row.CallsPerBatch = inner
	if err != nil {
		return row, err
	}
	c.finish(&row, i, s, u, res)
	if row.Verdict == measured.VerdictUnstable { // once more: something else may have passed by
		if res, _, err = c.time(ctx, u.ranks, []call{u.alone(s)}, eager, pass, native); err != nil {
			return row, err
		}
		again := row
		if c.finish(&again, i, s, u, res); again.Times.Spread < row.Times.Spread {
			row = again
		}
	}
	return row, nil
}

func (c *campaign) launches() []bool {
	var l []bool
	if c.m.Graph {
		l = append(l, false)
	}
	if c.m.Eager {
		l = append(l, true)
	}
	return l
}

// pilot finds out how long one pass takes, so that all ranks can be told the same number of repeats. Small messages need
// several passes in a batch for that already, large ones must not waste time.
func (c *campaign) pilot(ctx context.Context, ranks []int, eager bool, calls ...call) (float64, error) {
	st := step{Do: doTime, Calls: calls, Eager: eager, Warm: c.m.Warm, Batches: 3, Native: c.m.NativeA2A}
	var bytes int64
	for _, k := range expand(calls) {
		bytes += k.Bytes
	}
	switch {
	case bytes <= 1<<20:
		st.Inner = min(20, c.m.MaxInner)
	case bytes <= 64<<20:
		st.Inner = min(3, c.m.MaxInner)
	default:
		st.Inner = 1
	}
	res, err := c.s.do(ctx, ranks, st, c.limit(0, bytes*int64(c.m.Warm+5*st.Inner)), "trying "+describe(calls))
	if err != nil {
		return 0, err
	}
	return median(slowest(batches(res))), nil
}

// time measures calls with enough repeats and returns the results with the number of passes in a batch.
func (c *campaign) time(ctx context.Context, ranks []int, calls []call, eager bool, pass float64, native bool) (map[int]result, int, error) {
	st := step{
		Do: doTime, Calls: calls, Eager: eager, Warm: c.m.Warm, Batches: c.m.Batches, Native: native,
		Inner: innerFor(pass, c.m.BatchUs, c.m.MaxInner),
	}
	total := pass * float64(st.Inner*(st.Batches+2)+st.Warm)
	res, err := c.s.do(ctx, ranks, st, c.limit(total, 0), "timing "+describe(calls))
	return res, st.Inner, err
}

func describe(calls []call) string {
	if len(calls) == 1 {
		return fmt.Sprintf("%s %d B", calls[0].Op, calls[0].Bytes)
	}
	return fmt.Sprintf("a mix of %d collectives", len(calls))
}

func batches(res map[int]result) map[int][]float64 {
	m := map[int][]float64{}
	for r, v := range res {
		m[r] = v.BatchUs
	}
	return m
}

// row starts a row with what is known before measuring: names and the prediction. Beside are the units that run at the
// same time.
func (c *campaign) row(f family, u unit, s spec, eager bool, beside []unit) measured.ReportGroup {
	row := measured.ReportGroup{
		Kind: f.kind.String(), Members: u.ranks, Nodes: c.nodes(u.ranks), Op: s.op, Bytes: s.bytes, DType: s.dtype,
	}
	if row.DType == "" {
		row.DType = "bf16"
	}
	if eager {
		row.Launch = measured.LaunchEager
	}
	own := f.groups[u.group].find(s)
	if own != nil {
		row.Name = own.Name
	}
	if p := c.expect(own, u, s, eager, beside); p != nil {
		row.Predicted = measured.Predicted{Us: p.Us, P10Us: p.P10Us, P90Us: p.P90Us, Algorithm: p.Algorithm, Protocol: p.Protocol, Basis: p.Basis}
	}
	return row
}

// expect finds the prediction: the layout's own for its sizes launched from graphs with the siblings running; everything else
// from the predictor. A layout's number also stands for a group alone when nothing better is known.
func (c *campaign) expect(own *JobCollective, u unit, s spec, eager bool, beside []unit) *Prediction {
	layout := own != nil && own.Predicted != nil && !eager
	if layout && beside != nil {
		return own.Predicted
	}
	if c.predict != nil {
		q := Question{Op: s.op, Bytes: s.bytes, DType: s.dtype, Eager: eager, Members: u.ranks, Library: c.library}
		for _, b := range beside {
			if b.group != u.group || b.pair != u.pair {
				q.Siblings = append(q.Siblings, b.ranks)
			}
		}
		if p, ok := c.predict(q); ok {
			if own != nil && own.Kernel != "" {
				p.Basis += "; NCCL's, the layout priced another kernel (" + own.Kernel + ")"
			}
			return &p
		}
	}
	if layout {
		return own.Predicted
	}
	return nil
}

func (c *campaign) nodes(ranks []int) int {
	hosts := map[string]bool{}
	for _, r := range ranks {
		hosts[c.job.Ranks[r].Host] = true
	}
	return len(hosts)
}

// finish puts the measurement into the row and judges it.
func (c *campaign) finish(row *measured.ReportGroup, i int, s spec, u unit, res map[int]result) {
	row.Times = summarise(slowest(batches(res)))
	row.InPlace = inPlace(s.op)
	var wrong int64
	if k := c.checked[specKey(i, s)]; k != nil {
		row.Verified = true
		wrong = k.wrongOf(u.ranks)
		row.Wrong = wrong
		row.Choice = k.choiceOf(u.ranks)
	}
	rates(row, c.size(u, s))
	var p *Prediction
	if row.Predicted.Us > 0 {
		p = &Prediction{Us: row.Predicted.Us, P10Us: row.Predicted.P10Us, P90Us: row.Predicted.P90Us}
	}
	row.Verdict, row.Why = judge(row.Times, p, wrong)
	c.require.apply(row)
}

// size is the n of busbw: the members of the group, 2 for a pair.
func (c *campaign) size(u unit, s spec) int {
	if s.op == parallel.SendRecv {
		return 2
	}
	return len(u.ranks)
}

// mix times what one layer issues, all ranks together.
func (c *campaign) mix(ctx context.Context) error {
	for _, m := range mixes(c.fams) {
		var bytes int64
		for _, k := range m.calls {
			bytes = max(bytes, k.Bytes)
		}
		if c.tooLarge(spec{bytes: bytes}) != "" {
			continue
		}
		ranks := c.inAny()
		eager := !c.m.Graph
		pass, err := c.pilot(ctx, ranks, eager, m.calls...)
		if err != nil {
			return err
		}
		res, _, err := c.time(ctx, ranks, m.calls, eager, pass, c.m.NativeA2A)
		if err != nil {
			return err
		}
		row := measured.ReportMix{Phase: m.phase, Collectives: m.words, Times: summarise(slowest(batches(res)))}
		if eager {
			row.Launch = measured.LaunchEager
		}
		var p *Prediction
		if m.known && !eager {
			p = &m.expect
			row.Predicted = measured.Predicted{Us: p.Us, P10Us: p.P10Us, P90Us: p.P90Us}
		}
		row.Verdict, row.Why = judge(row.Times, p, 0)
		c.rep.Mix = append(c.rep.Mix, row)
	}
	return nil
}

// inAny lists the ranks that are in a family.
func (c *campaign) inAny() []int {
	in := map[int]bool{}
	for _, f := range c.fams {
		for _, r := range f.ranks() {
			in[r] = true
		}
	}
	var all []int
	for _, r := range c.s.all() {
		if in[r] {
			all = append(all, r)
		}
	}
	return all
}
