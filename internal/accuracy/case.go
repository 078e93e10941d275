package accuracy

import (
	"rankmap/internal/measured"
	"rankmap/internal/units"
)

// Case is one measurement with its predictions. Whatever is measured (collectives, kernels, steps) is scored through it.
type Case struct {
	System     string // what the tables report under
	Collective string // collective, kernel or step: "all_reduce", "all_reduce/vllm", "gemm"
	Size       Size
	Nodes      int
	Ranks      int
	Source     string // where the row came from, for splits by source

	Measured units.Duration
	Ours     units.Duration
	P10, P90 units.Duration
	Textbook units.Duration // 0 = the textbook has no form
	NCCL     units.Duration // 0 = NCCL has no model

	Row  *measured.Row     // of a collective or an exchange
	Op   *measured.OpRow   // of a computation
	Step *measured.StepRow // of a stack of layers

	Apart bool // of a serving point: prefill and decode on instances of their own
}

// Size is a class of sizes.
type Size uint8

// The size classes: latency, the middle, bandwidth. NoSize is for rows without one.
const (
	NoSize Size = iota
	Small       // to 256 KiB
	Middle      // to 16 MiB
	Large       // above
)

// SizeOf returns the class of a buffer.
func SizeOf(b units.Bytes) Size {
	switch {
	case b <= 256<<10:
		return Small
	case b <= 16<<20:
		return Middle
	}
	return Large
}

// String returns the class's bounds; "" for NoSize.
func (s Size) String() string { return [...]string{"", "<=256 KiB", "<=16 MiB", ">16 MiB"}[s] }

// MarshalText writes the bounds.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
