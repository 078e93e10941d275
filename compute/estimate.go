package compute

import (
	"strings"

	"rankmap/internal/units"
)

// Estimate is the time of one execution of one computation.
type Estimate struct {
	Time       units.Duration
	P10, P90   units.Duration // four of five measured rows of this kind and type fall between
	Bound      Bound
	Provenance Provenance
	Flags      Flags
}

// Bound is what the time mostly goes to.
type Bound uint8

// The bounds.
const (
	TensorCores Bound = iota // matrix units, exponentials, or the latency of a block's main loop
	HBM                      // memory traffic
	LaunchTime               // launches, quantization passes, fixed costs
)

// String returns "tensor cores", "memory" or "launch".
func (b Bound) String() string { return [...]string{"tensor cores", "memory", "launch"}[b] }

// Provenance says what an estimate rests on, best first.
type Provenance uint8

// The provenances.
const (
	Calibrated Provenance = iota // fitted to the user's own rows
	Fitted                       // fitted to a published table of this GPU
	Family                       // from GPUs of the same or the nearest generation, scaled by the datasheet
)

// String returns "calibrated", "fitted" or "family estimate".
func (p Provenance) String() string {
	return [...]string{"calibrated", "fitted", "family estimate"}[p]
}

// Flags are reasons to trust an estimate less, as a bit set so that pricing does not allocate.
type Flags uint16

// The flags.
const (
	OddExperts    Flags = 1 << iota // experts a GPU not a power of two: Hopper kernels run 3 to 5 times slower at 3, 6 and 12
	ManyRanks                       // expert parallelism of 64 and more: published rows are slower than the form
	NearType                        // priced with the parameters of a similar compute or cache type
	WeightOnly                      // the GPU lacks this compute type: weights are unpacked, math runs in bf16
	PoorKernel                      // 128 rows with 28,672 columns or more: cuBLAS picks a kernel slower than for 256 rows
	WindowedBF16                    // windowed bf16 decode on Hopper does not get cheaper with the window
	BorrowedPath                    // parameters of a sister GPU, because this one's table ran another kernel
	MixedKernels                    // the table mixes two kernels under one name; no form does better than about 25 %
	SustainedUsed                   // the sustained-clock factor was applied
	NoFactor                        // prefill or training without a known sustained-clock factor
	LentKernels                     // parameters of another framework's kernels, because this one has none measured
	numFlags      = iota
)

var flagTexts = [numFlags]string{
	"experts a GPU not a power of two: kernels may be 3 to 5 times slower",
	"expert parallelism of 64 and more: kernels are slower than the form",
	"priced as a similar type",
	"type not native to this GPU: weights unpacked, math in bf16",
	"128 rows and 28,672 columns or more: the library picks a slow kernel",
	"windowed bf16 decode may cost as much as the whole context",
	"attention parameters of a sister GPU",
	"two kernels under one name in the measured table",
	"sustained-clock factor applied",
	"no sustained-clock factor known: burst clock assumed",
	"kernel parameters of another framework",
}

// List returns the reasons as sentences, in a fixed order.
func (f Flags) List() []string {
	var out []string
	for i, t := range flagTexts {
		if f&(1<<i) != 0 {
			out = append(out, t)
		}
	}
	return out
}

// String joins the reasons.
func (f Flags) String() string { return strings.Join(f.List(), "; ") }

// band is p10 and p90 of measured/predicted on held-out rows.
type band struct{ lo, hi float64 }

// The bands where a record has no held-out rows: the leave-one-system-out errors of the forms are 30 to 45 % at the
// 90th percentile.
var defaultBand = band{0.7, 1.45}
