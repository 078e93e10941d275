package collective

import (
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/topology"
)

// Launch is how a collective's kernel gets started.
type Launch uint8

// The launches.
const (
	Graph Launch = iota // replayed from a CUDA graph
	Eager               // launched one by one from the host: the launch floor of the host applies
)

// Request asks for the time of one collective on one member list.
type Request struct {
	Op      parallel.Op
	Bytes   units.Bytes // nccl-tests' meaning: the larger of one rank's send and receive buffer
	DType   string      // "bf16" (default), "fp16", "fp32", "int8", "fp8"
	Launch  Launch
	Members []topology.GPUID // for a broadcast or reduce the root stands first; for send/recv exactly two
	// Siblings are the other groups that run the same collective at the same time. They share NICs, uplinks and PCIe
	// links with Members; nil means that the group runs alone.
	Siblings [][]topology.GPUID
	Library  string // NCCL version "2.28.9"; empty = the profile's newest
	// Channels is the number of channels that the library may use (NCCL_MAX_NCHANNELS); 0 = its own choice. Few channels bound
	// the group's rate, and so what it takes from others on the same links.
	Channels int
}

// Estimate is the answer.
type Estimate struct {
	Time, P10, P90 units.Duration
	Algorithm      string // what NCCL is expected to choose: "ring", "tree", "nvls", ...
	Protocol       string // "LL", "LL128", "Simple"
	BusBW          units.Bandwidth
	Bottleneck     string // the slowest link, in words: "NVLink 450 GB/s", "NIC 50 GB/s x 8"
	Provenance     Provenance
	Flags          []string // why to trust it less: "library 2.31 outside the profile", ...
}

// Provenance says what an estimate rests on; the interval follows from it.
type Provenance uint8

// The provenances, best first.
const (
	Measured   Provenance = iota // table of the same system
	Calibrated                   // physical form fitted on the same system
	Sibling                      // same generation
	OtherGen                     // other generation of the same link family
	Network                      // several nodes, uncalibrated fabric
	Assumed                      // link unknown to every profile, --assume
	Textbook                     // alpha-beta, --cost textbook
)

// Pricer prices collectives; the planner takes it as an interface so that textbook and calibrated costs are
// interchangeable.
type Pricer interface {
	Price(Request) (Estimate, error)
}
