package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"rankmap/compute"
	"rankmap/internal/accuracy"
	"rankmap/internal/measured"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

const preface = `# Accuracy

Written by ` + "`make accuracy`" + `; do not edit. Every number is percent: median / 90th percentile of |predicted/measured - 1|; bias is the
median of predicted/measured - 1; "in 80 %" is the share of rows inside the predicted 80 % interval. Beside ours stand the textbook's
ring (2 us a step in a node, 5 us across, nominal links) and NCCL's own tuning model (` + "`collective/nccltune`" + `; it has none for
all-to-all and send/recv).

`

// target is one line of the table of goals.
type target struct {
	what        string
	cases       []accuracy.Case
	median, p90 float64 // goals, percent; 0 = none
	cause       string  // why it is hard; printed when the goal is missed
}

// verdict names misses as misses.
func (t *target) verdict() string {
	s := accuracy.Score(t.cases, accuracy.Ours)
	switch {
	case s.N == 0:
		return "not run: no rows"
	case s.MedianAPE > t.median && t.median > 0 || s.P90APE > t.p90 && t.p90 > 0:
		return "**missed**"
	case t.median == 0:
		return ""
	}
	return "met"
}

// publicPart writes everything that needs the tables, and draws the plots.
func publicPart(w io.Writer, data string) (map[string][]byte, error) {
	single, err := read(filepath.Join(data, "public", "collectives.csv"))
	if err != nil {
		return nil, err
	}
	published, err := read(filepath.Join(data, "public", "published_tables.csv"))
	if err != nil {
		return nil, err
	}
	c, err := confronter(accuracy.Options{})
	if err != nil {
		return nil, err
	}
	io.WriteString(w, preface)
	exchanges, err := read(filepath.Join(data, "public", "deepep.csv"), filepath.Join(data, "public", "nvl_alltoall.csv"))
	if err != nil {
		return nil, err
	}
	h := accuracy.NewHeldOut(c, slices.Concat(single, published, exchanges)...)
	if err := targets(w, h); err != nil {
		return nil, err
	}

	fmt.Fprint(w, "## One NVLink or PCIe domain\n\nEvery row of the tables that the profiles were fitted to: how well the shipped profiles remember. What they do on rows\nthat they have not seen stands above.\n\n")
	res := c.Rows(single...)
	nccl, kernels := byLibrary(res.Cases)
	bySystem(w, nccl)
	byOpAndSize(w, nccl)
	skipped(w, res)

	fmt.Fprint(w, "## Kernels that engines use\n\nAll-reduces of vLLM, SGLang and TensorRT-LLM (one domain; launched from a graph unless it says eager), and expert-parallel\nexchanges of DeepEP and TensorRT-LLM. Fitted to these rows.\n\n")
	byOp(w, kernels)
	moe := c.Rows(exchanges...)
	byOp(w, moe.Cases)
	skipped(w, moe)

	if err := computations(w, c, data); err != nil {
		return nil, err
	}

	if err := steps(w, filepath.Join(data, "h200-x2", "step.csv")); err != nil {
		return nil, err
	}
	if err := servingPart(w, data); err != nil {
		return nil, err
	}

	if err := training(w, filepath.Join(data, "public", "megatron_sp.csv")); err != nil {
		return nil, err
	}

	fmt.Fprint(w, "## Other people's clusters\n\nPublished nccl-tests tables of healthy runs, eager. Profiles of GPUs and hosts were never fitted to them; the networks' were (the\nsplit by source stands above).\n\n")
	other := c.Rows(published...)
	byNodes(w, other.Cases)
	byOpAndSize(w, other.Cases)
	skipped(w, other)
	return plots(w, c, single[0].Rows)
}

// computationGoals are the targets on rows that were not fitted.
var computationGoals = []struct {
	what, kind  string
	median, p90 float64
	cause       string // why it is hard; printed when the goal is missed
}{
	{"GEMM", "gemm", 4, 15, ""}, {"attention prefill", "attn_prefill", 3, 12, ""}, {"attention decode", "attn_decode", 7, 22, ""},
	{"MoE", "moe", 8, 30, "nvfp4 on B200 and GB200, where two kernels a factor of two apart stand under one key, is 26 / 57 and 15 / 48; each of the two alone is 10 to 12 / 23 to 32, and a plan takes the faster. The other types have medians of 3 to 9"},
	{"MLA prefill", "mla_prefill", 3, 10, ""}, {"MLA decode", "mla_decode", 4, 14, ""},
}

func ofKind(cases []accuracy.Case, kind string) []accuracy.Case {
	var out []accuracy.Case
	for _, c := range cases {
		if c.Collective == kind {
			out = append(out, c)
		}
	}
	return out
}

// computations scores the operation tables: the shapes that no fit saw, then all of them.
func computations(w io.Writer, c *accuracy.Confronter, data string) error {
	var patterns []string
	for _, t := range []string{"gemm", "context_attention", "generation_attention", "moe", "context_mla", "generation_mla"} {
		patterns = append(patterns, filepath.Join(data, "public", t+".csv"))
	}
	tables, err := read(patterns...)
	if err != nil {
		return err
	}
	res := c.Rows(tables...)
	var unseen []accuracy.Case
	for _, x := range res.Cases {
		if compute.HeldOut(x.Op) {
			unseen = append(unseen, x)
		}
	}
	fmt.Fprint(w, "## Computations on one GPU\n\nOperations inside TensorRT-LLM. First the one shape in five that takes no part in any fit, then all rows.\n\n")
	var cells [][]string
	for _, g := range computationGoals {
		t := target{what: g.what, cases: ofKind(unseen, g.kind), median: g.median, p90: g.p90}
		s := accuracy.Score(t.cases, accuracy.Ours)
		cells = append(cells, []string{t.what, fmt.Sprint(s.N), "**" + pair(s) + "**", number(s.Bias), number(s.Coverage), number(t.median) + " / " + number(t.p90), t.verdict()})
	}
	table(w, []string{"not fitted", "rows", "**rankmap**", "bias", "in 80 %", "target", ""}, cells)
	for i, g := range computationGoals {
		if g.cause != "" && strings.Contains(cells[i][len(cells[i])-1], "missed") {
			fmt.Fprintf(w, "%s: %s.\n\n", g.what, g.cause)
		}
	}
	byKernel(w, unseen)
	byType(w, res.Cases)
	skipped(w, res)
	return halfTables(w, c, tables)
}

// byLibrary tells NCCL's collectives from frameworks' own kernels.
func byLibrary(cases []accuracy.Case) (nccl, others []accuracy.Case) {
	for _, c := range cases {
		if c.Row.Library == "nccl" {
			nccl = append(nccl, c)
		} else {
			others = append(others, c)
		}
	}
	return nccl, others
}

// siblings and generations are pairs: the profile of the first, used for the second.
var (
	siblings    = [][2]string{{"h100_sxm", "h200_sxm"}, {"h200_sxm", "h100_sxm"}, {"b200_sxm", "gb200"}, {"gb200", "b200_sxm"}}
	generations = [][2]string{{"a100_sxm", "h100_sxm"}, {"a100_sxm", "h200_sxm"}, {"h100_sxm", "b200_sxm"}, {"h200_sxm", "gb200"}}
)

// fabric picks rows by network.
func fabric(name string) func(*measured.Row) bool {
	return func(r *measured.Row) bool { return r.Fabric == name && !firstEFA(r) }
}

// firstEFA recognises p4d: 100 Gb/s adapters, one for two GPUs.
func firstEFA(r *measured.Row) bool {
	return r.Fabric == "EFA" && r.NICRate <= units.Gbps(100) && r.NICs < r.GPUsPerNode
}

// targets fits again without what is then asked for.
func targets(w io.Writer, h *accuracy.HeldOut) error {
	generation, err := h.FromGeneration(generations...)
	if err != nil {
		return err
	}
	rows := []target{
		{"h100, h200, b200: one NCCL version left out", h.VersionLeftOut("h100_sxm", "h200_sxm", "b200_sxm"), 1.9, 7.5,
			"each version of a system was measured in one campaign, and there are two versions a system: leaving one out leaves out half of the runs, and what is left differs from it by a common factor (see the bias by system) that no row of the other version shows"},
		{"one run of a measured version left out", h.RunLeftOut(), 0, 0, ""},
		{"n = 4 left out", h.RanksLeftOut(4), 3, 12, "large all-to-all and the sizes where NCCL changes protocol bend between 2 and 8 ranks"},
		{"sibling's profile: h100 and h200, b200 and gb200", h.FromSibling(siblings...), 4, 12, ""},
		{"previous generation's profile, 8 calibration points", generation, 4.5, 15,
			"eight all-reduces say little about all-to-all, whose small sizes NCCL changed most between versions"},
		{"InfiniBand, a source left out", h.SourceLeftOut("infiniband", fabric("InfiniBand")), 8, 22,
			"the sites disagree: small all-gathers take 16 us between two nodes of four H100 and 36 between two of eight A100, more than hops and hosts explain; MareNostrum's all-reduces above 16 MiB fall behind with the nodes (2 % on 4, 30 % on 32); twenty racks (1,440 GPUs) take 2.3 times as long as the form says and are flagged as extrapolated"},
		{"EFA (p5), a source left out", h.SourceLeftOut("efa", fabric("EFA")), 8, 20, "two runs of one instance type"},
		{"RoCE, a source left out", h.SourceLeftOut("roce", fabric("RoCE")), 14, 40,
			"two sources; 74 of the rows are of single GPUs in pods that reach two thirds of their NIC, which single GPUs on no other network do; the full nodes of the other source are within 3 % from 32 MiB"},
		{"Slingshot, a source left out", h.SourceLeftOut("slingshot", fabric("Slingshot")), 20, 50,
			"the valley between 4 KiB and 4 MiB comes from rendezvous thresholds of the plugin; it moves from site to site, where 1 MiB between two nodes takes 130 or 900 us, and no smooth form has it; all-to-all comes from one publisher, whose GPUs share a NIC in pairs and get 0.36 to 0.59 of it"},
		{"custom all-reduce in a graph, a version left out", h.CustomVersionLeftOut(), 3, 12, "on GB200 (92 rows) the two versions of vLLM differ by a factor of 1.5 at every size (7 and 4.6 us at the smallest; from 8 MiB on two ranks the newer moves half of what the older does), which neither shows of the other, and no sibling was measured with both"},
		{"DeepEP, a hidden size left out", h.ExchangeLeftOut("deepep", false, func(r *measured.Row) int { return r.Exchange.Hidden }), 3, 10,
			"rows of one token a rank, and width 5120, which is the only one with top 1"},
		{"DeepEP over nodes, a node count left out", h.ExchangeLeftOut("deepep", true, func(r *measured.Row) int { return r.Nodes }), 3, 10,
			"low latency is within it (2 to 7 %); normal mode over eight nodes moves 0.45 of what its NICs bring, over four 0.95: neither the rows of two and four nodes nor low latency over eight show that, and four nodes between the others suffer from it in turn"},
		{"NVLink all-to-all, a group size left out", h.ExchangeLeftOut("trtllm", false, func(r *measured.Row) int { return r.Ranks }), 4, 12,
			"what a token costs whatever its copies shows on two ranks alone: leaving them out misses the one-sided dispatch by 8 / 43; combine on 16 and 64 ranks takes 30 to 70 us for one token in single rows"},
	}
	fmt.Fprint(w, "## Rows that were not fitted\n\nEach line fits the profiles again without the rows that it then predicts.\n\n")
	var cells [][]string
	for i := range rows {
		t := &rows[i]
		goal := "-"
		if t.median > 0 {
			goal = fmt.Sprintf("%s / %s", number(t.median), number(t.p90))
		}
		cells = append(cells, append(append([]string{t.what}, errorCells(t.cases)...), goal, t.verdict()))
	}
	table(w, append(append([]string{"what"}, errorsHead...), "target", ""), cells)
	for i := range rows {
		if t := &rows[i]; t.verdict() == "**missed**" && t.cause != "" {
			fmt.Fprintf(w, "- %s: %s.\n", t.what, t.cause)
		}
	}
	fmt.Fprintln(w)
	for _, t := range rows {
		if len(t.cases) > 0 {
			fmt.Fprintf(w, "%s, by collective and size:\n\n", t.what)
			byOpAndSize(w, t.cases)
		}
	}
	coverage(w, rows)
	return nil
}

// judged is the least number of rows of a class that is judged.
const judged = 50

// coverage names the classes whose interval is too narrow or too wide: 75 to 88 % of the rows should lie inside.
func coverage(w io.Writer, rows []target) {
	good, all := 0, 0
	var bad [][]string
	for _, t := range rows {
		for _, c := range accuracy.Classes(t.cases, func(c *accuracy.Case) accuracy.Key { return accuracy.Key{Collective: c.Collective, Size: c.Size} }) {
			s := accuracy.Score(c.Cases, accuracy.Ours)
			if s.N < judged {
				continue
			}
			if all++; s.Coverage >= 75 && s.Coverage <= 88 {
				good++
				continue
			}
			bad = append(bad, []string{t.what, c.Collective, c.Size.String(), fmt.Sprint(s.N), number(s.Coverage)})
		}
	}
	fmt.Fprintf(w, "Share inside the 80 %% interval (target 75 to 88 in classes of %d rows and more): %d of %d classes; the others:\n\n", judged, good, all)
	table(w, []string{"what", "collective", "size", "rows", "in 80 %"}, bad)
}

// plotted systems: the largest group that the table has.
var plotted = []struct {
	system string
	ranks  int
}{{"a100_sxm", 8}, {"h100_sxm", 8}, {"h200_sxm", 8}, {"b200_sxm", 8}, {"gb200", 4}, {"rtx_pro_6000_server", 8}}

// plots draws predicted curves against measured points, one picture a system.
func plots(w io.Writer, c *accuracy.Confronter, rows []measured.Row) (map[string][]byte, error) {
	fmt.Fprint(w, "## Curves\n\nLines are predicted, shades the 80 % interval, dots measured (every repeat and NCCL version).\n\n")
	out := map[string][]byte{}
	for _, p := range plotted {
		var curves []accuracy.Curve
		for _, op := range []parallel.Op{parallel.AllReduce, parallel.AllGather, parallel.ReduceScatter, parallel.AllToAll} {
			var some []measured.Row
			for _, r := range rows {
				if r.System == p.system && r.Ranks == p.ranks && r.Op == op && r.Library == "nccl" && r.DType == "fp16" {
					some = append(some, r)
				}
			}
			if len(some) == 0 {
				continue
			}
			curve, err := c.Curve(op.String(), some)
			if err != nil {
				return nil, err
			}
			curves = append(curves, curve)
		}
		if len(curves) == 0 {
			continue
		}
		name := p.system + ".svg"
		out[name] = accuracy.SVG(fmt.Sprintf("%s, %d GPUs, NCCL", p.system, p.ranks), curves)
		fmt.Fprintf(w, "![%s](accuracy/%s)\n\n", p.system, name)
	}
	return out, nil
}
