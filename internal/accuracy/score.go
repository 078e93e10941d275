package accuracy

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"rankmap/internal/units"
)

// Stats sums up the errors of some cases, in percent.
type Stats struct {
	N         int     `json:"n" yaml:"n"`
	MedianAPE float64 `json:"medianAPE" yaml:"medianAPE"`
	P90APE    float64 `json:"p90APE" yaml:"p90APE"`
	Bias      float64 `json:"bias" yaml:"bias"` // median of predicted/measured - 1
	Coverage  float64 `json:"coverage80" yaml:"coverage80"`
}

// Column picks one of the predictions.
type Column uint8

// The columns, in the order of the tables.
const (
	Textbook Column = iota
	NCCL
	Ours
)

// of is the prediction; 0 when there is none.
func (k Column) of(c *Case) units.Duration {
	switch k {
	case Textbook:
		return c.Textbook
	case NCCL:
		return c.NCCL
	}
	return c.Ours
}

// Score sums up one column. Cases without a prediction in it do not count; without any N is 0. Coverage is that of our
// own interval and 0 for the other columns.
func Score(cases []Case, k Column) Stats {
	apes, errs := make([]float64, 0, len(cases)), make([]float64, 0, len(cases))
	inside := 0
	for i := range cases {
		c := &cases[i]
		p := k.of(c)
		if p <= 0 {
			continue
		}
		e := float64(p/c.Measured) - 1
		errs = append(errs, e)
		apes = append(apes, math.Abs(e))
		if k == Ours && c.P10 <= c.Measured && c.Measured <= c.P90 {
			inside++
		}
	}
	s := Stats{N: len(apes)}
	if s.N == 0 {
		return s
	}
	sort.Float64s(apes)
	sort.Float64s(errs)
	s.MedianAPE = percent(quantile(apes, .5))
	s.P90APE = percent(quantile(apes, .9))
	s.Bias = percent(quantile(errs, .5))
	s.Coverage = percent(float64(inside) / float64(s.N))
	return s
}

// percent turns a share into percent with two digits after the point.
func percent(v float64) float64 { return math.Round(v*1e4) / 1e2 }

// quantile interpolates linearly between the two neighbours, as numpy does; v is sorted and not empty.
func quantile(v []float64, q float64) float64 {
	at := q * float64(len(v)-1)
	i := int(at)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}

// Key names a class of cases.
type Key struct {
	System     string
	Collective string
	Size       Size
	Nodes      int
	Ranks      int // 0 = all
}

// ByClass is the key of the JSON form: all group sizes together.
func ByClass(c *Case) Key { return Key{c.System, c.Collective, c.Size, c.Nodes, 0} }

// ByRanks tells group sizes apart as well.
func ByRanks(c *Case) Key { return Key{c.System, c.Collective, c.Size, c.Nodes, c.Ranks} }

// Class is some cases with one key.
type Class struct {
	Key
	Cases []Case
}

// Classes groups cases, sorted by key.
func Classes(cases []Case, key func(*Case) Key) []Class {
	at := map[Key]int{}
	var out []Class
	for i := range cases {
		k := key(&cases[i])
		j, ok := at[k]
		if !ok {
			j = len(out)
			at[k] = j
			out = append(out, Class{Key: k})
		}
		out[j].Cases = append(out[j].Cases, cases[i])
	}
	slices.SortFunc(out, func(a, b Class) int {
		return cmp.Or(cmp.Compare(a.System, b.System), cmp.Compare(a.Collective, b.Collective),
			cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Ranks, b.Ranks), cmp.Compare(a.Size, b.Size))
	})
	return out
}
