package collective

import (
	"math"

	"rankmap/internal/hardware"
)

// Expert-parallel exchange over several nodes. Every GPU sends through a NIC of its own; what stays in the node goes over NVLink
// beside it and does not show. docs/collective-model.md, section 6.

// acrossNodes ends the mode of a record that was fitted over several nodes.
const acrossNodes = "_nodes"

// nodeVolume is the share of what a rank sends that leaves its node, uniform routing.
func nodeVolume(nodes int) float64 { return float64(nodes-1) / float64(nodes) }

// lowLatencyNodes is DeepEP's low-latency mode over nodes, us: every copy of a token goes by itself.
func lowLatencyNodes(k *hardware.DispatchKernel, x *Exchange) float64 {
	bytes := 2 * float64(x.Hidden)
	if x.Phase == "dispatch" {
		bytes = (1+scaleBytes)*float64(x.Hidden) + headerBytes
	}
	v := float64(x.Tokens) * float64(x.TopK) * bytes * nodeVolume(x.Nodes)
	return pnorm(k.B+k.C*math.Log2(float64(x.Nodes)), v/(1000*x.NICGBps*k.E), k.P)
}

// normalModeNodes is DeepEP's normal mode over nodes, us: a token crosses to each node once and is spread there; few SMs are slower
// than the NICs. The more nodes, the more the flows collide: the NICs' efficiency falls with a power of the nodes.
func normalModeNodes(k *hardware.DispatchKernel, x *Exchange) float64 {
	bytes := 2.0
	if x.Phase == "dispatch" {
		bytes = 1 + scaleBytes
	}
	token := float64(x.Tokens) * (float64(x.Hidden)*bytes + k.C0)
	nic := x.NICGBps * k.E * math.Pow(float64(x.Nodes)/2, -k.X)
	net := token * DistinctRanks(x.Nodes, x.TopK, x.Experts) * nodeVolume(x.Nodes) / (1000 * nic)
	sm := token * (DistinctRanks(x.Ranks, x.TopK, x.Experts) + k.A) / (1000 * float64(max(x.SMs, 1)) * k.R)
	return pnorm(k.B0+k.C*math.Log2(float64(x.Nodes)), norm4(net, sm), k.P)
}
