package topology

import (
	"strconv"

	"rankmap/internal/units"
)

// Shape is everything about a member list that the time of a collective depends on. Bandwidths are one way; 0 means
// none or unknown. It is a plain value: comparing, copying and making one allocates nothing.
type Shape struct {
	Ranks             int
	Nodes             int
	RanksPerNodeMin   int
	RanksPerNodeMax   int
	GPU               string // model of the members, of a mixed group the one with the slowest NVLink; empty unknown
	Mixed             bool   // the members are of different models
	DomainsKnown      bool   // false where no source can show NVLink; then the next three are 0
	Domains           int    // NVLink domains that the members sit in
	RanksPerDomainMin int
	RanksPerDomainMax int

	Wiring    NVLinkKind      // of the first member's node
	NVLink    bool            // in each domain, all members reach each other over NVLink; true for lone members too
	LinkBW    units.Bandwidth // slowest member's NVLink rate into its domain; without NVSwitch: to the other members
	PairBW    units.Bandwidth // slowest pair of members of one domain; 0 when some pair has no link, or one of unknown rate
	RingBW    units.Bandwidth // slowest link of the best single ring over a domain's members; with NVSwitch LinkBW
	Multicast bool            // every member sits behind NVSwitches that reduce in the switch

	PCIeUsed         bool            // some members of one node are joined over PCIe only
	PCIe             PathKind        // farthest of those distances; PathUnknown when none is known
	PCIeBW           units.Bandwidth // slowest host link of those members
	LeavesHostBridge bool            // the traffic passes a host bridge or the link between sockets
	PCIeIslandMax    int             // most members below one PCIe switch that must leave it together

	Network              bool // members sit at several endpoints
	Endpoints            int  // what the network joins: a rack with NVLink between its nodes counts once, else nodes
	RanksPerEndpointMin  int
	RanksPerEndpointMax  int
	NICBW                units.Bandwidth // NICs that serve the group at one endpoint, least over the endpoints
	NICPerGPU            units.Bandwidth // the same for one member, least over the endpoints
	NICs                 int             // how many NICs these are, least over the endpoints
	NICPath              PathKind        // farthest distance of a member to its NICs
	Fabric               FabricKind
	OneRail              bool    // one rail serves every member
	RailAligned          bool    // every endpoint brings the same rails, so that traffic can stay on them
	Leaves               int     // leaves that the members' nodes sit on; 0 unknown
	CrossLeaf            bool    // traffic passes a spine
	Oversubscription     float64 // product over the tiers passed; 1 none, 0 unknown
	UplinksLimit         bool    // leaf uplinks, not NICs, set NICBW
	Limit                Limit   // the slowest link, judged by what one member gets of it
	NICShare, LeafShare  int     // groups, this one included, on its busiest NIC and leaf
	PCIeShare, PortShare int     // groups on its busiest PCIe switch uplink and NVLink port
}

// LimitKind is what limits a group.
type LimitKind uint8

// The limits.
const (
	LimitNone   LimitKind = iota // one rank, or nothing known
	LimitNVLink                  // a GPU's links
	LimitPCIe                    // a GPU's host link, or the uplink of its PCIe switch
	LimitNIC                     // the NICs of an endpoint
	LimitLeaf                    // a leaf's uplinks
)

// Limit is the slowest link of a group. Cluster.LimitName puts it in words.
type Limit struct {
	Kind       LimitKind
	GPU        GPUID // the GPU whose link it is; for NICs and leaves a member of the endpoint
	Other      GPUID // the other end of an NVLink between two GPUs; else equal to GPU
	NIC        int32 // position in the node when it is a single NIC
	NICs       int32 // how many NICs
	Leaf       int32 // index in Leaves
	BW         units.Bandwidth
	perMember  units.Bandwidth
	unresolved bool // the rate is unknown
}

// narrow keeps the slower of two limits; an unknown rate counts as slower than any, since it must be asked for.
func (l *Limit) narrow(m Limit) {
	switch {
	case l.Kind == LimitNone:
		*l = m
	case l.unresolved:
	case m.unresolved || m.perMember < l.perMember:
		*l = m
	}
}

// LimitName puts a limit in words: "node0 NVSwitch 450 GB/s", "node3 NIC mlx5_1 50 GB/s".
func (c *Cluster) LimitName(l Limit) string {
	if l.Kind == LimitNone {
		return "none"
	}
	node := c.gpuNode[l.GPU]
	host := c.Nodes[node].Name
	rate := " " + l.BW.String()
	if l.unresolved {
		rate = " at an unknown rate"
	}
	k, _ := c.GPU(l.GPU)
	switch {
	case l.Kind == LimitNVLink && l.Other != l.GPU:
		return c.GPUName(l.GPU) + " to " + c.GPUName(l.Other) + " NVLink" + rate
	case l.Kind == LimitNVLink && k.Wiring == NVLinkSwitched:
		return host + " NVSwitch" + rate
	case l.Kind == LimitNVLink:
		return c.GPUName(l.GPU) + " NVLink" + rate
	case l.Kind == LimitPCIe:
		return c.GPUName(l.GPU) + " PCIe" + rate
	case l.Kind == LimitLeaf:
		return "leaf " + c.leaves[l.Leaf].name + " uplinks" + rate
	case l.NICs == 0:
		return host + " has no usable NIC"
	case c.domainOf != nil && c.domains[c.domainOf[l.GPU]].nodes > 1 && l.NICs > 1:
		if host = c.Nodes[node].Rack; host == "" {
			host = "NVLink domain " + strconv.Itoa(int(c.domainOf[l.GPU]))
		}
	case l.NICs == 1:
		return host + " NIC " + c.NICIdent(node, int(l.NIC)).Label() + rate
	}
	return host + " " + strconv.Itoa(int(l.NICs)) + " NICs" + rate
}
