package measured

import (
	"bytes"
	"io"
	"strings"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// sweepColumns of a sweep, which has no header line: what was forced, ranks, collective, bytes, then microseconds of an
// eager launch (median, least, most) and the median from a CUDA graph, which may be empty.
var sweepColumns = []string{"tag", "ranks", "collective", "bytes", "eager_us", "eager_min_us", "eager_max_us", "graph_us"}

// isSweep knows a sweep by its first line: eight fields, numbers where they belong.
func isSweep(data []byte) bool {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	f := strings.Split(strings.TrimSpace(string(line[:min(len(line), 256)])), ",")
	return len(f) == len(sweepColumns) && digits(f[1]) && digits(f[3]) && !digits(f[2])
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// ReadSweep reads a sweep over collectives and sizes that was timed through PyTorch on one node. It names no GPU. A line
// gives one eager Row and, where the last field is filled, one graph Row. Lines with a forced algorithm and protocol, or
// with peer access off, time what NCCL would not do by itself and are skipped.
func ReadSweep(r io.Reader, name string) ([]Row, []Skip, error) {
	t, err := newSheet(r, name, true, sweepColumns...)
	if err != nil {
		return nil, nil, err
	}
	var rows []Row
	var skipped []Skip
	for t.next() {
		before := t.noted()
		row := Row{
			Library: "nccl", Kernel: "pytorch", DType: "bf16", Nodes: 1,
			Ranks: t.small("ranks", 1), Bytes: units.Bytes(t.count("bytes", 1)),
			File: name, Line: t.line, Flags: []string{"timed through PyTorch"},
		}
		row.GPUsPerNode = row.Ranks
		tag, op := t.str("tag"), t.str("collective")
		if op == "p2p_oneway" { // one direction of a send/recv pair; the other direction has wires of its own
			row.Op = parallel.SendRecv
			row.Flags = append(row.Flags, "one way")
		} else if !t.opInto(&row, "collective") {
			skipped = append(skipped, Skip{name, t.line, SkipNoOp})
			continue
		}
		reason := ""
		switch algorithm, protocol, forced := strings.Cut(tag, "-"); {
		case forced:
			row.ForcedAlgorithm, row.ForcedProtocol = algorithm, protocol
			reason = SkipForced
		case tag == "shm":
			reason = SkipP2POff
		case tag == "init":
			reason = SkipSetup
		case tag != "default":
			t.addf(t.line, "tag %q: want default, init, shm or ALGORITHM-PROTOCOL", tag)
		}
		for _, c := range []struct {
			col    string
			launch Launch
		}{{"eager_us", LaunchEager}, {"graph_us", LaunchGraph}} {
			time, stated := t.micros(c.col)
			if t.noted() > before || !stated {
				continue
			}
			if reason != "" {
				skipped = append(skipped, Skip{name, t.line, reason})
				continue
			}
			one := row
			one.Launch, one.Time = c.launch, time
			rows = append(rows, one)
		}
	}
	return rows, skipped, t.err()
}
