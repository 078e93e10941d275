package collective

import (
	"math"

	"rankmap/collective/nccltune"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// choice names the algorithm and protocol that NCCL is expected to take: by NCCL's own tuning model where the machine is
// known well enough for it, else by the regime that the form is in. It does not set the time.
func (rt *route) choice(op parallel.Op, bytes units.Bytes) (algorithm, protocol string) {
	if op == parallel.AllToAll || op == parallel.SendRecv {
		return "p2p", "Simple" // NCCL's tuning does not cover them: grouped sends and receives
	}
	if rt.tuner != nil {
		if c, ok := rt.tuner.Choose(op, bytes); ok {
			return c.Algorithm.String(), c.Protocol.String()
		}
	}
	return rt.regime(op, float64(bytes))
}

// regime names what the form describes at a size.
func (rt *route) regime(op parallel.Op, bytes float64) (algorithm, protocol string) {
	protocol = nccltune.Simple.String()
	if bulkShare(bytes, rt.n, 1000*rt.pred.form.LinkGBps) < 0.5 {
		protocol = nccltune.LL.String()
	}
	algorithm = nccltune.Ring.String()
	switch {
	case op != parallel.AllReduce:
	case rt.net != nil:
		n, g := float64(rt.net.Nodes), float64(rt.net.PerNode)
		h := rt.net.Params.H
		tree := 2*(g-1)*h + 2*math.Log2(n)*rt.net.Fabric.AT
		ring := 2*(n*g-n)*h + 2*(n-1)*rt.net.Fabric.AR
		if rt.net.Nodes == 2 || (bytes < kneeFabric && tree < ring) {
			algorithm = nccltune.Tree.String()
		}
	case protocol == nccltune.Simple.String() && rt.pred.form.nvls(op, rt.n, rt.oneByte):
		algorithm = nccltune.NVLS.String()
	}
	return algorithm, protocol
}
