package measured

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// Lines of nccl-tests, and of NCCL's log between them, that tell what ran.
var (
	runLine     = regexp.MustCompile(`#\s*nThread\s+(\d+)\s+nGpus\s+(\d+)\b.*`)
	graphField  = regexp.MustCompile(`\bgraph:\s*(\d+)`)
	versionLine = regexp.MustCompile(`nccl-library=(\d+)`)
	infoVersion = regexp.MustCompile(`NCCL version (\d+\.\d+(?:\.\d+)?)`)
	testLine    = regexp.MustCompile(`#\s*Collective test starting:\s*(\S+)`)
	rankLine    = regexp.MustCompile(`#\s*Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+(\d+)\s+\[[^\]]*\]\s*(.*?)\s*$`)
	perfName    = regexp.MustCompile(`\b([a-z_]+)_perf\b`)
	initLine    = regexp.MustCompile(`^\s*(\S+?):\d+:\d+ \[\d+\] NCCL INFO .*\brank \d+ n[rR]anks (\d+)(?: nNodes (\d+))?\b`)
)

// ncclRun is what the lines above a result table say.
type ncclRun struct {
	op          parallel.Op
	opKnown     bool
	foreign     bool // a collective that rankmap does not price
	version     string
	threads     int
	gpus        int
	graph       bool
	hosts       map[string]int // ranks of the first group on each host
	groups      map[string]bool
	group       string
	ranks       int // of the first group
	logged      int // ranks that NCCL's own log tells, where the tool lists fewer
	loggedOn    map[string]bool
	loggedNodes int
	gpuName     string
	mixedGPUs   bool
	columns     []string
	first       int // index of the table's first row
}

func newNCCLRun(name string) ncclRun {
	run := ncclRun{hosts: map[string]int{}, groups: map[string]bool{}, loggedOn: map[string]bool{}}
	run.op, run.opKnown = opInName(path.Base(strings.ReplaceAll(name, `\`, "/")))
	return run
}

// note takes what a line outside the table says about the run: the tool's own comments, the echo of its command line,
// NCCL's log.
func (r *ncclRun) note(s, name string) {
	if m := perfName.FindStringSubmatch(s); m != nil && !r.opKnown {
		r.op, r.opKnown = opInName(m[1])
	}
	if m := initLine.FindStringSubmatch(s); m != nil {
		if n, err := strconv.Atoi(m[2]); err == nil && n < 1<<20 {
			r.logged, r.loggedOn[m[1]] = n, true
		}
		if n, err := strconv.Atoi(m[3]); err == nil && n < 1<<20 {
			r.loggedNodes = n
		}
	}
	if m := testLine.FindStringSubmatch(s); m != nil {
		foreign := foreignOps[strings.TrimSuffix(m[1], "_perf")]
		*r = ncclRun{foreign: foreign, version: r.version, hosts: map[string]int{}, groups: map[string]bool{}, loggedOn: map[string]bool{}, first: r.first}
		if r.op, r.opKnown = opInName(m[1]); foreign {
			r.opKnown = true
		}
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
			*r = ncclRun{op: r.op, opKnown: r.opKnown, version: r.version, hosts: map[string]int{}, groups: map[string]bool{}, loggedOn: map[string]bool{}, first: r.first}
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
	if r.logged > row.Ranks && len(r.groups) <= 1 { // the list is cut off
		row.Ranks, row.Nodes = r.logged, min(max(r.loggedNodes, len(r.loggedOn)), r.logged)
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
