package collective

import (
	"cmp"
	"slices"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// Point is one measured collective.
type Point struct {
	System     string          // key of the GPU's datasheet
	Op         parallel.Op     //
	DType      string          // element type; "int8" and "fp8..." are one byte
	Ranks      int             // all ranks of the group
	Nodes      int             // NVLink domains (or hosts) that the group touches; 0 and 1: one
	Bytes      units.Bytes     // nccl-tests' meaning
	Time       units.Duration  //
	Launch     Launch          // how it was started; SharesHost: one process drives all GPUs and shows no host floor
	Library    string          // NCCL version, "" unknown
	NIC        units.Bandwidth // all NICs of one node that serve the group, one way; only for several nodes
	Fabric     string          // fabric profile; only for several nodes
	SharesHost bool            // predict without the host's launch floor although it was started eagerly
}

// OneByte says whether the element type has one byte.
func OneByte(dtype string) bool {
	switch dtype {
	case "int8", "uint8", "char", "byte", "fp8", "fp8_e4m3", "fp8_e5m2", "f8e4m3", "f8e5m2", "float8_e4m3", "float8_e5m2":
		return true
	}
	return false
}

// typed says whether the element type can matter: only reductions look at it.
func typed(op parallel.Op) bool {
	return op == parallel.AllReduce || op == parallel.ReduceScatter || op == parallel.Reduce
}

// nodes is p.Nodes with 0 read as 1.
func (p *Point) nodes() int { return max(p.Nodes, 1) }

// comparePoints orders points by everything but time, then by time.
func comparePoints(a, b Point) int {
	return cmp.Or(
		cmp.Compare(a.System, b.System), cmp.Compare(a.Op, b.Op), boolCompare(OneByte(a.DType), OneByte(b.DType)),
		cmp.Compare(a.nodes(), b.nodes()), cmp.Compare(a.Ranks, b.Ranks), cmp.Compare(a.Fabric, b.Fabric), cmp.Compare(a.NIC, b.NIC),
		compareVersions(a.Library, b.Library), cmp.Compare(a.Launch, b.Launch), cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Time, b.Time))
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// mergeRepeats sorts points and replaces repeats of one measurement by their median.
func mergeRepeats(points []Point) []Point {
	sorted := slices.Clone(points)
	for i := range sorted {
		if !typed(sorted[i].Op) {
			sorted[i].DType = "" // bytes are bytes
		}
	}
	slices.SortFunc(sorted, comparePoints)
	var out []Point
	for i := 0; i < len(sorted); {
		j := i + 1
		for j < len(sorted) && sameMeasurement(sorted[i], sorted[j]) {
			j++
		}
		p := sorted[i]
		p.Time = (sorted[i+(j-i-1)/2].Time + sorted[i+(j-i)/2].Time) / 2
		out = append(out, p)
		i = j
	}
	return out
}

// sameMeasurement says that two points differ in time only.
func sameMeasurement(a, b Point) bool {
	a.Time, b.Time = 0, 0
	return comparePoints(a, b) == 0
}
