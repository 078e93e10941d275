package planner

import (
	"rankmap/collective"
	"rankmap/internal/units"
	"rankmap/topology"
)

// WithLatency prices as p does, with the fixed time of collectives that leave their NVLink domain times factor: what they
// take at the smallest size is counted as latency, the rest as bandwidth.
func WithLatency(p collective.Pricer, c *topology.Cluster, factor float64) collective.Pricer {
	return &slower{p, c, factor}
}

type slower struct {
	p      collective.Pricer
	c      *topology.Cluster
	factor float64
}

// fixedBytes is the size at which a collective is all latency: nccl-tests' smallest.
const fixedBytes = 8

// Price implements collective.Pricer.
func (l *slower) Price(r collective.Request) (collective.Estimate, error) {
	e, err := l.p.Price(r)
	if err != nil || !l.crosses(r.Members) {
		return e, err
	}
	r.Bytes = fixedBytes
	fixed, err := l.p.Price(r)
	if err != nil {
		return e, err
	}
	add := units.Duration(l.factor-1) * min(fixed.Time, e.Time)
	e.Time, e.P10, e.P90 = e.Time+add, max(0, e.P10+add), e.P90+add
	return e, nil
}

// crosses says that members lie in several NVLink domains.
func (l *slower) crosses(members []topology.GPUID) bool {
	for _, id := range members[min(1, len(members)):] {
		if l.c.DomainOf(id) != l.c.DomainOf(members[0]) {
			return true
		}
	}
	return false
}
