package nccltune

// Algorithm is how NCCL routes a collective.
type Algorithm uint8

// The algorithms, in NCCL's order, which decides ties.
const (
	Tree Algorithm = iota
	Ring
	CollNetDirect
	CollNetChain
	NVLS
	NVLSTree
	PAT
	numAlgorithms
)

var algorithmNames = [numAlgorithms]string{"tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"}

// String returns the name, such as "nvls_tree".
func (a Algorithm) String() string { return algorithmNames[a] }

// Protocol is how NCCL signals that data has arrived.
type Protocol uint8

// The protocols.
const (
	LL     Protocol = iota // 4 bytes of data with 4 of flag in one store
	LL128                  // 120 bytes of data with 8 of flag, over NVLink
	Simple                 // whole chunks, then a flag
	numProtocols
)

var protocolNames = [numProtocols]string{"LL", "LL128", "Simple"}

// String returns NCCL's name.
func (p Protocol) String() string { return protocolNames[p] }

// perProtocol is one number for LL, LL128 and Simple.
type perProtocol [numProtocols]float64

// baseLatency in us (tuning.cc, baseLatencies). 0 = none.
var baseLatency = [numAlgorithms]perProtocol{
	Tree: {6.8, 14, 8.4},
	Ring: {6.6, 14, 8.4},
	PAT:  {0, 0, 8},
}

// hop is the latency of one step in us over NVLink, PCIe and the network (tuning.cc, hwLatencies).
type hop struct{ nvlink, pcie, net perProtocol }

var hopLatency = [numAlgorithms]hop{
	Tree:          {perProtocol{.6, 1.25, 4}, perProtocol{1, 1.9, 4}, perProtocol{5, 8.5, 14}},
	Ring:          {perProtocol{.6, 1.9, 3.4}, perProtocol{1, 2.5, 5.7}, perProtocol{2.7, 4, 14}},
	CollNetDirect: {perProtocol{0, 0, 3.7}, perProtocol{0, 0, 3.7}, perProtocol{0, 0, 31}},
	CollNetChain:  {perProtocol{0, 0, 2.8}, perProtocol{0, 0, 2.8}, perProtocol{0, 0, 30}},
	NVLS:          {perProtocol{0, 0, 25}, perProtocol{}, perProtocol{0, 0, 18}},
	NVLSTree:      {perProtocol{0, 0, 25}, perProtocol{}, perProtocol{0, 0, 20.9}},
	PAT:           {perProtocol{0, 0, 4}, perProtocol{0, 0, 4}, perProtocol{0, 0, 14}},
}

// generation indexes the constants that depend on the GPU.
type generation uint8

const (
	volta generation = iota
	ampere
	hopper
	blackwell
)

// generationOf maps a compute capability x 10.
func generationOf(sm int) generation {
	switch {
	case sm >= 100:
		return blackwell
	case sm >= 90:
		return hopper
	case sm >= 80:
		return ampere
	}
	return volta
}

// scale indexes the constants that depend on the number of nodes: 1, 2, more.
func scale(nodes int) int { return min(nodes, 3) - 1 }

// Limits in GB/s by generation and number of nodes (tuning.cc).
var (
	llMaxOneNode = [4]float64{39, 87.7, 141, 282}
	llMaxIntel   = [3]float64{0, 39, 20.4} // across nodes the CPU counts, not the GPU
	llMaxAMD     = [3]float64{0, 22.5, 19}

	channelRingLL128 = [4][3]float64{{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {40, 40, 40}}
	channelTreeLL128 = [4][3]float64{{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}}
	channelTree      = [4][3]float64{{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}}
	channelNVLSTree  = [4][3]float64{{}, {}, {0, 57.7, 45.5}, {0, 96, 80}}
)

// nvlsEfficiency is the share of the link that NVLS reaches by NCCL's account.
func nvlsEfficiency(g generation) float64 {
	if g >= blackwell {
		return .74
	}
	return .85
}

// netOverhead is the cost of posting to the network in us, which a ring's inner hops cannot beat across nodes.
func netOverhead(amd bool) float64 {
	if amd {
		return 2
	}
	return 1
}

// treeDip is the factor on a tree's bandwidth for all-reduces of 64 B, 128 B, ... 512 MB (tuning.cc,
// treeCorrectionFactor). Larger ones are not corrected.
var treeDip = [numProtocols][24]float64{
	{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
	{1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
	{.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
}

// Channel speeds that the graph search may try, GB/s, fastest first (search.cc): inside a node without NICs, and with.
var (
	speedsInside = [4][]float64{
		{40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3},
		{40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3},
		{60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3},
		{90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18},
	}
	speedsAcross = [4][]float64{
		{48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, .24, .12},
		{48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, .24, .12},
		{48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, .24, .12},
		{96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, .24, .12},
	}
)

// NVLinkGBps is what NCCL counts for one NVLink of a GPU, one way (topo.h).
func NVLinkGBps(sm int) float64 {
	switch generationOf(sm) {
	case blackwell:
		return 40.1
	case hopper:
		return 20.6
	}
	return 20
}

// PCIeGBps is what NCCL counts for a x16 slot, one way: 12 for generation 3, doubling with each (topo.h).
func PCIeGBps(gen int) float64 {
	switch {
	case gen >= 6:
		return 96
	case gen == 5:
		return 48
	case gen == 4:
		return 24
	}
	return 12
}

// maxSearched is how many channels the search may find before it doubles them (half of NCCL's 32).
const maxSearched = 16
