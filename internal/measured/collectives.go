package measured

import (
	"io"
	"strings"

	"rankmap/internal/units"
)

// ReadCollectives reads a table of single-domain collectives: system, library, version, kernel, collective, dtype, ranks,
// nodes, bytes, time_us. NCCL rows were taken with one thread a GPU and show no host floor, so they count as graph
// launches; the framework kernels say in their name which launch they used (TRTLLM: graph).
func ReadCollectives(r io.Reader, name string) ([]Row, []Skip, error) {
	t, err := newSheet(r, name, false, "system", "library", "version", "kernel", "collective", "dtype", "ranks", "nodes", "bytes", "time_us")
	if err != nil {
		return nil, nil, err
	}
	var rows []Row
	var skipped []Skip
	for t.next() {
		before := t.noted()
		row := Row{
			System: t.str("system"), Library: t.str("library"), Version: t.str("version"), Kernel: t.str("kernel"),
			Ranks: t.small("ranks", 1), Nodes: t.small("nodes", 1), Bytes: units.Bytes(t.count("bytes", 1)),
			File: name, Line: t.line,
		}
		row.Hardware = hardwareOf(row.System)
		row.GPU = row.System
		if row.System == "" {
			t.addf(t.line, "system is empty")
		}
		known := t.opInto(&row, "collective")
		t.dtypeInto(&row, "dtype")
		if strings.Contains(strings.ToLower(row.Kernel), "eager") {
			row.Launch = LaunchEager
		}
		time, stated := t.micros("time_us")
		if t.noted() > before {
			continue
		}
		if row.Ranks%row.Nodes != 0 {
			t.addf(t.line, "%d ranks on %d nodes: want as many on each", row.Ranks, row.Nodes)
			continue
		}
		if !known || !stated {
			skipped = append(skipped, Skip{name, t.line, noOpOrTime(known)})
			continue
		}
		row.GPUsPerNode = row.Ranks / row.Nodes
		row.Time = time
		rows = append(rows, row)
	}
	return rows, skipped, t.err()
}

// noOpOrTime is the reason of a row without one of the two.
func noOpOrTime(opKnown bool) string {
	if !opKnown {
		return SkipNoOp
	}
	return SkipNoTime
}

// opInto reads the collective's name; false for one that rankmap does not price.
func (t *sheet) opInto(row *Row, col string) bool {
	name := t.str(col)
	if foreignOps[name] {
		return false
	}
	if err := row.Op.UnmarshalText([]byte(name)); err != nil {
		t.addf(t.line, "%w", err)
	}
	return true
}

// dtypeInto reads the element type.
func (t *sheet) dtypeInto(row *Row, col string) {
	d, ok := dtypeOf(t.str(col))
	if !ok {
		t.addf(t.line, "%s %q: want the name of an element type, such as half or bfloat16", col, t.str(col))
	}
	row.DType = d
}
