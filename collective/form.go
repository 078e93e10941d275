package collective

import (
	"math"

	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
)

// Constants of the form that no fit touches.
const (
	crossoverUs   = 1.56  // us x ranks x link: where NCCL's constants make LL and Simple equal (tuning.cc, June 2026: (1.8+2.8k) n/k over 1/B_LL - 1/B)
	kneeLatency   = 8192  // bytes: middle of the latency growth while channels open
	kneeA2A       = 65536 // bytes: the same for all_to_all
	kneeRamp      = 8.4e6 // bytes: end of all_to_all's slow start
	kneeNVLS      = 6.7   // us x link: middle of NVLS start-up on 8 ranks
	nvlsRanks     = 8     // ranks to which bN refers
	pcieBelowGBps = 100   // a domain whose link is slower than this is PCIe
)

// domainForm is one NVLink or PCIe domain as the form sees it.
type domainForm struct {
	Params    *hardware.DomainParams
	LinkGBps  float64 // one way a GPU
	Multicast bool    // NVSwitch reduces in the switch
	NVLSFrom  int     // smallest group that uses it; 0 = 8
}

// pow4 is x to the fourth.
func pow4(x float64) float64 { x *= x; return x * x }

// pnorm is (a^p + b^p)^(1/p) of two non-negative numbers without overflow.
func pnorm(a, b, p float64) float64 {
	if a < b {
		a, b = b, a
	}
	if b <= 0 {
		return a
	}
	return a * math.Pow(1+math.Pow(b/a, p), 1/p)
}

// hops counts the serial steps of a ring.
func hops(op parallel.Op, n int) float64 {
	if op == parallel.AllReduce {
		return float64(2 * (n - 1))
	}
	return float64(n - 1)
}

// nvls says whether the group reduces in the switch.
func (d *domainForm) nvls(op parallel.Op, n int, oneByte bool) bool {
	from := d.NVLSFrom
	if from == 0 {
		from = nvlsRanks
	}
	return op == parallel.AllReduce && d.Multicast && n >= from && !oneByte
}

// Micros is the time of one collective on n ranks of the domain, in us, launched from a graph or by one process without
// host floor. bytes follow nccl-tests. oneByte marks one-byte element types. n < 2 takes no time.
//
// Form: docs/collective-model.md, section 2. The operations that it leaves out are derived: broadcast and reduce are pipelined
// chains in which every byte crosses one rank's link once; send/recv over NVLink stands in pointtopoint.go, over PCIe it is an
// all_to_all of two ranks without the part that stays at home.
func (d *domainForm) Micros(op parallel.Op, n int, bytes float64, oneByte bool) float64 {
	if n < 2 {
		return 0
	}
	p := d.Params
	link := 1000 * d.LinkGBps // bytes/us
	scaled := link
	if d.LinkGBps < pcieBelowGBps && n > 2 {
		scaled *= p.XS
	}
	switch op {
	case parallel.AllToAll:
		return d.exchange(n, bytes, p.FA, scaled)
	case parallel.SendRecv:
		if d.LinkGBps >= pcieBelowGBps {
			return d.sendRecv(bytes)
		}
		return d.exchange(2, 2*bytes, 0, scaled)
	}
	u, w := float64(n-1)/float64(n), 1.0
	b, e, f := p.B, p.EAG, p.FAG
	switch op {
	case parallel.AllReduce:
		e, f, w = p.EAR, p.FAR, 2
	case parallel.ReduceScatter:
		e = p.ERS
	case parallel.Broadcast:
		b, e, f, u = broadcastLaunch*p.B, p.ERS, 0, 1
	case parallel.Reduce:
		e, f, u = p.ERS, 0, 1
	}
	k := hops(op, n)
	nvls := d.nvls(op, n, oneByte)
	if nvls {
		e, f = e*p.G, 0
	}
	bw := bytes * w * ((1-f)*u + f) / (scaled * e)
	if oneByte && typed(op) {
		bw *= p.Q8
	}
	ll := (b+p.H*k)*(1+p.D*bytes/(bytes+kneeLatency)) + bytes*w*u/(scaled*p.ELL)
	if bytes <= 0 {
		return ll
	}
	var si float64
	if nvls {
		r := float64(n) / nvlsRanks
		si = p.BN*r*bytes/(bytes+kneeNVLS*link*r) + bw
	} else {
		si = pnorm(p.BS+p.HS*k, bw, p.P)
	}
	s := bulkShare(bytes, n, link)
	if s <= 0 {
		return ll
	}
	if s >= 1 || si <= 0 {
		return si
	}
	return ll * math.Pow(si/ll, s)
}

// bulkLatency is what the bulk protocol takes longer than the low-latency one to start and to pass through some serial steps, us.
func bulkLatency(p *hardware.DomainParams, steps float64) float64 {
	return math.Max(p.BS-p.B+(p.HS-p.H)*steps, 0)
}

// broadcastLaunch is a broadcast's launch against that of all_gather (7.4 against 9.0 us on 2 A100, 8.3 against 10.0 on
// 2 H200).
const broadcastLaunch = 0.75

// exchange is the form of all_to_all, with a local share f. Over NVLink its channels bound it as well (pointtopoint.go).
func (d *domainForm) exchange(n int, bytes, f, scaled float64) float64 {
	p := d.Params
	u := float64(n-1) / float64(n)
	bw := bytes * u / (scaled * p.EA)
	if d.LinkGBps >= pcieBelowGBps {
		bw = norm8(bw, bytes*u/(1000*channelGBps*remoteChannels(n, bytes)))
	}
	bw += bytes * f * (1 - u) / (scaled * p.EA)
	return (p.BA+p.PA*float64(n-1))*(1+p.DA*bytes/(bytes+kneeA2A)) + bw*(1+p.RA/(1+bytes/kneeRamp))
}

// bulkShare is how far the bulk protocol has taken over: 0 below the crossover, 1/2 at it, 1 above.
func bulkShare(bytes float64, n int, link float64) float64 {
	x := pow4(bytes / (crossoverUs * float64(n) * link))
	if math.IsInf(x, 1) {
		return 1
	}
	return x / (1 + x)
}
