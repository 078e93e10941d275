// Package fabric reads files about the network between nodes and about the adapters of one node:
//
//	ibnetdiscover   the InfiniBand fabric, blocks or one line a port (ibnetdiscover --ports)
//	slurm           topology.conf (tree, block) and topology.yaml
//	topograph       Topograph's models (YAML) and network graphs (JSON)
//	ibv, ibstat     the adapters of one host (ibv_devinfo, ibstat)
//	lspci           the PCI tree of one host (lspci -tv)
//
// The first three give a topology.FabricDesc, the others a topology.NodeClass with what the tool shows. A reader says
// what the file says: it completes no names and repairs no lists. What is odd but readable is in Result.Warnings, all
// of it, with lines; what cannot be such a file (a template, another tool's output, a cycle of switches) is an error,
// and all errors of a file come at once.
//
// The package opens no files and imports only the topology package.
package fabric
