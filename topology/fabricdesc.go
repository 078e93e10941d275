package topology

import "rankmap/internal/units"

// FabricDesc is what one fabric file (ibnetdiscover, Slurm's topology.conf and topology.yaml, Topograph) says about the
// network between nodes. It is a plain statement of the file: nothing is filled in from other sources, and what the
// file does not state is zero. Names of switches are unique within it; hosts are in the order of CompareNames.
type FabricDesc struct {
	Source  string     // "ibnetdiscover:fabric.txt"
	Name    string     // name of the topology in a file that holds several (topology.yaml), else empty
	Plugin  string     // Slurm's word for its shape: tree, block, flat, ring, torus3d; empty otherwise
	Default bool       // the topology that holds for the whole cluster (cluster_default, or the only one)
	Kind    FabricKind // InfiniBand for ibnetdiscover, else unknown

	Hosts    []DescHost
	Switches []DescSwitch // by tier, then name
	Links    []DescLink   // between switches, by names
	Domains  []DescGroup  // NVLink domains that the file names, over hosts
	Blocks   []DescGroup  // Slurm blocks, rings, racks
	// BlockSizes are Slurm's planning sizes in nodes, ascending as written; nil when not stated.
	BlockSizes []int
	Loose      []DescHCA // adapters whose description names no host
}

// DescHost is one host on the fabric.
type DescHost struct {
	Name   string
	Leaf   string // the switch it hangs on; the first by name where adapters hang on several, empty when unknown
	Block  string // name in Blocks, empty when none
	Domain string // name in Domains, empty when none
	HCAs   []DescHCA
}

// DescHCA is one adapter port on the fabric.
type DescHCA struct {
	Name        string // "mlx5_5", "HCA-6"; empty when not stated
	GUID        string // hexadecimal without prefix and leading zeros
	Port        int
	Description string          // verbatim, where it names no host
	Rate        units.Bandwidth // one way; 0 unknown
	Leaf        string          // switch at the other end, empty when the port has no link
	LeafPort    int
}

// DescSwitch is one switch.
type DescSwitch struct {
	Name  string // unique in the description
	Label string // the real name where the file names switches by numbers (Topograph), else empty
	GUID  string
	Model string // "MQM9701"
	// Tier is 0 for a leaf (hosts hang on it), 1 for a spine, 2 for a core.
	Tier  int
	Hosts int // hosts and loose adapters that hang on it
	// Down and Up are the bandwidths one way of its links to hosts and lower tiers, and to higher tiers; 0 unknown or none.
	Down, Up units.Bandwidth
	// Oversubscription is Down/Up, 1 non-blocking; 0 where either is unknown or there is nothing above.
	Oversubscription float64
}

// DescLink is a bundle of equal parallel links between two switches.
type DescLink struct {
	A, B  string          // A is of the lower tier, or the first by name
	Count int             // parallel links; 1 where the file names only the relation
	Rate  units.Bandwidth // of one link, one way; 0 unknown
}

// DescGroup is a named set of hosts.
type DescGroup struct {
	Name  string
	Hosts []string // in the order of CompareNames
}

// TierKind is the kind of a switch by its tier.
func TierKind(tier int) SwitchKind {
	switch {
	case tier <= 0:
		return LeafSwitch
	case tier == 1:
		return SpineSwitch
	}
	return CoreSwitch
}
