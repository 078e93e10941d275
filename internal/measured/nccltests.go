package measured

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"path"
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
	mpiPrefix   = regexp.MustCompile(`^(?:\[\d+,\d+\]<std(?:out|err)>:\s?|\s*\d+:\s(?:\s*#|\s+\d))`)
	runLine     = regexp.MustCompile(`#\s*nThread\s+(\d+)\s+nGpus\s+(\d+)\b.*`)
	graphField  = regexp.MustCompile(`\bgraph:\s*(\d+)`)
	versionLine = regexp.MustCompile(`nccl-library=(\d+)`)
	infoVersion = regexp.MustCompile(`NCCL version (\d+\.\d+(?:\.\d+)?)`)
	testLine    = regexp.MustCompile(`#\s*Collective test starting:\s*(\S+)`)
	rankLine    = regexp.MustCompile(`#\s*Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+(\d+)\s+\[[^\]]*\]\s*(.*?)\s*$`)
	wrongLine   = regexp.MustCompile(`#\s*Out of bounds values\s*:\s*\d+\s+FAILED`)
)

// ncclRun is what the lines above a result table say.
type ncclRun struct {
	op        parallel.Op
	opKnown   bool
	version   string
	threads   int
	gpus      int
	graph     bool
	hosts     map[string]int // ranks of the first group on each host
	groups    map[string]bool
	group     string
	ranks     int // of the first group
	gpuName   string
	mixedGPUs bool
	columns   []string
	first     int // index of the table's first row
}

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
		case strings.Contains(s, "#") || strings.Contains(s, "NCCL version"):
			run.note(s, name)
		case run.columns != nil:
			rows = run.row(rows, s, name, line, &p)
		}
	}
	if err := sc.Err(); err != nil {
		p.errs = append(p.errs, fmt.Errorf("%s: %w", name, err))
	}
	return rows, skipped, p.err()
}

func newNCCLRun(name string) ncclRun {
	run := ncclRun{hosts: map[string]int{}, groups: map[string]bool{}}
	run.op, run.opKnown = opInName(path.Base(strings.ReplaceAll(name, `\`, "/")))
	return run
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

// note takes what a comment line says about the run.
func (r *ncclRun) note(s, name string) {
	if m := testLine.FindStringSubmatch(s); m != nil {
		*r = ncclRun{version: r.version, hosts: map[string]int{}, groups: map[string]bool{}, first: r.first}
		r.op, r.opKnown = opInName(m[1])
	}
	if m := versionLine.FindStringSubmatch(s); m != nil {
		if v, err := strconv.Atoi(m[1]); err == nil {
			r.version = versionOf(v)
		}
	}
	if m := infoVersion.FindStringSubmatch(s); m != nil {
		r.version = m[1]
	}
	if m := runLine.FindStringSubmatch(s); m != nil {
		if r.columns != nil { // an old version's next run in the same file
			*r = ncclRun{op: r.op, opKnown: r.opKnown, version: r.version, hosts: map[string]int{}, groups: map[string]bool{}, first: r.first}
		}
		r.threads, _ = strconv.Atoi(m[1])
		r.gpus, _ = strconv.Atoi(m[2])
		g := graphField.FindStringSubmatch(s)
		r.graph = g != nil && g[1] != "0"
	}
	if m := rankLine.FindStringSubmatch(s); m != nil {
		if len(r.groups) == 0 {
			r.group = m[2]
		}
		r.groups[m[2]] = true
		if m[2] == r.group {
			r.hosts[m[3]]++
			r.ranks++
		}
		r.mixedGPUs = r.mixedGPUs || r.gpuName != "" && r.gpuName != m[5]
		r.gpuName = m[5]
	}
}

// versionOf turns NCCL's number into its text: 22803 is 2.28.3, 2708 (before 2.9) is 2.7.8.
func versionOf(v int) string {
	if v >= 10000 {
		return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
	}
	return fmt.Sprintf("%d.%d.%d", v/1000, v/100%10, v%100)
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

// base is the Row of a size, without its time.
func (r *ncclRun) base(name string, line int, size units.Bytes, dtype string, p *problems) Row {
	row := Row{
		GPU: r.gpuName, Library: "nccl", Version: r.version, Launch: LaunchEager,
		Op: r.op, Bytes: size, DType: dtype,
		Ranks: r.ranks, Nodes: len(r.hosts), File: name, Line: line,
	}
	if r.ranks == 0 && r.gpus*max(r.threads, 1) > 1 { // no list of ranks: one process drives them all
		row.Ranks, row.Nodes = r.gpus*max(r.threads, 1), 1
	}
	if row.Ranks == 0 {
		p.addf(line, "no list of ranks above the table, and one GPU a process: cannot tell how many ranks ran")
		return row
	}
	for _, n := range r.hosts {
		row.GPUsPerNode = max(row.GPUsPerNode, n)
	}
	row.GPUsPerNode = max(row.GPUsPerNode, (row.Ranks+row.Nodes-1)/row.Nodes)
	if r.graph {
		row.Launch = LaunchGraph
	}
	if len(r.groups) > 1 {
		row.Flags = append(row.Flags, fmt.Sprintf("%d groups at once", len(r.groups)))
	}
	if r.mixedGPUs {
		row.Flags = append(row.Flags, "GPUs of several models")
	}
	return row
}
