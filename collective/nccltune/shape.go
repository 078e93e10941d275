package nccltune

import (
	"fmt"

	"rankmap/internal/hardware"
	"rankmap/topology"
)

// GroupOf translates the shape of a member list. gpu is the datasheet of the members; minor is the 28 of NCCL 2.28, 0 for
// the newest. SHARP is taken as absent and the CPUs as Intel, which is what decides nothing unless stated: set the fields
// of the result otherwise. Nodes are network endpoints, so that an NVLink rack counts as one, as NCCL does.
func GroupOf(s topology.Shape, gpu *hardware.GPU, minor int) (Group, error) {
	if gpu == nil {
		return Group{}, fmt.Errorf("the members' GPU is not known")
	}
	g := Group{SM: gpu.SM, Ranks: s.Ranks, Nodes: max(s.Endpoints, 1), Minor: minor, PCIeGBps: PCIeGBps(gpu.PCIeGen)}
	if s.NVLink && s.LinkBW > 0 && gpu.NVLinkGBps > 0 {
		g.NVLinkGBps = s.LinkBW.GBps() / gpu.NVLinkGBps * NVLinkGBps(gpu.SM) // links x what NCCL counts for one
	}
	g.NVSwitch = s.Wiring == topology.NVLinkSwitched
	g.Multicast = s.Multicast
	if s.Network && s.NICs > 0 {
		g.NICs = s.NICs
		g.NICGBps = s.NICBW.GBps() / float64(s.NICs)
	}
	return g, g.check()
}
