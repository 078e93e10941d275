package compute

import (
	"math"

	"rankmap/internal/hardware"
)

// planEM is the memory fraction of decode attention in a deployment. Published tables show up to 2 because their K and
// V most likely share one buffer; PyTorch on H200 with real K and V reaches 0.94 of the datasheet (4 measured shapes).
const planEM = 0.9

// planOverlap is how sharply a block's time and memory traffic overlap in a deployment, at least. In the tables K and V in
// one buffer halve the traffic and the fit adds the two up; with twice the traffic the blocks' time hides behind it, as it
// does in the plain kernels, which lose 6 % to it.
const planOverlap = 3

// planWide widens the interval of decode attention for what planEM and planOverlap assume.
const planWide = 0.85

// fromUser marks, in Fit.From, decode records that a user's own rows refitted: they are of real memory already.
const fromUser = "calibrated"

// planned turns a decode record of a table into that of a deployment.
func planned(r hardware.Decode) hardware.Decode {
	if r.Fit.From == fromUser {
		return r
	}
	for _, p := range []*hardware.DecodePath{&r.Grouped, &r.PerHead} {
		p.EM, p.P = math.Min(p.EM, planEM), math.Max(p.P, planOverlap)
		p.Grid = "" // fitted on the table's memory layout
	}
	if r.Fit.Lo > 0 {
		r.Fit.Lo, r.Fit.Hi = r.Fit.Lo*planWide, r.Fit.Hi/planWide
	}
	return r
}
