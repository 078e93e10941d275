// Package sysfs reads what the Linux kernel shows of a host under /sys: the PCI tree with links and NUMA nodes, the
// ports of InfiniBand and RoCE adapters, sockets, IOMMU groups and the ACS bits of PCIe bridges.
//
// What it promises: every file is read by itself and at most a few kilobytes of it, so an adapter whose driver answers
// with an error costs its own facts and no other's; PCI distances follow nvidia-smi's words (PIX, PXB, PHB, NODE, SYS);
// on a virtual machine with a flat tree distances are unknown, never far; what needs root and cannot be read is unknown,
// never "off".
//
// The root is an argument: Dir for a live system or a copy of one, FromFS for any fs.FS, ParseArchive for the text form
// that fixtures and captures hold.
//
//	res := sysfs.Read(sysfs.Dir("/sys"))
//	res.Apply(&node) // fills NUMA nodes, PCIe links, NICs and distances
package sysfs
