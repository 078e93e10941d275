package hardware

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// maxProblems caps the problems that one error lists.
const maxProblems = 20

type problemList []error

func (l *problemList) addf(format string, args ...any) {
	if len(*l) < maxProblems {
		*l = append(*l, fmt.Errorf(format, args...))
	}
}

// check refuses profiles that the forms cannot be computed with.
func (p *CollectiveProfile) check(name string) error {
	var l problemList
	if p.System == "" {
		l.addf("%s: system: want the key of a datasheet", name)
	}
	if p.Source == "" {
		l.addf("%s: source: want where the numbers come from", name)
	}
	if p.Like != "" {
		if !slices.Contains([]string{"sibling", "generation"}, p.Relation) {
			l.addf("%s: relation: %q, want sibling or generation", name, p.Relation)
		}
		if p.Domain != nil || len(p.Curves) > 0 {
			l.addf("%s: like and a fit of its own exclude each other", name)
		}
		return errors.Join(l...)
	}
	if p.Link != "nvlink" && p.Link != "pcie" {
		l.addf("%s: link: %q, want nvlink or pcie", name, p.Link)
	}
	if !finite(p.LinkGBps) || p.LinkGBps <= 0 || p.LinkGBps > 1e5 {
		l.addf("%s: linkGBps: %v, want the one-way rate of a GPU's link", name, p.LinkGBps)
	}
	if p.NVLSFromRanks < 0 || p.Points < 0 {
		l.addf("%s: nvlsFromRanks and points cannot be negative", name)
	}
	if p.Domain == nil {
		l.addf("%s: domain: want the parameters of the form", name)
	} else {
		positive(&l, name+": domain", p.Domain)
		for _, v := range []float64{p.Domain.FAR, p.Domain.FAG, p.Domain.FA} {
			if v >= 1 {
				l.addf("%s: domain: a share f of %v, want less than 1", name, v)
			}
		}
	}
	for i := range p.Fabrics {
		if err := p.Fabrics[i].check(fmt.Sprintf("%s: fabrics[%d]", name, i)); err != nil {
			l.addf("%w", err)
		}
	}
	for i := range p.Curves {
		p.Curves[i].check(&l, fmt.Sprintf("%s: curves[%d]", name, i))
	}
	for i := range p.Custom {
		for j := range p.Custom[i].Curves {
			p.Custom[i].Curves[j].check(&l, fmt.Sprintf("%s: custom[%d].curves[%d]", name, i, j))
		}
	}
	for i := range p.Dispatch {
		p.Dispatch[i].Local.check(&l, fmt.Sprintf("%s: dispatch[%d]: local", name, i))
	}
	for i, b := range p.Bands {
		if !finite(b.Low) || !finite(b.High) || b.Low > b.High || b.Low < -10 || b.High > 10 || !slices.Contains([]string{"small", "mid", "large"}, b.Size) {
			l.addf("%s: bands[%d]: want low <= high within -10..10 and size small, mid or large", name, i)
		}
	}
	return errors.Join(l...)
}

func (c *Curve) check(l *problemList, at string) {
	if c.Op == "" || c.Ranks < 2 || len(c.Log2) == 0 || len(c.Log2) != len(c.R) || len(c.Log2) > 1000 {
		l.addf("%s: want op, ranks of at least 2 and as many r as log2", at)
		return
	}
	for i := range c.Log2 {
		if !finite(c.Log2[i]) || !finite(c.R[i]) || c.R[i] < -10 || c.R[i] > 10 || (i > 0 && c.Log2[i] <= c.Log2[i-1]) {
			l.addf("%s: point %d: want rising log2 and finite r within -10..10", at, i)
			return
		}
	}
}

// check refuses a correction that cannot be evaluated; nil is none.
func (c *LocalCorrection) check(l *problemList, at string) {
	if c == nil {
		return
	}
	bad := len(c.Log2) == 0 || len(c.Log2) > 1000 || len(c.Mean) != len(c.Log2) || len(c.Factors) > 20
	for i := range c.Log2 {
		bad = bad || !finite(c.Log2[i]) || i > 0 && c.Log2[i] <= c.Log2[i-1]
	}
	values := slices.Clone(c.Mean)
	for _, f := range c.Factors {
		bad = bad || len(f.Slope) != len(c.Log2) || !finite(f.Low) || !finite(f.High) || f.Low > f.High
		values = append(values, f.Slope...)
	}
	if bad || slices.ContainsFunc(values, func(v float64) bool { return !finite(v) || v < -10 || v > 10 }) {
		l.addf("%s: want rising log2, as many mean and slope as log2, all finite and within -10..10", at)
	}
}

func (p *FabricProfile) check(name string) error {
	var l problemList
	if p.Name == "" || p.Source == "" {
		l.addf("%s: want name and source", name)
	}
	positive(&l, name+": params", &p.Params)
	return errors.Join(l...)
}

// positive requires every float field of the struct behind v to be finite and above zero.
func positive(l *problemList, at string, v any) {
	s := reflect.ValueOf(v).Elem()
	for i := range s.NumField() {
		if s.Field(i).Kind() != reflect.Float64 {
			continue
		}
		if x := s.Field(i).Float(); !finite(x) || x <= 0 || x > 1e6 {
			l.addf("%s: %s: %v, want a number above 0", at, s.Type().Field(i).Tag.Get("yaml"), x)
		}
	}
}
