// Package topology says what hardware there is and how far apart any two parts are: clusters, nodes, GPUs, NICs,
// switches, links, the bandwidth graph, NVLink domains, paths and the shape of a member list.
//
// It is pure: it takes values and io.Reader and returns values and error. It opens no file, reads no environment and
// never plans. One source each (topo -m, NCCL XML, NVML, sysfs, fabric files) lives in a sub-package that fills these
// types.
//
// A Cluster shares node classes: 12,500 equal nodes are one NodeClass and 12,500 small Node values, so that 100,000
// GPUs stay cheap. GPUs are numbered node-major: GPUID is a position in that order.
//
// # Making a cluster
//
// Preset and ReadYAML read documents; Replicate and FromNodes take what readers found, FromNodes together with a
// description of the network. All end in Cluster.Finish, which checks everything and derives the rest: the order of the
// nodes, the wiring, NVLink domains, nearest NICs, link rates.
//
//	c, err := topology.ReadYAML(f, "cluster.yaml", catalog)
//
// # Asking it
//
//   - Shaper.Shape: all that the time of a collective depends on, for one member list, without allocation; with Load
//     and ShapeLoaded for groups that run at once.
//   - Graph: the parts and wires of some nodes; Widest, Bottleneck, MinCut; Cluster.Loads.
//   - Findings: what is wrong with the machine, from one table.
//   - Fingerprint and Match: which nodes are equal up to numbering.
//   - NewView and WriteJSON: every node spelled out; NewDoc and WriteYAML: the compact form that reads back.
//
// # Changing it
//
// Edit returns a changed copy and the edit that takes the change back; Diff says what two clusters differ in.
//
// # What is never assumed
//
// Unknown stays unknown: a rate of 0, PathUnknown, Domains nil. A GPU alone is a domain; the number of GPUs in a node
// says nothing about NVLink.
package topology
