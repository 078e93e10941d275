package accuracy

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"rankmap/internal/engine"
	"rankmap/internal/measured"
	"rankmap/internal/parallel"
	"rankmap/layout"
	"rankmap/model"
	"rankmap/planner"
)

// job is a placement as the planner understands it.
type job struct {
	row      *measured.Placement
	spec     *model.Spec
	site     *site
	work     layout.Workload
	strategy parallel.Strategy // as the row states it; expert-tp completed
	held     planner.Held      // of every candidate: what the row settles beside the degrees
	exact    planner.Held      // of the row itself: its virtual stages too
	copies   int               // redundant experts that the row states; 0 = none stated
	engine   string            // what ran it: only layouts and orders that it can express are compared; empty = not known
	others   []*job            // the same row under the other loads that it may have been decided for
}

// job reads a row. The error is a reason to skip it.
func (c *Placer) job(p *measured.Placement) (*job, error) {
	if len(p.Unclear) > 0 {
		return nil, fmt.Errorf("the row states no single number (%s)", strings.SplitN(p.Unclear[0], ":", 2)[0])
	}
	if p.GPUs == 0 || p.TP == 0 {
		return nil, errors.New("the row states no layout")
	}
	j := &job{row: p}
	var err error
	if j.spec, err = c.models.find(p); err != nil {
		return nil, err
	}
	if j.strategy, err = degrees(p, j.spec); err != nil {
		return nil, err
	}
	kernels := ""
	for _, e := range []string{"vllm", "sglang", "trtllm"} {
		if p.Task != "train" && (strings.Contains(p.Note, e+" recipe") || strings.Contains(p.Note, "backend "+e) || p.Family() == "mlinf" && e == "trtllm") {
			j.engine, kernels = e, e
		}
	}
	if j.site, err = c.site(p, kernels); err != nil {
		return nil, err
	}
	if p.Task == "train" {
		j.engine = "megatron"
		if err := j.training(); err != nil {
			return nil, err
		}
		// Megatron may count embedding and loss as layers of the pipeline (126 + 2 in 16 x 8 pieces); we cut layers alone.
		if v := j.exact.Interleave; v > 1 && v*j.strategy.PP > j.spec.Layers() {
			j.exact.Interleave = max(1, j.spec.Layers()/j.strategy.PP)
		}
		return j, nil
	}
	j.balance()
	return j, j.serving()
}

// degrees completes the degrees of a row: what it leaves blank is 1, data parallelism fills the GPUs, and the experts
// spread over attention data parallelism where the row says ep, else over tensor parallelism.
func degrees(p *measured.Placement, spec *model.Spec) (parallel.Strategy, error) {
	st := parallel.Strategy{TP: p.TP, PP: max(p.PP, 1), CP: max(p.CP, 1), EP: max(p.EP, 1), ExpertTP: 1}
	group := st.TP * st.PP * st.CP
	if p.GPUs%group != 0 {
		return st, errors.New("the row's degrees do not divide its GPUs")
	}
	st.DP = p.GPUs / group
	if !spec.MoE() {
		st.EP = 1
		return st, nil
	}
	ranks := st.StageRanks()
	switch {
	case ranks%st.EP != 0:
		return st, errors.New("the row's ep does not divide the GPUs of a stage")
	case p.Task != "train" && st.EP == 1 && p.DP > 1: // attention replicas that share experts cut by tensor parallelism
		st.ExpertTP = min(ranks, p.DP*st.TP)
	case p.Task != "train" && st.EP == 1:
		st.ExpertTP = st.TP
	case p.Task != "train" && st.EP < st.TP*st.CP && st.TP*st.CP%st.EP == 0:
		st.ExpertTP = st.TP * st.CP / st.EP
	}
	return st, nil
}

// balance adds the copies of experts that a serving row states, or, where ep does not divide its experts, the fewest that
// make it: an engine cannot run it otherwise.
func (j *job) balance() {
	n := j.spec.RoutedExperts()
	if n == 0 || j.strategy.EP == 1 {
		return
	}
	if m := copiesNote.FindStringSubmatch(j.row.Note); m != nil {
		if v, err := strconv.Atoi(m[1]); err == nil && v < n && (n+v)%j.strategy.EP == 0 {
			j.copies = v
		}
	}
	j.strategy.RedundantExperts = j.copies
	if rest := n % j.strategy.EP; j.copies == 0 && rest != 0 {
		j.strategy.RedundantExperts = j.strategy.EP - rest
	}
}

// serveTypes are weight and cache type of a serving precision; an empty weight type is what the configuration stores.
func serveTypes(precision string, spec *model.Spec) (weights, cache string) {
	s := strings.ToLower(precision)
	switch {
	case strings.Contains(s, "fp4"):
		if q := strings.ToLower(spec.Quant); !strings.Contains(q, "fp4") {
			weights = "nvfp4"
		}
		return weights, "fp8"
	case strings.Contains(s, "fp8"):
		if spec.Quant == "" || strings.Contains(strings.ToLower(spec.Quant), "fp4") {
			weights = "fp8"
		}
		return weights, "fp8"
	case strings.Contains(s, "int4"):
		return "int4", ""
	}
	return "", ""
}

var (
	concurrencyNote = regexp.MustCompile(`concurrency (\d+)-(\d+)`)
	copiesNote      = regexp.MustCompile(`redundant experts (\d+)`)
	instancesNote   = regexp.MustCompile(`instance counts ([\d,]+)`)
)

// serving fills the workload of an inference instance for each load that the row may have been decided for.
func (j *job) serving() error {
	p := j.row
	w := layout.Workload{Objective: string(planner.Throughput), ISL: p.ISL, OSL: p.OSL}
	switch p.Task {
	case "prefill":
		w.Task = string(planner.PrefillOnly)
	case "decode":
		w.Task = string(planner.DecodeOnly)
	case "serve":
		w.Task = string(planner.Serve)
	default:
		return fmt.Errorf("task %q is not known", p.Task)
	}
	if w.ISL == 0 {
		w.ISL = 4096
	}
	if w.OSL == 0 && w.Task != string(planner.PrefillOnly) {
		w.OSL = 1024
	}
	w.Weights, w.KVCache = serveTypes(p.Precision, j.spec)
	if p.Family() == "mlinf" {
		w.TTFTMs, w.TPOTMs = mlperfLimit(p.Model, p.Note)
	}
	if p.Family() == "dsv3" { // prefill in two overlapping batches, decode in five overlapping stages of two: stated by the source
		w.Overlap = true
	}
	for i, u := range loads(p) {
		x := *j
		x.work = w
		x.loaded(u)
		if i == 0 {
			*j = x
		} else {
			j.others = append(j.others, &x)
		}
	}
	return nil
}

// loaded completes the workload of a row for one load.
func (j *job) loaded(u users) {
	if j.work.Task == string(planner.PrefillOnly) {
		if u.latency || j.lightlyLoaded(u) {
			j.work.Batch, j.work.Objective = 1, string(planner.Latency)
		}
		return
	}
	j.work.Batch = u.inFlight(j.row)
	if u.latency {
		j.work.Objective = string(planner.Latency)
	}
	j.admit()
}

// A closed loop of C users, each of whom waits for osl tokens after his prompt, brings C/(osl x TPOT) prompts a second.
// speed is the tokens a second and user that is taken for decode, which a prefill row does not state: the middle of what
// such recipes aim at. Below half of what the row's layout prefills one prompt after the other, prompts seldom meet: what counts is
// the time to the first token of a single one. Above, it is throughput.
const (
	speed    = 50
	occupied = 0.5
)

// lightlyLoaded says that the prompts of a prefill row seldom meet under a load. False where no number of users is known.
func (j *job) lightlyLoaded(u users) bool {
	if u.total <= 0 || j.row.OSL == 0 {
		return false
	}
	k, err := j.site.ranking(j)
	if err != nil {
		return false
	}
	o, err := k.Price(j.strategy, planner.Held{}, 1)
	if err != nil {
		return false
	}
	return u.total/u.of(j.row)/float64(j.row.OSL)*speed*o.TTFT.Time.Seconds() < occupied
}

// mlperfLimits are the milliseconds to the first token and a token that MLPerf Inference allows in its Server and Interactive
// scenarios (99th percentile; MLCommons inference_policies, inference_rules.adoc, v5.1; MLCommons' and NVIDIA's accounts of
// v5.1, September 2025). Offline has none. We hold the means to them.
var mlperfLimits = []struct {
	model               string
	server, interactive [2]float64
}{
	{"llama3.1-405b", [2]float64{6000, 175}, [2]float64{4500, 80}},
	{"llama2-70b", [2]float64{2000, 200}, [2]float64{450, 40}},
	{"llama3.1-8b", [2]float64{2000, 100}, [2]float64{500, 30}},
	{"mixtral-8x7b", [2]float64{2000, 200}, [2]float64{}},
	{"deepseek-r1", [2]float64{2000, 80}, [2]float64{}},
}

// mlperfLimit is the limits of a row: to the first token, and a token; 0 = none.
func mlperfLimit(model, note string) (ttft, tpot float64) {
	for _, l := range mlperfLimits {
		switch {
		case !strings.HasPrefix(strings.ToLower(model), l.model):
		case strings.Contains(note, "Interactive"):
			return l.interactive[0], l.interactive[1]
		case strings.Contains(note, "Server"):
			return l.server[0], l.server[1]
		}
	}
	return 0, 0
}

// admit lowers the requests in flight to what the row's layout holds, halving: engines let the others wait.
func (j *job) admit() {
	if j.work.Batch <= j.strategy.DP {
		return
	}
	k, err := j.site.ranking(j)
	if err != nil {
		return
	}
	for b := j.work.Batch; b >= j.strategy.DP; b /= 2 {
		o, err := k.Price(j.strategy, planner.Held{}, b)
		if err != nil {
			return
		}
		if o.Memory.Total() <= k.Capacity() {
			j.work.Batch = b
			return
		}
	}
}

// ranking prices single layouts of a job.
func (s *site) ranking(j *job) (*planner.Ranking, error) {
	r := s.request(j.spec)
	r.Workload, r.GPUs = j.work, j.row.GPUs
	if j.engine != "" {
		s := engine.ServingOf(j.engine, "")
		r.Serving = &s
	}
	return planner.NewRanking(r)
}
