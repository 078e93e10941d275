package parallel

import "fmt"

// Op is a collective operation.
type Op uint8

// The operations, in the names that nccl-tests and the measured tables use.
const (
	AllReduce Op = iota
	AllGather
	ReduceScatter
	AllToAll
	Broadcast
	Reduce
	SendRecv
	numOps
)

var opNames = [numOps]string{"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "sendrecv"}

// Ops lists every operation, in order.
func Ops() []Op {
	all := make([]Op, numOps)
	for i := range all {
		all[i] = Op(i)
	}
	return all
}

// String returns the name, such as "all_reduce".
func (o Op) String() string {
	if o < numOps {
		return opNames[o]
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// MarshalText writes the name.
func (o Op) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads the name; nccl-tests' "alltoall" and "send_recv" are accepted.
func (o *Op) UnmarshalText(b []byte) error {
	switch s := string(b); s {
	case "alltoall":
		*o = AllToAll
		return nil
	case "send_recv":
		*o = SendRecv
		return nil
	default:
		for i, n := range opNames {
			if n == s {
				*o = Op(i)
				return nil
			}
		}
		return fmt.Errorf("unknown collective %q (known: %v)", s, opNames)
	}
}

// BusFactor is busbw/algbw of nccl-tests (doc/PERFORMANCE.md): how many bytes cross one rank's links for each byte of
// the buffer. n is the number of ranks.
func (o Op) BusFactor(n int) float64 {
	if n < 2 {
		return 0
	}
	u := float64(n-1) / float64(n)
	switch o {
	case AllReduce:
		return 2 * u
	case AllGather, ReduceScatter, AllToAll:
		return u
	default:
		return 1
	}
}
