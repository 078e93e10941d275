// Package ncclxml reads and writes NCCL's topology XML: the files of NCCL_TOPO_DUMP_FILE (complete dumps) and of
// NCCL_TOPO_FILE (often made by hand by cloud vendors, with bus ids only).
//
// Read promises:
//   - one Host, with one topology.NodeClass, for each host hash of the file;
//   - what the file says and nothing more: a hand-made file does not state NVLink, so its wiring is NVLinkUnknown, an
//     empty link_speed is unknown and not Gen3, and in a virtual machine a flat PCI tree is an unknown distance;
//   - distances as NCCL counts them: two-level Broadcom switches are one (ncclTopoFlattenBcmSwitches in NCCL's
//     src/graph/topo.cc), PIX is one switch, PXB several, PHB the CPU, SYS another CPU element;
//   - every contradiction at once, as a warning with its line; what cannot be a topology is an error with its line.
//
// It does not open files, does not follow entities, and holds inputs to the limits of NCCL's own parser
// (src/graph/xml.h): values of 255 bytes, 16 attributes, 640 children.
//
// RCCL's files (version 2, xgmi elements) are read too and marked as AMD; NCCL itself refuses them.
//
// Write is the other direction: XML that NCCL takes through NCCL_TOPO_FILE and that reads back equal.
package ncclxml
