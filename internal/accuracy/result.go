package accuracy

import (
	"cmp"
	"slices"
)

// Result is a confrontation.
type Result struct {
	Cases   []Case
	Skipped []Skipped
	// Training is the report on a table of training steps; nil without. Its points are among Cases.
	Training *Training
}

// Skipped counts the rows that were left out for one reason.
type Skipped struct {
	Reason string `json:"reason" yaml:"reason"`
	N      int    `json:"n" yaml:"n"`
}

// Summary is the machine-readable form; numbers are percent.
type Summary struct {
	All     Stats     `json:"all" yaml:"all"`
	Classes []Summed  `json:"classes" yaml:"classes"`
	Skipped []Skipped `json:"skipped" yaml:"skipped"`
	// Training is there for tables of training steps.
	Training *TrainingSummary `json:"training,omitempty" yaml:"training,omitempty"`
}

// Summed is one class of the machine-readable form.
type Summed struct {
	System     string  `json:"system" yaml:"system"`
	Collective string  `json:"collective" yaml:"collective"`
	SizeClass  Size    `json:"sizeClass" yaml:"sizeClass"`
	Nodes      int     `json:"nodes" yaml:"nodes"`
	N          int     `json:"n" yaml:"n"`
	MedianAPE  float64 `json:"medianAPE" yaml:"medianAPE"`
	P90APE     float64 `json:"p90APE" yaml:"p90APE"`
	Coverage   float64 `json:"coverage80" yaml:"coverage80"`
}

// Summary sums the result up.
func (r *Result) Summary() Summary {
	s := Summary{All: Score(r.Cases, Ours), Classes: []Summed{}, Skipped: r.Skipped}
	if s.Skipped == nil {
		s.Skipped = []Skipped{}
	}
	for _, c := range Classes(r.Cases, ByClass) {
		t := Score(c.Cases, Ours)
		s.Classes = append(s.Classes, Summed{c.System, c.Collective, c.Size, c.Nodes, t.N, t.MedianAPE, t.P90APE, t.Coverage})
	}
	if r.Training != nil {
		s.Training = r.Training.Summary()
	}
	return s
}

// skips counts reasons.
type skips map[string]int

// list returns them, most frequent first.
func (s skips) list() []Skipped {
	out := make([]Skipped, 0, len(s))
	for reason, n := range s {
		out = append(out, Skipped{reason, n})
	}
	slices.SortFunc(out, func(a, b Skipped) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Reason, b.Reason)) })
	return out
}
