// Package nccltune repeats the choice that NCCL makes before every collective: which algorithm (ring, tree, NVLS, NVLS
// tree, CollNet, PAT) and which protocol (LL, LL128, Simple), from a table of one latency and one bandwidth for each
// combination. The time that NCCL predicts for itself comes with it, as a column to compare with; rankmap's own time does
// not use it.
//
// Facts: NVIDIA/nccl, src/graph/tuning.cc (constants and rules) and src/graph/search.cc (channel speeds), as of June 2026,
// described in words and numbers of our own. One set of constants serves all versions; what a version lacks (NVLS before
// 2.17, the NVLS tree before 2.18, PAT before 2.23) is not offered. NCCL searches its channels on the machine's graph; here
// they follow from the nominal rates of the links (see Group.channels), which gives the logged channels of the machines
// that were checked. There is no model of all-to-all and send/recv in NCCL.
//
//	t, err := nccltune.New(nccltune.Group{SM: 90, Ranks: 8, Nodes: 1, NVLinkGBps: 18 * 20.6, NVSwitch: true, Multicast: true})
//	c, ok := t.Choose(parallel.AllReduce, 1<<20) // c.Algorithm, c.Protocol, c.Time, c.Why
package nccltune
