package whatif

import (
	"fmt"
	"math"

	"rankmap/internal/units"
)

// Crossing is where the best plan of a machine, or the best machine, changes.
type Crossing struct {
	Machine string  `yaml:"machine,omitempty" json:"machine,omitempty"` // empty: between machines
	Below   float64 `yaml:"below" json:"below"`                         // the last value where Before is best, in the axis' unit
	Above   float64 `yaml:"above" json:"above"`                         // the first where it is not
	Before  string  `yaml:"before" json:"before"`
	After   string  `yaml:"after" json:"after"`
	Metric  float64 `yaml:"metric,omitempty" json:"metric,omitempty"` // at Above
	Overlap bool    `yaml:"overlap,omitempty" json:"overlap,omitempty"`
	Text    string  `yaml:"text" json:"text"`
}

// The limits of a search for crossings: how near rates are brought together, how many changes one interval may hold, and
// how many plans all intervals may cost.
const (
	nearEnough  = 0.01
	maxInside   = 6
	maxSearched = 600
)

// crossings looks at every pair of neighbouring values, for each machine and for the best machine.
func (s *sweeper) crossings(points [][]*Column) ([]Crossing, error) {
	out := []Crossing{}
	for m := range s.machines {
		found, err := s.along(points, m, func(cols []*Column) string { return label(cols[m]) })
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	if len(s.machines) > 1 {
		found, err := s.along(points, -1, s.winner)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// along follows one key over the axis. machine is -1 for the best machine.
func (s *sweeper) along(points [][]*Column, machine int, key func([]*Column) string) ([]Crossing, error) {
	var out []Crossing
	for i := 1; i < len(points); i++ {
		lo, hi := s.axis.Values[i-1], s.axis.Values[i]
		a, b := points[i-1], points[i]
		for n := 0; key(a) != key(b); n++ {
			x, y, left, right := lo, hi, a, b
			if s.axis.key.unit != word && n < maxInside {
				var err error
				if x, y, left, right, err = s.bisect(lo, hi, a, b, key); err != nil {
					return nil, err
				}
			}
			out = append(out, s.crossing(machine, x, y, left, right, key))
			if n >= maxInside || y.Num >= hi.Num {
				break
			}
			lo, a = y, right // the rest of the interval
		}
	}
	return out, nil
}

// bisect finds neighbours lo' < hi' inside an interval with key(lo') = key(lo) and key(hi') another one.
func (s *sweeper) bisect(lo, hi Setting, a, b []*Column, key func([]*Column) string) (x, y Setting, left, right []*Column, err error) {
	want := key(a)
	for s.count < maxSearched {
		mid, ok := s.between(lo.Num, hi.Num)
		if !ok {
			break
		}
		v := s.axis.key.at(mid)
		cols, err := s.at(-1, v)
		if err != nil {
			return lo, hi, a, b, err
		}
		if key(cols) == want {
			lo, a = v, cols
		} else {
			hi, b = v, cols
		}
	}
	return lo, hi, a, b, nil
}

// between is a value in the middle of an interval that is still worth cutting. Numbers of GPUs and domain sizes go by
// whole nodes; other counts and rates stop at a hundredth.
func (s *sweeper) between(lo, hi float64) (float64, bool) {
	if s.axis.key.unit != count {
		if hi <= lo*(1+nearEnough) {
			return 0, false
		}
		return tidy(math.Sqrt(lo * hi)), true
	}
	step := 1.0
	if s.axis.Key == "gpus" || s.axis.Key == "nvlink.domain" {
		step = s.nodeGPUs()
	} else if hi <= lo*(1+nearEnough) {
		return 0, false
	}
	mid := math.Round((lo+hi)/2/step) * step
	if mid <= lo {
		mid = (math.Floor(lo/step) + 1) * step
	}
	return mid, mid > lo && mid < hi
}

// tidy keeps four digits, so that a bisected rate reads well.
func tidy(v float64) float64 { return round(v, 4) }

// nodeGPUs is the largest node of all machines.
func (s *sweeper) nodeGPUs() float64 {
	n := 1
	for i := range s.machines {
		for j := range s.machines[i].Cluster.Classes {
			n = max(n, len(s.machines[i].Cluster.Classes[j].GPUs))
		}
	}
	return float64(n)
}

// winner names the best machine.
func (s *sweeper) winner(cols []*Column) string {
	if c := s.best(cols); c != nil {
		return s.machines[c.index].Name
	}
	return "no machine"
}

func (s *sweeper) best(cols []*Column) *Column {
	m := metricOf(s.p)
	var best *Column
	for _, c := range cols {
		if c.Predicted == nil {
			continue
		}
		if best == nil || m.larger && m.get(c) > m.get(best) || !m.larger && m.get(c) < m.get(best) {
			best = c
		}
	}
	return best
}

// crossing describes a change between two values.
func (s *sweeper) crossing(machine int, lo, hi Setting, a, b []*Column, key func([]*Column) string) Crossing {
	x := Crossing{Below: lo.Shown(), Above: hi.Shown(), Before: key(a), After: key(b)}
	m := metricOf(s.p)
	at := s.axis.Key + " " + hi.Text
	if s.axis.key.unit == word {
		x.Below, x.Above = 0, 0
		x.Text = fmt.Sprintf("%s %s to %s: %s gives way to %s", s.axis.Key, lo.Text, hi.Text, x.Before, x.After)
	} else {
		x.Text = fmt.Sprintf("from %s on: %s (up to %s: %s)", at, x.After, lo.Text, x.Before)
	}
	var here *Column
	if machine >= 0 {
		x.Machine = s.machines[machine].Name
		x.Text = x.Machine + ": " + x.Text
		here = b[machine]
	} else {
		x.Text = "best machine " + x.Text
		here = s.best(b)
		x.Overlap = s.overlap(b)
		if x.Overlap {
			x.Text += "; the intervals of the two overlap"
		}
	}
	if here != nil && here.Predicted != nil {
		x.Metric = round(m.get(here), 5)
		x.Text += fmt.Sprintf("; %s %s", m.name, units.Signif(x.Metric, 4))
	}
	return x
}

// overlap says that the 80 % intervals of the best two machines overlap, so that the order may be the other one.
func (s *sweeper) overlap(cols []*Column) bool {
	best := s.best(cols)
	if best == nil {
		return false
	}
	var rest []*Column
	for _, c := range cols {
		if c != best {
			rest = append(rest, c)
		}
	}
	second := s.best(rest)
	if second == nil {
		return false
	}
	lo, hi := Interval(best, metricOf(s.p).name)
	lo2, hi2 := Interval(second, metricOf(s.p).name)
	return lo <= hi2 && lo2 <= hi
}

// Interval is the 80 % interval of a figure, from the step's: rates by its inverse.
func Interval(c *Column, name string) (lo, hi float64) {
	p := c.Predicted
	if p == nil || p.StepMs == 0 {
		return 0, 0
	}
	short, long := p.StepP10Ms/p.StepMs, p.StepP90Ms/p.StepMs
	switch name {
	case "tokensPerSecondPerGpu":
		return p.TokensPerSecondPerGPU / long, p.TokensPerSecondPerGPU / short
	case "ttftMs":
		return p.TTFTMs * short, p.TTFTMs * long
	case "tpotMs":
		return p.TPOTMs * short, p.TPOTMs * long
	}
	return p.StepP10Ms, p.StepP90Ms
}
