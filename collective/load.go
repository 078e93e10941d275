package collective

import (
	"rankmap/internal/parallel"
)

// How busy a collective keeps the links it runs over. docs/collective-model.md, section 9.

// portShareBothWays is what an NVLink port brings of its rate while it is loaded both ways, whatever runs over it: send/recv of
// 1 GiB between two GPUs, which copies nothing at home, reaches 235 of 300 GB/s on A100 (published nccl-tests) and 358 of 450 on
// two H200 (own sweep).
const portShareBothWays = 0.79

// load is the time, us, for which a collective occupies each kind of link at the rate that the link brings when it is full.
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
	l.port = wire / (1000 * f.LinkGBps * f.fullShare(op, rt.n, rt.oneByte))
	return l
}

// fullShare is the share of the link that a full link brings. Over NVLink it belongs to the link: what one collective leaves of it
// (local copies, launches, too few channels) others can use. Where the switch reduces, or staging over PCIe is the limit, the
// operation's own bulk protocol says it.
func (d *domainForm) fullShare(op parallel.Op, n int, oneByte bool) float64 {
	p := d.Params
	switch {
	case d.nvls(op, n, oneByte):
		return p.EAR * p.G
	case d.LinkGBps >= pcieBelowGBps:
		return portShareBothWays
	}
	switch op {
	case parallel.AllReduce:
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
