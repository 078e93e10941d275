package measured

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// ncclTestsColumns recognises the header of a result table in any version: "# size count type [redop] [root] time algbw
// busbw [error] time algbw busbw [error]".
var ncclTestsColumns = regexp.MustCompile(`#\s+size\s+count\b.*\btype\b.*\b(?:time|cputime)\s+algbw\s+busbw`)

func isNCCLTestsText(data []byte) bool { return ncclTestsColumns.Match(data) }

var (
	// mpiPrefix is what mpirun --tag-output and srun --label put before a line.
	mpiPrefix = regexp.MustCompile(`^(?:\[\d+,\d+\]<std(?:out|err)>:\s?|\s*\d+:\s(?:\s*#|\s+\d))`)
	wrongLine = regexp.MustCompile(`#\s*Out of bounds values\s*:\s*\d+\s+FAILED`)
)

// ReadNCCLTests reads the text output of nccl-tests, any version, one or more runs in a file, with mpirun's or srun's
// labels and other programs' lines between. Each line of a table gives an out-of-place and an in-place Row. Launches are
// eager unless the run says graph: N. The collective comes from the run's own line, in old versions from the file's name.
func ReadNCCLTests(r io.Reader, name string) ([]Row, []Skip, error) {
	data, err := readAll(r, name)
	if err != nil {
		return nil, nil, err
	}
	p := problems{name: name}
	run := newNCCLRun(name)
	var rows []Row
	var skipped []Skip
	sc := bufio.NewScanner(bytes.NewReader(data))
	sc.Buffer(nil, 1<<20)
	for line := 1; sc.Scan(); line++ {
		s := unlabel(sc.Text())
		switch {
		case wrongLine.MatchString(s):
			for _, row := range rows[run.first:] {
				skipped = append(skipped, Skip{name, row.Line, SkipWrong})
			}
			rows = rows[:run.first]
		case ncclTestsColumns.MatchString(s):
			if !run.opKnown {
				p.addf(line, "which collective? this version of nccl-tests does not say: name it in the file's name (all_reduce.txt)")
				run.opKnown = true // once is enough
			}
			run.columns = strings.Fields(strings.TrimPrefix(strings.TrimSpace(s), "#"))
			run.first = len(rows)
			if !slices.Contains(run.columns, "type") {
				p.addf(line, "columns %s: want one named type", strings.Join(run.columns, " "))
				run.columns = nil // its rows cannot be read
			}
		case run.columns != nil && startsWithSize(s):
			if strings.Contains(s, "NCCL ") {
				skipped = append(skipped, Skip{name, line, SkipTorn})
				continue
			}
			if run.foreign {
				skipped = append(skipped, Skip{name, line, SkipNoOp})
				continue
			}
			rows = run.row(rows, s, name, line, &p)
		default:
			run.note(s, name)
		}
	}
	if err := sc.Err(); err != nil {
		p.errs = append(p.errs, fmt.Errorf("%s: %w", name, err))
	}
	return rows, skipped, p.err()
}

// unlabel removes the label that a launcher put before the line.
func unlabel(s string) string {
	if m := mpiPrefix.FindString(s); m != "" {
		if i := strings.Index(m, ">:"); i >= 0 {
			return s[i+2:]
		}
		return s[strings.Index(s, ":")+1:]
	}
	return s
}

// opInName finds a collective's name in a file or program name; longer names first, so that "all_reduce_perf" is not
// "reduce".
func opInName(name string) (parallel.Op, bool) {
	low := strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(name))
	for _, c := range []struct {
		word string
		op   parallel.Op
	}{
		{"reduce_scatter", parallel.ReduceScatter}, {"reducescatter", parallel.ReduceScatter},
		{"all_reduce", parallel.AllReduce}, {"allreduce", parallel.AllReduce},
		{"all_gather", parallel.AllGather}, {"allgather", parallel.AllGather},
		{"all_to_all", parallel.AllToAll}, {"alltoall", parallel.AllToAll},
		{"sendrecv", parallel.SendRecv}, {"send_recv", parallel.SendRecv},
		{"broadcast", parallel.Broadcast},
		{"reduce", parallel.Reduce},
	} {
		if strings.Contains(low, c.word) {
			return c.op, true
		}
	}
	return 0, false
}

// startsWithSize says whether a line can be a row of a table.
func startsWithSize(s string) bool {
	s = strings.TrimLeft(s, " ")
	return s != "" && s[0] >= '0' && s[0] <= '9'
}

// row reads one line of a result table; lines of other programs are passed over.
func (r *ncclRun) row(rows []Row, s, name string, line int, p *problems) []Row {
	f := strings.Fields(s)
	if len(f) < 5 || !digits(f[0]) || !digits(f[1]) {
		return rows
	}
	if slices.Contains(r.columns, "timestamp") && len(f) == len(r.columns)+1 {
		f = f[:len(r.columns)] // a date and a time of day
	}
	if len(f) != len(r.columns) {
		p.addf(line, "%d fields, want %d (%s)", len(f), len(r.columns), strings.Join(r.columns, " "))
		return rows
	}
	size, err := strconv.ParseInt(f[0], 10, 64)
	if err != nil {
		p.addf(line, "size %q: want bytes", f[0])
		return rows
	}
	dtype, ok := dtypeOf(f[slices.Index(r.columns, "type")])
	if !ok {
		p.addf(line, "type %q: unknown element type", f[slices.Index(r.columns, "type")])
		return rows
	}
	if size == 0 {
		return rows // nothing was moved
	}
	base := r.base(name, line, units.Bytes(size), dtype, p)
	nth := 0
	for i, c := range r.columns {
		if c != "time" && c != "cputime" {
			continue
		}
		us, err := strconv.ParseFloat(f[i], 64)
		switch {
		case f[i] == "N/A":
		case err != nil || !(us >= 0) || us > 1e12:
			p.addf(line, "time %q: want microseconds", f[i])
		case us > 0 && base.Ranks > 0:
			row := base
			row.InPlace = nth == 1
			row.Time = units.Micros(us)
			rows = append(rows, row)
		}
		nth++
	}
	return rows
}
