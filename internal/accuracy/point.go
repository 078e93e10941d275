package accuracy

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"rankmap/collective"
	"rankmap/internal/measured"
	"rankmap/internal/units"
)

// PointOf turns a row into a point that a fit can use; false for rows that the forms of NCCL's collectives do not
// describe: other libraries and kernels, rows timed beside other work, forced choices, rows without a GPU that is known.
// complete the row first (Confronter.Complete).
func PointOf(r *measured.Row) (collective.Point, bool) {
	p := collective.Point{
		System: r.Hardware, Op: r.Op, DType: r.DType, Ranks: r.Ranks, Nodes: 1, Bytes: r.Bytes, Time: r.Time,
		Library: r.Version, Launch: collective.Graph,
	}
	if r.Launch == measured.LaunchEager {
		p.Launch = collective.Eager
	}
	perNode := r.GPUsPerNode
	if p.Nodes = r.Nodes; r.DomainGPUs > 0 { // the rack is the node
		p.Nodes = max(1, (r.Ranks+r.DomainGPUs-1)/r.DomainGPUs)
		perNode = min(r.DomainGPUs, r.Ranks)
	}
	if p.Nodes > 1 {
		p.Fabric = r.Fabric
		p.NIC = r.NICRate * units.Bandwidth(float64(r.NICs)*float64(perNode)/float64(max(r.GPUsPerNode, 1)))
	}
	ok := r.Kind == measured.Collective && r.Library == "nccl" && r.Kernel == "" && r.ForcedAlgorithm == "" && r.ForcedProtocol == "" &&
		p.System != "" && p.Bytes > 0 && p.Time > 0 && !math.IsInf(float64(p.Time), 0) && p.Ranks > 1 &&
		(p.Nodes <= 1 || p.NIC > 0 && p.Fabric != "") && !reducedInNetwork(r)
	return p, ok
}

// reducedInNetwork says that the network's switches reduced (SHARP): rings do not describe such rows.
func reducedInNetwork(r *measured.Row) bool { return strings.Contains(r.FabricDetail, "SHARP") }

// pytorchUs is what PyTorch adds to a collective in a CUDA graph on our two H200, us (10 us against 5.55 us at 8 B); rows
// timed through it calibrate where that is less than a twentieth.
const pytorchUs = 4.5

// Points gathers what a calibration can use of the rows of one system, and counts the rest. Rows of several systems are
// an error that names them.
func (c *Confronter) Points(files ...measured.File) ([]collective.Point, []Skipped, error) {
	left := skips{}
	var points []collective.Point
	systems := map[string]bool{}
	for i := range files {
		for _, s := range files[i].Skipped {
			left[s.Reason]++
		}
		for j := range files[i].Rows {
			r := c.Complete(files[i].Rows[j])
			if c.other(&r) {
				left[errOtherSystem.Error()]++
				continue
			}
			if r.Kernel == "pytorch" && r.Time.Micros() >= 20*pytorchUs {
				r.Kernel = ""
			}
			p, ok := PointOf(&r)
			if !ok {
				left[notAPoint(&r)]++
				continue
			}
			systems[r.System] = true
			points = append(points, p)
		}
	}
	if len(systems) > 1 {
		return nil, nil, fmt.Errorf("rows of several systems (%s): calibrate one at a time with --system", strings.Join(slices.Sorted(maps.Keys(systems)), ", "))
	}
	return points, left.list(), nil
}

// notAPoint says why a row cannot calibrate.
func notAPoint(r *measured.Row) string {
	switch {
	case r.Kind != measured.Collective:
		return "timed beside other work, or no collective"
	case r.Library != "nccl":
		return "not NCCL"
	case r.Kernel == "pytorch":
		return "timed through PyTorch, too short to tell its cost apart"
	case r.ForcedAlgorithm != "" || r.ForcedProtocol != "":
		return measured.SkipForced
	case r.Hardware == "":
		return "no datasheet of this GPU"
	case r.Ranks < 2:
		return errOneRank.Error()
	}
	return "over several nodes, and the NICs are not stated"
}
