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

// The limits of a search for crossings: how near rates are brought together, into how many steps an interval of GPU counts
// is cut, how many changes one interval may hold, and how many values all intervals may cost (each has its share, and
// fewestSteps at least).
const (
	nearEnough  = 0.01
	countSteps  = 16
	maxInside   = 6
	maxSearched = 1200
	fewestSteps = 12
)

// sight is one thing that a sweep follows along the axis: the plan of a machine, or the best machine.
type sight struct {
	machine int // -1 = the best machine
	key     func(*point) (string, error)
}

// sights lists what is followed.
func (s *sweeper) sights() []sight {
	var out []sight
	for m := range s.machines {
		out = append(out, sight{m, func(pt *point) (string, error) {
			col, _, err := pt.column(m)
			if err != nil {
				return "", err
			}
			return label(col), nil
		}})
	}
	if len(s.machines) > 1 {
		out = append(out, sight{-1, s.winner})
	}
	return out
}

// crossings looks at every pair of neighbouring values, for each machine and for the best machine.
func (s *sweeper) crossings(points []*point) ([]Crossing, error) {
	sights := s.sights()
	n := len(points) - 1
	found := make([][]Crossing, n*len(sights))
	errs := make([]error, len(found))
	steps := max(fewestSteps, maxSearched/max(1, len(found)))
	s.p.each(len(found), func(i int) {
		found[i], errs[i] = s.inside(sights[i/n], points[i%n], points[i%n+1], steps)
	})
	out := []Crossing{}
	for i := range found {
		if errs[i] != nil {
			return nil, errs[i]
		}
		out = append(out, found[i]...)
	}
	return out, nil
}

// inside finds the changes between two neighbouring values at the price of so many values at most.
func (s *sweeper) inside(what sight, lo, hi *point, steps int) ([]Crossing, error) {
	var out []Crossing
	unit := s.unit(lo.v.Num, hi.v.Num)
	for n := 0; ; n++ {
		a, err := what.key(lo)
		if err != nil {
			return nil, err
		}
		b, err := what.key(hi)
		if err != nil {
			return nil, err
		}
		if a == b {
			return out, nil
		}
		left, right := lo, hi
		for steps > 0 && n < maxInside && s.axis.key.unit != word {
			mid, ok := s.between(left.v.Num, right.v.Num, unit)
			if !ok {
				break
			}
			steps--
			pt := s.at(-1, s.axis.key.at(mid))
			k, err := what.key(pt)
			if err != nil {
				return nil, err
			}
			if k == a {
				left = pt
			} else {
				right = pt
			}
		}
		x, err := s.crossing(what, left, right)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
		if right == hi {
			return out, nil
		}
		lo = right // the rest of the interval
	}
}

// unit is the step of counts inside an interval. Sizes of domains go by whole nodes. So do numbers of GPUs, in steps that
// divide both ends as well and cut the interval into sixteen at least where that can be: counts with fewer divisors than
// the ends have other plans for that alone, which say nothing about the size of a machine.
func (s *sweeper) unit(lo, hi float64) float64 {
	node := s.nodeGPUs()
	switch s.axis.Key {
	case "nvlink.domain":
		return node
	case "gpus":
		for k := math.Floor((hi - lo) / node / countSteps); k > 1; k-- {
			if u := k * node; math.Mod(lo, u) == 0 && math.Mod(hi, u) == 0 {
				return u
			}
		}
		return node
	}
	return 1
}

// between is a value in the middle of an interval that is still worth cutting: counts of GPUs and domain sizes go by
// units; other counts and rates stop at a hundredth.
func (s *sweeper) between(lo, hi, unit float64) (float64, bool) {
	if s.axis.key.unit != count {
		if hi <= lo*(1+nearEnough) {
			return 0, false
		}
		return tidy(math.Sqrt(lo * hi)), true
	}
	if s.axis.Key != "gpus" && s.axis.Key != "nvlink.domain" && hi <= lo*(1+nearEnough) {
		return 0, false
	}
	mid := math.Round((lo+hi)/2/unit) * unit
	if mid <= lo {
		mid = (math.Floor(lo/unit) + 1) * unit
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
func (s *sweeper) winner(pt *point) (string, error) {
	for i := range pt.slots {
		if _, _, err := pt.column(i); err != nil {
			return "", err
		}
	}
	if c := s.best(pt.all()); c != nil {
		return s.machines[c.index].Name, nil
	}
	return "no machine", nil
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

// crossing describes a change between two points.
func (s *sweeper) crossing(what sight, left, right *point) (x Crossing, err error) {
	lo, hi := left.v, right.v
	x = Crossing{Below: lo.Shown(), Above: hi.Shown()}
	if x.Before, err = what.key(left); err != nil {
		return x, err
	}
	if x.After, err = what.key(right); err != nil {
		return x, err
	}
	m := metricOf(s.p)
	at := s.axis.Key + " " + hi.Text
	if s.axis.key.unit == word {
		x.Below, x.Above = 0, 0
		x.Text = fmt.Sprintf("%s %s to %s: %s gives way to %s", s.axis.Key, lo.Text, hi.Text, x.Before, x.After)
	} else {
		x.Text = fmt.Sprintf("from %s on: %s (up to %s: %s)", at, x.After, lo.Text, x.Before)
	}
	var here *Column
	if what.machine >= 0 {
		x.Machine = s.machines[what.machine].Name
		x.Text = x.Machine + ": " + x.Text
		here = right.slots[what.machine].col
	} else {
		x.Text = "best machine " + x.Text
		here = s.best(right.all())
		x.Overlap = s.overlap(right.all())
		if x.Overlap {
			x.Text += "; the intervals of the two overlap"
		}
	}
	if here != nil && here.Predicted != nil {
		x.Metric = round(m.get(here), 5)
		x.Text += fmt.Sprintf("; %s %s", m.name, units.Signif(x.Metric, 4))
	}
	return x, nil
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
