package collective

import (
	"rankmap/internal/parallel"
)

// How busy a collective keeps the links it runs over. docs/collective-model.md, section 9.

// load is the time, us, for which a collective occupies each kind of link at that link's bulk efficiency.
type load struct {
	port float64 // a member's NVLink port, or its PCIe way where NVLink does not join the members
	nic  float64 // the NICs of an endpoint
}

// load works it out for one collective of the group.
func (rt *route) load(op parallel.Op, bytes float64) load {
	var l load
	f := &rt.pred.form
	inside := rt.n
	if rt.net != nil {
		l.nic = rt.net.nicMicros(op, bytes)
		inside = rt.net.PerNode
	}
	if inside < 2 || rt.net != nil && op == parallel.SendRecv {
		return l
	}
	wire := wireBytes(op, rt.n, bytes)
	if rt.net != nil && op == parallel.AllToAll {
		wire = bytes * float64(inside-1) / float64(rt.n)
	}
	l.port = wire / (1000 * f.LinkGBps * f.bulkEfficiency(op, rt.n, rt.oneByte))
	return l
}

// bulkEfficiency is the share of the link that the operation's bulk protocol uses.
func (d *domainForm) bulkEfficiency(op parallel.Op, n int, oneByte bool) float64 {
	p := d.Params
	switch op {
	case parallel.AllReduce:
		if d.nvls(op, n, oneByte) {
			return p.EAR * p.G
		}
		return p.EAR
	case parallel.AllGather:
		return p.EAG
	case parallel.AllToAll, parallel.SendRecv:
		return p.EA
	}
	return p.ERS
}

// slowdown is how many times as long a collective takes that keeps a link busy for the share own of its time alone, while
// others keep it busy for the share others of theirs. It is 1 while nothing else runs, and own+others far beyond a full link;
// between them the fourth powers add up, like the times of link.go that run beside each other.
func slowdown(own, others float64) float64 {
	if others <= 0 {
		return 1
	}
	return root4(1 + pow4(own+others) - pow4(own))
}
