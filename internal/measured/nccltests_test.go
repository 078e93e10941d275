package measured

import (
	"fmt"
	"strings"
	"testing"

	"rankmap/internal/parallel"
)

// A run as versions since 2025 print it, through mpirun --tag-output, from a graph, over two hosts.
const runOf2026 = `[1,0]<stdout>:# nccl-tests version 2.19.6 nccl-headers=22803 nccl-library=22907
[1,0]<stdout>:# Collective test starting: reduce_scatter_perf
[1,0]<stdout>:# nThread 1 nGpus 1 minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 20
[1,0]<stdout>:#
[1,0]<stdout>:#  Rank  0 Group  0 Pid   1478 on     node-1 device  0 [0000:00:06] NVIDIA H100 80GB HBM3
[1,0]<stdout>:#  Rank  1 Group  0 Pid   1479 on     node-1 device  1 [0000:00:07] NVIDIA H100 80GB HBM3
[1,0]<stdout>:#  Rank  2 Group  0 Pid   1480 on     node-2 device  0 [0000:00:06] NVIDIA H100 80GB HBM3
node-1:702:702 [0] NCCL INFO NET/IB : No device found.
[1,0]<stdout>:#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
[1,0]<stdout>:#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
[1,0]<stdout>:           0             0  bfloat16     sum      -1     5.00    0.00    0.00       0     5.00    0.00    0.00       0
[1,0]<stdout>:          16             2  bfloat16     sum      -1     5.86    0.00    0.00       0     5.95    0.00    0.00       0
node-1:702:702 [0] NCCL INFO something between
[1,0]<stdout>:          32             4  bfloat16     sum      -1     5.89    0.00    0.00     N/A     5.92    0.00    0.00     N/A
[1,0]<stdout>:   134217728       4194304  bfloat16     sum      -1    1.2e+3   0.01    0.01       0    1201    0.01    0.01       0
[1,0]<stdout>:# Out of bounds values : 0 OK
`

// Two runs in one file as of 2018: no group, no graph field, no program name, "error" columns.
const runOf2018 = `NCCL version 2.4.8+cuda10.1
# nThread 1 nGpus 4 minBytes 8 maxBytes 128 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#
#   Rank  0 Pid  10949 on   old-host device  0 [0x27] Tesla V100-SXM2-32GB
#   Rank  1 Pid  10949 on   old-host device  1 [0x2a] Tesla V100-SXM2-32GB
#
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
           8             2   float     sum    20.10    0.00    0.00  1e-07    19.90    0.00    0.00  0e+00
# Out of bounds values : 0 OK
# nThread 1 nGpus 8 minBytes 8 maxBytes 128 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error
        1024           256   float    25.00    0.00    0.00  1e-07    26.00    0.00    0.00  0e+00
        2048           256   float    25.00    0.00    0.00  1e-07    26.00    0.00    0.00  0e+00
# Out of bounds values : 3 FAILED
`

func TestNCCLTestsOf2026(t *testing.T) {
	f := mustRead(t, runOf2026, "whatever.txt")
	r := f.Rows[0]
	if r.Op != parallel.ReduceScatter || r.Version != "2.29.7" || r.Launch != LaunchGraph || r.DType != "bf16" || r.GPU != "NVIDIA H100 80GB HBM3" {
		t.Errorf("%+v", r)
	}
	if r.Ranks != 3 || r.Nodes != 2 || r.GPUsPerNode != 2 || r.Line != 12 || r.Bytes != 16 || r.InPlace || !near(r, 5.86) {
		t.Errorf("%+v", r)
	}
	if r := f.Rows[1]; !r.InPlace || !near(r, 5.95) {
		t.Errorf("%+v", r)
	}
	if r := f.Rows[4]; !near(r, 1200) || r.Bytes != 128<<20 {
		t.Errorf("%+v", r)
	}
}

func TestNCCLTestsOf2018(t *testing.T) {
	f := mustRead(t, runOf2018, "logs/v100-all-reduce.log")
	if len(f.Rows) != 2 || f.Rows[0].Op != parallel.AllReduce || f.Rows[0].Version != "2.4.8" || f.Rows[0].Launch != LaunchEager || f.Rows[0].Ranks != 2 {
		t.Errorf("%+v", f.Rows)
	}
	if n := reasons(f)[SkipWrong]; n != 4 {
		t.Errorf("a run with wrong results gives no rows: skipped %v", reasons(f))
	}
	_, err := Read(strings.NewReader(runOf2018), "log.txt")
	if err == nil || !strings.Contains(err.Error(), "log.txt:7: which collective?") {
		t.Errorf("neither the run nor the name says which: %v", err)
	}
}

func TestNCCLTestsLayouts(t *testing.T) {
	head := "# nThread 2 nGpus 4 minBytes 8 maxBytes 8 step: 2(factor)\n"
	for _, c := range []struct {
		name, columns, row string
		rows               int
	}{
		{"no reduction, no root", "size count type time algbw busbw error time algbw busbw error", "8 2 float 10 0 0 0 11 0 0 0", 2},
		{"CPU time", "size count type redop root cputime algbw busbw #wrong cputime algbw busbw #wrong", "8 2 half sum 0 10 0 0 0 11 0 0 0", 2},
		{"time stamps", "size count type redop root time algbw busbw #wrong time algbw busbw #wrong timestamp", "8 2 half sum 0 10 0 0 0 11 0 0 0 2026-01-02 10:11:12", 2},
		{"in place only", "size count type redop root time algbw busbw #wrong time algbw busbw #wrong", "8 2 half sum 0 N/A N/A N/A N/A 11 0 0 0", 1},
		{"no check", "size count type redop root time algbw busbw time algbw busbw", "8 2 int8 sum 0 10 0 0 11 0 0", 2},
	} {
		f := mustRead(t, head+"# "+c.columns+"\n "+c.row+"\n", "all_gather.txt")
		if len(f.Rows) != c.rows || f.Rows[0].Ranks != 8 || !near(f.Rows[len(f.Rows)-1], 11) || !f.Rows[len(f.Rows)-1].InPlace {
			t.Errorf("%s: %+v", c.name, f.Rows)
		}
	}
	_, err := Read(strings.NewReader(head+"# size count type time algbw busbw error\n 8 2 float 10 0\n"), "all_gather.txt")
	if err == nil || !strings.Contains(err.Error(), "all_gather.txt:3: 5 fields, want 7") {
		t.Errorf("%v", err)
	}
	lonely := strings.ReplaceAll(head, "nThread 2 nGpus 4", "nThread 1 nGpus 1")
	_, err = Read(strings.NewReader(lonely+"# size count type time algbw busbw error\n 8 2 float 10 0 0 0\n"), "all_gather.txt")
	if err == nil || !strings.Contains(err.Error(), "cannot tell how many ranks") {
		t.Errorf("%v", err)
	}
}

// Excerpts: no list of ranks or a cut one, NCCL's log between the lines and inside one, the command line echoed.
func TestRanksFromNCCLsLog(t *testing.T) {
	const text = `$ mpirun -np 8 ./build/all_gather_perf -b 8 -e 64 -g 1
#  Rank  7 Group  0 Pid 753027 on node02 device  3 [0000:c6:00] NVIDIA H100 80GB HBM3
node01:5:53 [2] NCCL INFO ncclCommInitRank comm 0x61 rank 2 nranks 8 cudaDev 2 nvmlDev 2 busId a6000 commId 0x4a - Init START
node01:5:53 [2] NCCL INFO comm 0x61 rank 2 nRanks 8 nNodes 2 localRanks 4 localRank 2 MNNVL 0
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
          16             4     float    none      -1    20.0    0.00    0.00      0     21.0    0.00    0.00      0
          32             8     float    none      -1node01:5:53 [2] NCCL INFO AllGather: opCount 0 sendbuff 0x7
`
	f := mustRead(t, text, "log.txt")
	if len(f.Rows) != 2 || f.Rows[0].Ranks != 8 || f.Rows[0].Nodes != 2 || f.Rows[0].GPUsPerNode != 4 || f.Rows[0].Op != parallel.AllGather {
		t.Errorf("%+v", f.Rows)
	}
	if m := reasons(f); m[SkipTorn] != 1 {
		t.Errorf("%v", m)
	}
}

func TestGroupsAtOnce(t *testing.T) {
	var b strings.Builder
	b.WriteString("# nThread 1 nGpus 1 minBytes 8\n")
	for i := range 4 {
		fmt.Fprintf(&b, "#  Rank  %d Group  %d Pid 1 on h device  %d [0000:00:06] NVIDIA A\n", i/2, i%2, i)
	}
	b.WriteString("# size count type time algbw busbw error\n8 2 float 10 0 0 0\n")
	r := mustRead(t, b.String(), "alltoall").Rows[0]
	if r.Ranks != 2 || len(r.Flags) != 1 || r.Flags[0] != "2 groups at once" {
		t.Errorf("%+v", r)
	}
}

func TestVersionNumbers(t *testing.T) {
	for v, want := range map[int]string{22803: "2.28.3", 2708: "2.7.8", 23000: "2.30.0", 21005: "2.10.5"} {
		if got := versionOf(v); got != want {
			t.Errorf("%d: %s, want %s", v, got, want)
		}
	}
}

// As nccl-tests -J writes it: booleans and NaN are strings, absent numbers null, devices inside config, one a process.
const smallJSON = `{"version":1,"start_time":"x","args":["/opt/nccl-tests/build/alltoall_perf","-J","o.json"],"env":["A=b"],"nccl_version":22803,
"config":{"nthreads":1,"ngpus":2,"graph":0,"blocking_collectives":"false",
 "devices":[{"rank":0,"group":0,"pid":7,"hostname":"n1","device":0,"device_hex":"0000:00:06","device_info":"NVIDIA H200"},
            {"rank":2,"group":0,"pid":8,"hostname":"n2","device":0,"device_hex":"0000:00:06","device_info":"NVIDIA H200"}]},
"results":[
 {"size":1024,"count":256,"type":"float","redop":"none","root":"    -1","out_of_place":{"time":20.5,"alg_bw":0.1,"bus_bw":0.1,"nwrong":0.0},"in_place":{"time":21.5,"alg_bw":0.1,"bus_bw":0.1,"nwrong":null},"actual_iterations":20},
 {"size":2048,"count":512,"type":"float","redop":"none","root":"    -1","out_of_place":null,
  "in_place":{"cpu_time":22.5,"alg_bw":0.1,"bus_bw":0.1,"nwrong":null}},
 {"size":4096,"count":512,"type":"float","redop":"none","root":"    -1","out_of_place":{"time":"nan","alg_bw":0.1,"bus_bw":0.1,"nwrong":0.0}}],
"out_of_bounds":{"count":0,"okay":"true"},"average_bus_bandwidth":{"bandwidth":1.0,"okay":"unchecked"},"errors":[],"end_time":"y"}`

func TestNCCLTestsJSON(t *testing.T) {
	r := mustRead(t, smallJSON, "o.json").Rows
	if x := r[0]; x.Op != parallel.AllToAll || x.Ranks != 4 || x.Nodes != 2 || x.GPUsPerNode != 2 || x.Version != "2.28.3" || x.Line != 6 || x.Launch != LaunchEager || x.GPU != "NVIDIA H200" {
		t.Errorf("%+v", x)
	}
	if x := r[2]; x.Line != 7 || !x.InPlace || !near(x, 22.5) {
		t.Errorf("%+v", x)
	}
	_, _, err := ReadNCCLTestsJSON(strings.NewReader("{\n\"results\": [}"), "o.json")
	if err == nil || !strings.HasPrefix(err.Error(), "o.json:2: ") {
		t.Errorf("%v", err)
	}
}

const smallReport = `apiVersion: rankmap/v1
kind: ValidationReport
layout: {name: x}
environment: {system: h200_sxm, gpu: NVIDIA H200, hosts: [vm], gpusPerNode: 2, nccl: 2.28.9, graphCapture: true}
groups:
  - {kind: tp, members: [0, 1], nodes: 1, op: all_reduce, bytes: 65536, dtype: bf16, launch: graph, times: {repeats: 50, medianUs: 7, meanUs: 7.1, p10Us: 6.9, p90Us: 7.4, spreadPercent: 7}, busGBps: 9, predicted: {us: 7.4, p10Us: 7, p90Us: 8}, verdict: pass}
  - {kind: dp, members: [0], nodes: 1, op: all_reduce, bytes: 8, dtype: bf16, launch: eager, times: {repeats: 0, medianUs: 0, meanUs: 0, p10Us: 0, p90Us: 0, spreadPercent: 0}, busGBps: 0, predicted: {us: 0, p10Us: 0, p90Us: 0}, verdict: skipped, why: one rank}
verdict: pass
`

func TestReport(t *testing.T) {
	r := mustRead(t, smallReport, "report.yaml").Rows[0]
	if r.System != "h200_sxm" || r.Ranks != 2 || r.Launch != LaunchGraph || !near(r, 7) || r.Line != 6 || r.Version != "2.28.9" {
		t.Errorf("%+v", r)
	}
	f := mustRead(t, strings.Replace(smallReport, "graphCapture: true", "graphCapture: true, env: [NCCL_NVLS_ENABLE=0, NCCL_ALGO=Ring]", 1), "r.yaml")
	if r := f.Rows[0]; !r.NoMulticast || r.ForcedAlgorithm != "Ring" {
		t.Errorf("%+v", r)
	}
	for env, want := range map[string]string{"NCCL_P2P_DISABLE=1": SkipP2POff, "NCCL_PROTO=LL": SkipForced} {
		f := mustRead(t, strings.Replace(smallReport, "graphCapture: true", "graphCapture: true, env: ["+env+"]", 1), "r.yaml")
		if len(f.Rows) != 0 || reasons(f)[want] != 1 {
			t.Errorf("%s: %d rows, %v", env, len(f.Rows), reasons(f))
		}
	}
	_, err := Read(strings.NewReader(strings.Replace(smallReport, "dtype: bf16", "dtyp: bf16", 1)), "r.yaml")
	if err == nil || !strings.Contains(err.Error(), "r.yaml:6: field dtyp not found") {
		t.Errorf("unknown keys are errors: %v", err)
	}
}

// TestNCCLTestsHeaderWithoutType: a damaged header names no element type, so its rows cannot be read.
func TestNCCLTestsHeaderWithoutType(t *testing.T) {
	torn := strings.Replace(runOf2018, "type     time", "type#    time", 1)
	if torn == runOf2018 {
		t.Fatal("the fixture's header has changed")
	}
	_, err := Read(strings.NewReader(torn), "all_reduce.txt")
	if err == nil || !strings.Contains(err.Error(), "want one named type") {
		t.Errorf("error %v, want one that names the missing column", err)
	}
}
