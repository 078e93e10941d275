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
		t.opInto(&row, "collective")
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
		if !stated {
			skipped = append(skipped, Skip{name, t.line, SkipNoTime})
			continue
		}
		row.GPUsPerNode = row.Ranks / row.Nodes
		row.Time = time
		rows = append(rows, row)
	}
	return rows, skipped, t.err()
}

// opInto reads the collective's name.
func (t *sheet) opInto(row *Row, col string) {
	if err := row.Op.UnmarshalText([]byte(t.str(col))); err != nil {
		t.addf(t.line, "%w", err)
	}
}

// dtypeInto reads the element type.
func (t *sheet) dtypeInto(row *Row, col string) {
	d, ok := dtypeOf(t.str(col))
	if !ok {
		t.addf(t.line, "%s %q: unknown element type (known: half, bfloat16, float, double, int8, int32, int64, fp8)", col, t.str(col))
	}
	row.DType = d
}
