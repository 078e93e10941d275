package main

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"rankmap/collective"
	"rankmap/internal/measured"
	"rankmap/internal/units"
)

// reader is one of measured's readers.
type reader func(r io.Reader, name string) ([]measured.Row, []measured.Skip, error)

// readRows reads one table below dir.
func readRows(read reader, dir string, elem ...string) ([]measured.Row, error) {
	name := filepath.Join(append([]string{dir}, elem...)...)
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, _, err := read(f, name)
	return rows, err
}

// point turns a row into a fitter's point; false for rows that the forms do not describe: other libraries, forced
// choices, no size, members that leave NVLink inside a node.
func point(r *measured.Row) (collective.Point, bool) {
	p := collective.Point{
		System: r.Hardware, Op: r.Op, DType: r.DType, Ranks: r.Ranks, Nodes: r.Nodes, Bytes: r.Bytes, Time: r.Time,
		Library: r.Version, Fabric: r.Fabric, Launch: collective.Eager,
	}
	if r.Launch == measured.LaunchGraph {
		p.Launch = collective.Graph
	}
	perNode := r.GPUsPerNode
	if d := r.DomainGPUs; d > 0 { // the rack is the node
		p.Nodes = max(1, (r.Ranks+d-1)/d)
		perNode = min(d, r.Ranks)
	}
	if p.Nodes > 1 {
		p.NIC = r.NICRate * units.Bandwidth(float64(r.NICs)*float64(perNode)/float64(r.GPUsPerNode))
	}
	ok := r.Kind == measured.Collective && r.Library == "nccl" && r.ForcedAlgorithm == "" && r.ForcedProtocol == "" &&
		p.Bytes > 0 && p.Time > 0 && !math.IsInf(float64(p.Time), 0) && p.Ranks > 1 && (p.Nodes <= 1 || (p.NIC > 0 && p.Fabric != "")) && !strings.Contains(r.FabricDetail, "SHARP") // SHARP has a form of its own
	return p, ok
}
