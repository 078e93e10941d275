package planner

import (
	"rankmap/internal/units"
	"rankmap/model"
	"rankmap/topology"
)

// wireBytes are the bytes of a collective on a group. Kernels that merge the copies of a token for one rank (DeepEP's normal
// mode, HybridEP) send it over the network once for each NVLink domain with some of its experts and pass it on inside over
// NVLink, so an exchange over several domains counts destinations in domains. Node-limited routing bounds them
// (DeepSeek-V3: 4 of 8 groups; arXiv 2412.19437, section 3.2.2). All else has the bytes that the model gives.
func wireBytes(c *topology.Cluster, members []topology.GPUID, op *model.CollectiveOp) units.Bytes {
	x := op.Exchange
	if x == nil || !x.Merged {
		return op.Bytes
	}
	seen := map[int]bool{}
	for _, id := range members {
		seen[c.DomainOf(id)] = true
	}
	n := len(seen)
	if n < 2 || n >= len(members) || n > x.Experts {
		return op.Bytes
	}
	to := min(float64(x.TopK), model.ExpectedDestinations(n, x.Experts, x.TopK))
	if x.TopGroups > 0 {
		to = min(to, float64(x.TopGroups))
	}
	return min(op.Bytes, units.Bytes(float64(x.TokensPerRank)*to*float64(x.BytesPerCopy)))
}
