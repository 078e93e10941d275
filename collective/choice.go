package collective

import (
	"math"

	"rankmap/internal/parallel"
)

// choice names the algorithm and protocol of the regime that the form is in; it does not set the time.
func (rt *route) choice(op parallel.Op, bytes float64) (algorithm, protocol string) {
	protocol = "Simple"
	if bulkShare(bytes, rt.n, 1000*rt.pred.form.LinkGBps) < 0.5 {
		protocol = "LL"
	}
	switch op {
	case parallel.AllToAll, parallel.SendRecv:
		return "p2p", "Simple"
	case parallel.AllReduce:
	default:
		return "ring", protocol
	}
	if rt.net != nil {
		n, g := float64(rt.net.Nodes), float64(rt.net.PerNode)
		h := rt.net.Params.H
		tree := 2*(g-1)*h + 2*math.Log2(n)*rt.net.Fabric.AT
		ring := 2*(n*g-n)*h + 2*(n-1)*rt.net.Fabric.AR
		if rt.net.Nodes == 2 || (protocol == "LL" && tree < ring) {
			return "tree", protocol
		}
		return "ring", protocol
	}
	if protocol == "Simple" && rt.pred.form.nvls(op, rt.n, rt.oneByte) {
		return "nvls", "Simple"
	}
	return "ring", protocol
}
