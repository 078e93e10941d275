package collective

import (
	"math"

	"rankmap/internal/hardware"
)

// param describes one unknown of a form: where it lives, what is believed before any data, and its bounds.
type param[P any] struct {
	name   string
	at     func(*P) *float64
	centre float64 // prior centre
	sigma  float64 // prior sigma of the logarithm (of the logit for shares)
	lo, hi float64 // bounds
	share  bool    // a share in (0, 1): fitted as logit
}

// domainParams lists the unknowns of the form inside a domain. Priors and bounds: docs/collective-model.md, section 11.
var domainParams = []param[hardware.DomainParams]{
	{"b", func(p *hardware.DomainParams) *float64 { return &p.B }, 6, .5, .5, 60, false},
	{"h", func(p *hardware.DomainParams) *float64 { return &p.H }, 1, .5, .1, 10, false},
	{"d", func(p *hardware.DomainParams) *float64 { return &p.D }, .2, .4, .01, 2, false},
	{"eLL", func(p *hardware.DomainParams) *float64 { return &p.ELL }, .35, .5, .02, 3, false},
	{"bS", func(p *hardware.DomainParams) *float64 { return &p.BS }, 12, .5, 1, 100, false},
	{"hS", func(p *hardware.DomainParams) *float64 { return &p.HS }, 2, 1, .05, 30, false},
	{"p", func(p *hardware.DomainParams) *float64 { return &p.P }, 1.2, .4, .5, 4, false},
	{"eAR", func(p *hardware.DomainParams) *float64 { return &p.EAR }, .75, .3, .02, 1.3, false},
	{"eAG", func(p *hardware.DomainParams) *float64 { return &p.EAG }, .75, .3, .02, 1.3, false},
	{"eRS", func(p *hardware.DomainParams) *float64 { return &p.ERS }, .75, .3, .02, 1.3, false},
	{"fAR", func(p *hardware.DomainParams) *float64 { return &p.FAR }, .4, .5, .001, .99, true},
	{"fAG", func(p *hardware.DomainParams) *float64 { return &p.FAG }, .5, .5, .001, .99, true},
	{"g", func(p *hardware.DomainParams) *float64 { return &p.G }, 1.15, .3, .5, 2, false},
	{"bN", func(p *hardware.DomainParams) *float64 { return &p.BN }, 80, .4, 5, 300, false},
	{"ba", func(p *hardware.DomainParams) *float64 { return &p.BA }, 7, .5, .5, 60, false},
	{"pa", func(p *hardware.DomainParams) *float64 { return &p.PA }, .3, .5, .005, 5, false},
	{"da", func(p *hardware.DomainParams) *float64 { return &p.DA }, .3, .5, .01, 3, false},
	{"eA", func(p *hardware.DomainParams) *float64 { return &p.EA }, .75, .3, .02, 1.3, false},
	{"fA", func(p *hardware.DomainParams) *float64 { return &p.FA }, .4, .5, .001, .99, true},
	{"rA", func(p *hardware.DomainParams) *float64 { return &p.RA }, 1, .5, .01, 5, false},
	{"q8", func(p *hardware.DomainParams) *float64 { return &p.Q8 }, 1.05, .1, .8, 2, false},
	{"xs", func(p *hardware.DomainParams) *float64 { return &p.XS }, .6, .3, .1, 1.5, false},
}

// fabricParams lists the unknowns of the form across nodes. Centres: NCCL's constants of a network hop (tuning.cc: 2.7 us by LL, 14 by
// Simple, 1 to 2 us that the transport adds) and of a sum without overlap; launch and all_to_all are RDMA's. Sigmas are ours.
var fabricParams = []param[hardware.FabricParams]{
	{"aT", func(p *hardware.FabricParams) *float64 { return &p.AT }, 4, .8, .5, 100, false},
	{"aR", func(p *hardware.FabricParams) *float64 { return &p.AR }, 4, .8, .5, 100, false},
	{"b0", func(p *hardware.FabricParams) *float64 { return &p.B0 }, 2.5, .3, .1, 500, false},
	{"aS", func(p *hardware.FabricParams) *float64 { return &p.AS }, 4.2, .4, .1, 50, false},
	{"s", func(p *hardware.FabricParams) *float64 { return &p.S }, 2.3, .5, 1, 12, false},
	{"k", func(p *hardware.FabricParams) *float64 { return &p.K }, kneeFabric, .5, 2048, 8388608, false},
	{"e", func(p *hardware.FabricParams) *float64 { return &p.E }, .95, .05, .1, 1, false},
	{"e1", func(p *hardware.FabricParams) *float64 { return &p.E1 }, .95, .15, .1, 1, false},
	{"p", func(p *hardware.FabricParams) *float64 { return &p.P }, 1, .2, .4, 3, false},
	{"ba", func(p *hardware.FabricParams) *float64 { return &p.BA }, 54, .5, 1, 500, false},
	{"pa", func(p *hardware.FabricParams) *float64 { return &p.PA }, .67, .7, .02, 30, false},
	{"ea", func(p *hardware.FabricParams) *float64 { return &p.EA }, .88, .2, .1, 1, false},
}

// toFit maps a parameter value to the unbounded scale it is fitted on.
func (q *param[P]) toFit(v float64) float64 {
	v = math.Min(math.Max(v, q.lo), q.hi)
	if q.share {
		return math.Log(v / (1 - v))
	}
	return math.Log(v)
}

// fromFit is the inverse of toFit.
func (q *param[P]) fromFit(x float64) float64 {
	if q.share {
		return 1 / (1 + math.Exp(-x))
	}
	return math.Exp(x)
}

// priorCentre returns the parameters believed before any data.
func priorCentre[P any](space []param[P]) P {
	var p P
	for i := range space {
		*space[i].at(&p) = space[i].centre
	}
	return p
}

// roundParams keeps four significant digits, which is more than any fit knows.
func roundParams[P any](space []param[P], p P) P {
	for i := range space {
		v := space[i].at(&p)
		*v = math.Min(math.Max(signif(*v, 4), space[i].lo), space[i].hi)
	}
	return p
}

// signif rounds to n significant digits.
func signif(v float64, n int) float64 {
	if v == 0 {
		return 0
	}
	s := math.Pow(10, float64(n-1)-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*s) / s
}

// decimals rounds to n digits after the point.
func decimals(v float64, n int) float64 {
	s := math.Pow(10, float64(n))
	return math.Round(v*s) / s
}
