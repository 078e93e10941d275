package planner

import (
	"context"
	"fmt"
)

// trim is how many GPUs of each NVLink domain a plan takes where the size of the domains divides badly: 64 of the 72 of a rack. 0
// where the largest domain is as round as it can be.
func (s *search) trim() int {
	if s.domains == nil {
		s.domains = s.ownDomains()
		most := 0
		for _, d := range s.domains {
			most = max(most, d)
		}
		if b := roundest(most); b < most {
			s.block = b
		}
	}
	return s.block
}

// ownDomains are the usable GPUs of each NVLink domain.
func (s *search) ownDomains() []int {
	var out []int
	for i, id := range s.base.gpus {
		if i == 0 || s.Cluster.DomainOf(id) != s.Cluster.DomainOf(s.base.gpus[i-1]) {
			out = append(out, 0)
		}
		out[len(out)-1]++
	}
	return out
}

// trimmed is the number of GPUs, at most n, when every domain gives whole blocks of trim alone; 0 = no such number. The rest of each
// domain stays idle, and counts in per-GPU figures.
func (s *search) trimmed(n int) int {
	b := s.trim()
	if b == 0 {
		return 0
	}
	m := 0
	for _, d := range s.domains {
		m += d / b * b
	}
	return min(m, n/b*b)
}

// trimmedSeating is the list of n GPUs with the same share of every domain; nil where n is not trimmed or the shares do not repeat.
func (s *search) trimmedSeating(n int) *seating {
	if n == len(s.base.gpus) || n != s.trimmed(s.most()) {
		return nil
	}
	if t := s.pack(n, s.block); t.period < n {
		return t
	}
	return nil
}

// betterTrimmed says what leaving a part of each domain idle would win over a plan of an exact number of GPUs; empty when nothing, or
// when all domains are round. Cost: one search, where the domains are not.
func (s *search) betterTrimmed(ctx context.Context, p *Plan) string {
	n := s.trimmed(s.GPUs)
	if n == 0 || n == s.GPUs || 4*n < 3*s.GPUs || p.Stopped || Objective(s.Workload.Objective) == MinGPUs {
		return ""
	}
	r := s.Request
	r.GPUs, r.Budget, r.BestOnly, r.Top, r.Progress, r.exactly = 0, s.GPUs, true, 1, nil, n
	q, err := Search(ctx, r)
	if err != nil || q.Stopped {
		return ""
	}
	gain := p.Best.CostRatio(q.Best) - 1
	if gain < minTrimGain {
		return ""
	}
	return fmt.Sprintf("%d of the %d GPUs, %d of each NVLink domain, would cost %.1f %% less with the others idle: --gpus %d (%s)",
		n, s.GPUs, s.trim(), 100*(1-1/(1+gain)), n, q.Best.Strategy)
}

// minTrimGain is the gain from which on idle GPUs are proposed.
const minTrimGain = 0.01
