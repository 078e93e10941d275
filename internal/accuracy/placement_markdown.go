package accuracy

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
)

// WriteMarkdown writes the confrontation as a document: how it is scored, the totals, each family, each sweep, times, and
// why we would have decided otherwise.
func (r *Placements) WriteMarkdown(w io.Writer, command string) error {
	b := bufio.NewWriter(w)
	s := r.Summary()
	fmt.Fprintf(b, `# Published placements

What people chose and measured against what rankmap would choose. Written by %s; do not edit.

- **Decisions**: one published layout each. Every layout of the same GPUs that the same engine can run is priced with the
  precision, batch, sequence length and micro-batch that the row states; distinct (tp, pp, cp, ep) are ranked by their best
  settings. *Top 3*: the published degrees are among our first three, where fewer than three others are better by more than
  1 %% (prices are not known more closely, so such layouts share a place). *Within 15 %%*: the published layout fits the memory
  as we count it and its predicted cost, priced exactly as stated, is at most 1.15 of our best.
  A serving row is one instance of an engine: layouts that are several smaller instances are another decision, which the
  table lists with fewer GPUs, and are not compared (MLPerf Inference states whole systems: there they are); nor are pipelines
  where at least half of a row's SGLang recipes draft tokens, which SGLang runs without one. The engine's own
  all-reduce kernels run inside its nodes. A recipe is compared under the load that the name of its file tells: sequences on an
  instance or users of all (TensorRT-LLM's ctx, gen and batch), or the low end, the high end or the middle of the users that
  the row states (low-latency, max-tpt, mid-curve). Where the name tells nothing and the users range over more than a factor of
  4, the layout serves them all and counts where it does best of both ends and the middle; where no users are stated, of one
  request alone and as many as fit. *By chance* is the share of all layouts of the same GPUs that would count as in the top 3
  under the same rules. A prefill instance whose users, at 50 tokens a second each, bring prompts for less than half of its
  time is compared by the time to the first token of one prompt, others by throughput. Of requests in flight as many count as the row's layout holds; the others wait. Where ep does not divide the experts a layer holds the copies that the row states, or the fewest that make it.
- **Sweeps**: layouts of one model on one machine with one batch. Spearman's rank correlation of predicted and measured
  order where three or more were measured.
- **Times**: |predicted/measured - 1| of the rows' own layouts.

What was derived from rows of this table: the sustained clock of A100 (source sc22), the host's time for an operation of eager
training (ten rows of vtrain-single), the extra launches of expert layers in training (Qwen3 rows of mbridge) and the least
width of a training step's interval (rows with even numbers). Clocks of other GPUs, kernels and collectives come from other tables. Settled after seeing rows: plans take their matrix products from the
records of plain kernels rather than of TensorRT-LLM's tables; which layouts a row is compared with (above; causes were sought
on one half of the rows); and what a source's runs do beside their degrees (overlapped tensor-parallel traffic, gradients in
bf16, experts' tokens sent once a rank, full recomputation before 2023; on Hopper with virtual stages experts' exchange beside
another micro-batch, parameters of fp8 runs gathered in fp8, no sharded parameters in MXFP8 and FP4, adapters of rank 16, CUDA
graphs and 12 virtual stages in MLPerf runs), which is held for every candidate of that source as its recipes and papers state
it. rankmap plan assumes none of this. A row's stages are even where its layers divide, else levelled as a search would. Causes
in training decisions were sought on rows with odd numbers.

| | |
|---|---|
| decisions | %d |
| in our top 3 | %s %% |
| by chance | %s %% |
| within 15 %% of our best | %s %% |
`, command, s.N, percents(s.InTop3), percents(s.Chance), percents(s.Within15))
	if s.Spearman != nil {
		fmt.Fprintf(b, "| sweeps of 3 or more, median rank correlation | %d, %.2f |\n| pairs of a sweep in the measured order | %s %% |\n", s.Sweeps, *s.Spearman, percents(s.PairsRight))
	}
	fmt.Fprintf(b, "\n## Decisions by source\n\n| source | rows | top 3 %% | by chance %% | within 15 %% |\n|---|---|---|---|---|\n")
	for _, f := range s.Families {
		fmt.Fprintf(b, "| %s | %d | %s | %s | %s |\n", f.Family, f.N, percents(f.InTop3), percents(f.Chance), percents(f.Within15))
	}
	fmt.Fprintf(b, "\n## Sweeps\n\n| source | model | machine | batch | layouts | rank correlation | pairs right |\n|---|---|---|---|---|---|---|\n")
	for _, g := range r.Sweeps {
		if math.IsNaN(g.Spearman) {
			continue
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %d | %.2f | %d of %d |\n", g.Family, cell(g.Model), g.GPU, g.Batch, g.N, g.Spearman, g.Right, g.Pairs)
	}
	fmt.Fprintf(b, "\n## Times\n\n| source | what | rows | median / p90 %% | bias %% | in the 80 %% interval |\n|---|---|---|---|---|---|\n")
	for _, x := range s.Times {
		fmt.Fprintf(b, "| %s | %s | %d | %s / %s | %s | %s %% |\n", x.Family, x.Kind, x.N, percents(x.MedianAPE), percents(x.P90APE), signed(x.Bias), percents(x.Coverage))
	}
	fmt.Fprintf(b, "\n## Decisions that we would not have taken\n\n`rankmap validate --placements FILE` prints each of them with its rank, its cost and the reason. The reasons, counted by the\npart that our choice would save most:\n\n| our choice saves most in | decisions |\n|---|---|\n")
	for _, k := range r.savings() {
		fmt.Fprintf(b, "| %s | %d |\n", cell(k.Reason), k.N)
	}
	fmt.Fprintf(b, "\n## Not counted\n\n| rows | why |\n|---|---|\n")
	for _, k := range r.Skipped {
		fmt.Fprintf(b, "| %d | %s |\n", k.N, cell(k.Reason))
	}
	return b.Flush()
}

var savingText = regexp.MustCompile(`of the row's step in ([a-z -]+?)( and pay|$)`)

// savings counts the disagreements by what our own choice would save, most frequent first.
func (r *Placements) savings() []Skipped {
	n := map[string]int{}
	for i := range r.Choices {
		c := &r.Choices[i]
		if c.top() && c.near() {
			continue
		}
		what := "something else (memory, a rule, a tie)"
		if m := savingText.FindStringSubmatch(c.Reason); m != nil {
			what = m[1]
		}
		n[what]++
	}
	var out []Skipped
	for _, k := range slices.Sorted(maps.Keys(n)) {
		out = append(out, Skipped{Reason: k, N: n[k]})
	}
	slices.SortStableFunc(out, func(a, b Skipped) int { return b.N - a.N })
	return out
}

// cell keeps text inside one table cell.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(s)
}
