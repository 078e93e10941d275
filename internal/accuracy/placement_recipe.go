package accuracy

import (
	"math"
	"path"
	"regexp"
	"strconv"
	"strings"

	"rankmap/internal/measured"
)

// A recipe of a deployment is written for a load. The rows give the range of users over all recipes that share a layout; the
// name of the file that the row was read from often says where in it that recipe lies:
//
//	ctx1_gen4_tep8_batch16_eplb0_mtp3_64   4 instances for decode, 16 sequences on each (tep, tp) or on each attention
//	                                       replica (dep, dp); 64 users in all where the last number stands
//	low-latency, max-tpt, mid-curve        the low end, the high end, the middle
//
// Where the name says nothing the row is one layout for a range, or for loads that nobody states.

// users is a load: requests in flight over a deployment, of which instances serve; 0 = not stated.
type users struct {
	total     float64 // over all instances
	instance  int     // on each instance for decode, where the name says that instead
	latency   bool    // a request alone
	instances float64 // for prefill, or of the kind that the row is; 0 = as the note counts them
}

var (
	trtRecipe  = regexp.MustCompile(`^(?:[a-z]+-|c\d+_)?ctx(\d+)(?:_pp\d+)?_gen(\d+)_(dep|tep|tp|dp)(\d+)_batch(\d+)_eplb\d+_mtp\d*(?:_(\d+))?\.ya?ml$`)
	lowRecipe  = regexp.MustCompile(`(?i)low[-_]?latency`)
	highRecipe = regexp.MustCompile(`(?i)(max[-_]?t(pt|hroughput)|ultra[-_]tpt|high[-_]conc|^max\.)`)
	midRecipe  = regexp.MustCompile(`(?i)(mid[-_.]|middle|balanced)`)
)

// wideRange is from which ratio of its ends on a range of users is more than one load.
const wideRange = 4

// loads lists the loads that a serving row may have been decided for, the likeliest first: one where the row or the name of
// its recipe tells, else the ends and the middle of the range, or a request alone and as many as fit.
func loads(p *measured.Placement) []users {
	if p.Concurrency > 0 || p.MicroBatch > 0 || p.Family() == "mlinf" {
		return []users{{}}
	}
	name := path.Base(p.Source)
	if m := trtRecipe.FindStringSubmatch(name); m != nil {
		n := func(i int) int { v, _ := strconv.Atoi(m[i]); return v }
		u := users{instance: n(5)}
		if m[3] == "dep" || m[3] == "dp" {
			u.instance *= n(4)
		}
		gen := float64(max(1, n(2)))
		u.total = gen * float64(u.instance)
		if t := n(6); t > 0 {
			u.total, u.instance = float64(t), max(1, int(math.Round(float64(t)/gen)))
		}
		if u.instances = gen; p.Task == "prefill" {
			u.instances = float64(max(1, n(1)))
		}
		return []users{u}
	}
	r := concurrencyNote.FindStringSubmatch(p.Note)
	if r == nil {
		return []users{{}, {latency: true}}
	}
	lo, _ := strconv.ParseFloat(r[1], 64)
	hi, _ := strconv.ParseFloat(r[2], 64)
	low, mid, high := users{total: lo}, users{total: math.Sqrt(lo * hi)}, users{total: hi}
	switch {
	case lowRecipe.MatchString(name):
		return []users{low}
	case highRecipe.MatchString(name):
		return []users{high}
	case midRecipe.MatchString(name) || hi <= wideRange*lo:
		return []users{mid}
	}
	return []users{mid, low, high}
}

// inFlight is how many requests of a load one instance holds; 0 = as many as fit.
func (u *users) inFlight(p *measured.Placement) int {
	switch {
	case p.Concurrency > 0:
		return p.Concurrency
	case p.MicroBatch > 0 && p.Family() != "mlinf": // there it is the engine's limit, not what runs
		return p.MicroBatch * p.GPUs
	case u.instance > 0:
		return u.instance
	case u.latency:
		return 1
	case u.total <= 0:
		return 0
	}
	return max(1, int(math.Round(u.total/u.of(p))))
}

// of is over how many instances of a row's kind the users of a load are spread.
func (u *users) of(p *measured.Placement) float64 {
	if u.instances > 0 {
		return u.instances
	}
	if n, ok := instanceCount(p.Note); ok {
		return n
	}
	return 1
}

// instanceCount is the geometric mean of the instance counts of a note.
func instanceCount(note string) (float64, bool) {
	n := instancesNote.FindStringSubmatch(note)
	if n == nil {
		return 0, false
	}
	sum, k := 0.0, 0.0
	for _, s := range strings.Split(n[1], ",") {
		if v, err := strconv.ParseFloat(s, 64); err == nil && v > 0 {
			sum, k = sum+math.Log(v), k+1
		}
	}
	return math.Exp(sum / max(k, 1)), k > 0
}
