package collective

import (
	"fmt"
	"math"
	"strings"

	"rankmap/internal/hardware"
	"rankmap/internal/units"
)

// Exchange is one expert-parallel dispatch or combine: what every rank sends of its tokens to the experts.
type Exchange struct {
	Phase   string // "dispatch", "combine", "combine_low_precision"
	Ranks   int    // of the expert-parallel group
	Tokens  int    // a rank
	Hidden  int    // width of a token
	TopK    int    // experts of a token
	Experts int    // in total
	SMs     int    // that the kernel may use (normal mode)
	// ValueBytes is a value of the hidden state on the wire, for kernels that send the engine's own type (NVLink): 2 for
	// bf16, 1 for fp8, 0.5625 for nvfp4 with its scales; 0 = the mode's own.
	ValueBytes float64
	// Nodes is how many NVLink domains the group spans evenly (0 and 1: one), NICGBps what one GPU's NICs bring, one way.
	Nodes   int
	NICGBps float64
	// Even says that every token's experts sit on as many ranks as possible, as benchmarks route; otherwise routing is uniform.
	Even bool
}

// copies is how many ranks a token goes to.
func (x *Exchange) copies() float64 {
	if x.Even {
		return float64(min(x.Ranks, x.TopK))
	}
	return DistinctRanks(x.Ranks, x.TopK, x.Experts)
}

// payload is what a rank's tokens take in bf16; intervals go by it.
func (x *Exchange) payload() units.Bytes { return 2 * units.Bytes(x.Tokens) * units.Bytes(x.Hidden) }

// scaleBytes is the share of fp8 payloads that their scales add: one 4-byte scale for 128 values.
const scaleBytes = 4.0 / 128

// headerBytes goes with every copy of a token in low-latency mode.
const headerBytes = 16

// DistinctRanks is the expected number of different ranks among a token's k of E experts, n ranks with E/n experts each,
// uniform routing: n (1 - C(E-E/n, k)/C(E, k)).
func DistinctRanks(n, k, experts int) float64 {
	if n < 1 || k < 1 || experts < k {
		return 0
	}
	here := float64(experts) / float64(n)
	miss := 1.0
	for i := range k {
		f := (float64(experts) - here - float64(i)) / float64(experts-i)
		miss *= math.Max(f, 0)
	}
	return float64(n) * (1 - miss)
}

// lowLatency is DeepEP's low-latency mode on one domain, us. docs/collective-model.md, section 6.
func lowLatency(k *hardware.DispatchKernel, x *Exchange, link float64, sms int) float64 {
	n, t, h := float64(x.Ranks), float64(x.Tokens), float64(x.Hidden)
	workers := float64(min(x.Experts, sms)) // few experts keep few SMs busy
	var w float64
	if x.Phase == "dispatch" {
		v := t * float64(x.TopK) * (h*(1+scaleBytes) + headerBytes) * (n - 1) / n
		w = norm4(v/(1000*link*k.E), math.Max(t/workers-1, 0)*k.Tok*h/4096)
	} else {
		v := t * float64(x.TopK) * h * 2 * (n - 1) / n
		w = v/(1000*link*k.E) + v/(1000*k.SMR*workers)
	}
	return pnorm(k.B+k.CE*float64(x.Experts), w, k.P)
}

// normalMode is DeepEP's normal mode on one domain, us: transmission and notification.
func normalMode(k *hardware.DispatchKernel, x *Exchange, link float64) float64 {
	n, h := float64(x.Ranks), float64(x.Hidden)
	bytes := 2.0
	if x.Phase == "dispatch" {
		bytes = 1 + scaleBytes
	}
	v := float64(x.Tokens) * (DistinctRanks(x.Ranks, x.TopK, x.Experts)*(n-1)/n + k.A) * (h*bytes + k.C0)
	w := v / 1000 * norm4(1/(float64(max(x.SMs, 1))*k.R), 1/(link*k.E))
	return pnorm(k.B0+k.B1*h/4096, w, k.P)
}

// oneSided is TensorRT-LLM's one-sided exchange, which writes into the peers' memory.
const oneSided = "NVLinkOneSided"

// nvlinkPut is the one-sided exchange over NVLink, us: what goes to other ranks, and beside it passes over the rank's own memory.
func nvlinkPut(k *hardware.DispatchKernel, x *Exchange, link, bytes float64) float64 {
	n := float64(x.Ranks)
	token := float64(x.Tokens) * (float64(x.Hidden)*bytes + k.C0) / (1000 * link)
	return pnorm(k.B+k.C*math.Log2(n), norm4(token*x.copies()*(n-1)/n/k.E, token*k.A), k.P)
}

// nvlinkMode is TensorRT-LLM's two-sided exchange over NVLink, us: every token is packed and unpacked once, beside its copies, which
// the switches of many ranks slow down.
func nvlinkMode(k *hardware.DispatchKernel, x *Exchange, link, bytes float64) float64 {
	n, t := float64(x.Ranks), float64(x.Tokens)
	copies := t * x.copies() * (float64(x.Hidden)*bytes + k.C0) / (1000 * link * k.E) * math.Pow(n/8, k.X)
	return pnorm(k.B+k.C*math.Log2(n), norm4(copies, t*k.A/1000*float64(x.Hidden)/7168), k.P)
}

// Dispatch prices an expert-parallel exchange of a mode ("low_latency", "normal", "nvlink") on the NVLink domains of a
// system: one, or as many as x says. kernel chooses among several of the mode ("NVLinkOneSided"); empty = the first. sms is the GPU's number of SMs.
// Errors: no such measurement.
func Dispatch(profiles *hardware.Profiles, system, mode, kernel string, x Exchange, sms int) (Estimate, error) {
	p := profiles.Collective(system)
	prov := Measured
	if p != nil && p.Like != "" {
		p, prov = profiles.Collective(p.Like), Sibling
	}
	if p == nil {
		return Estimate{}, fmt.Errorf("no collective profile of %s", system)
	}
	anyExperts := mode == "low_latency" && x.Nodes > 1 && x.Experts == 0 // over nodes the number of experts does not count
	if x.Ranks < 1 || x.Tokens < 0 || x.Hidden < 1 || x.TopK < 1 || x.Experts < x.TopK && !anyExperts {
		return Estimate{}, fmt.Errorf("exchange of %d tokens, top %d of %d experts on %d ranks: not possible", x.Tokens, x.TopK, x.Experts, x.Ranks)
	}
	link := "NVLink " + units.GBps(p.LinkGBps).String()
	if x.Nodes > 1 {
		if x.NICGBps <= 0 || x.Ranks < x.Nodes {
			return Estimate{}, fmt.Errorf("exchange of %d ranks over %d nodes: want the GPU's NIC rate and a rank or more a node", x.Ranks, x.Nodes)
		}
		mode += acrossNodes
		prov, link = max(prov, Network), "NIC "+units.GBps(x.NICGBps).String()+" a GPU"
	}
	if x.Ranks < 2 {
		return alone, nil
	}
	k := dispatchKernel(p, mode, kernel, x.Phase)
	wide := 1.0
	for i := 0; k == nil && i < len(p.Siblings); i++ { // the same links, the same library: a sibling's with a wider band
		if s := profiles.Collective(p.Siblings[i]); s != nil {
			k, prov, wide = dispatchKernel(s, mode, kernel, x.Phase), max(prov, Sibling), 2
		}
	}
	if k != nil {
		t := units.Micros(risingMicros(k, &x, p.LinkGBps, sms))
		e := Estimate{Time: t, Algorithm: "p2p", Protocol: strings.TrimSuffix(mode, acrossNodes), Bottleneck: link, Provenance: prov}
		b := kernelBand(k.Bands, "graph", x.payload())
		e.P10, e.P90 = logBand{wide * b.low, wide * b.high}.interval(t)
		if k.MaxNodes > 0 && x.Nodes > k.MaxNodes {
			e.P10, e.P90 = beyondReach.interval(t)
			e.Flags = append(e.Flags, fmt.Sprintf("extrapolated: %d nodes, measured up to %d; congestion beyond is not in the time", x.Nodes, k.MaxNodes))
		}
		if prov == Sibling || wide > 1 {
			e.Flags = append(e.Flags, "no measurements of "+system+": priced like its sibling")
		}
		return e, nil
	}
	where := ""
	if x.Nodes > 1 {
		where = " over several nodes"
	}
	return Estimate{}, fmt.Errorf("no measurements of %s %s on %s%s", strings.TrimSuffix(mode, acrossNodes), x.Phase, system, where)
}

// dispatchKernel finds a phase's record; nil if there is none.
func dispatchKernel(p *hardware.CollectiveProfile, mode, kernel, phase string) *hardware.DispatchKernel {
	for i := range p.Dispatch {
		if k := &p.Dispatch[i]; k.Mode == mode && k.Phase == phase && (kernel == "" || k.Kernel == kernel) {
			return k
		}
	}
	return nil
}

// formMicros evaluates the form of the kernel's mode, us.
func formMicros(k *hardware.DispatchKernel, x *Exchange, link float64, sms int) float64 {
	switch k.Mode {
	case "low_latency":
		return lowLatency(k, x, link, sms)
	case "normal":
		return normalMode(k, x, link)
	case "low_latency" + acrossNodes:
		return lowLatencyNodes(k, x)
	case "normal" + acrossNodes:
		return normalModeNodes(k, x)
	}
	bytes := valueOf(x)
	if k.Kernel == oneSided {
		return nvlinkPut(k, x, link, bytes)
	}
	return nvlinkMode(k, x, link, bytes)
}

// valueOf is a value of the hidden state on the wire, bytes, for kernels that send the engine's own type.
func valueOf(x *Exchange) float64 {
	switch {
	case x.ValueBytes > 0:
		return x.ValueBytes
	case x.Phase == "combine_low_precision":
		return 0.5
	}
	return 2
}
