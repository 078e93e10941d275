package report

import (
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"rankmap/layout"
	"rankmap/planner/whatif"
)

// comparison is a small document with a hostile name and a machine without a plan.
func comparison() *whatif.Comparison {
	col := func(name string, tokens float64) *whatif.Column {
		return &whatif.Column{
			Name: name, GPUs: 8, Machine: whatif.MachineFacts{GPU: "h100_sxm", GPUs: 8, Paid: 8, Nodes: 1, Domains: 1, DomainGPUs: 8, NVLinkGBps: 450},
			Strategy: &layout.Strategy{TP: 8, PP: 1, DP: 1, CP: 1, EP: 1, ExpertTP: 1}, Binding: "moe (60 % of the step, memory)",
			Predicted: &layout.Predicted{TPOTMs: 10, StepMs: 10, StepP10Ms: 8, StepP90Ms: 13, TokensPerSecondPerGPU: tokens, Batch: 64, Parts: []layout.Part{
				{Name: "moe", Kind: "compute", Ms: 6, Share: 60}, {Name: "attention", Kind: "tp", Ms: 4, Share: 40, Bound: "NVLink 450 GB/s"},
			}},
			Memory:        &layout.Memory{CapacityGB: 80, UsedGB: 60},
			Communication: []whatif.Communication{{Kind: "tp", Link: "NVLink 450 GB/s", Ms: 4, Share: 40}},
		}
	}
	none := &whatif.Column{Name: "small", Binding: "memory", Infeasible: "memory: too small", Machine: whatif.MachineFacts{GPU: "l40s", GPUs: 1, Paid: 1}}
	return &whatif.Comparison{
		APIVersion: whatif.APIVersion, Kind: whatif.Kind, Model: layout.Source{Name: `</title><script>alert("x")</script>`},
		Workload: layout.Workload{Task: "decode", ISL: 1024, OSL: 512, Objective: "throughput"},
		Columns:  []*whatif.Column{col("=cmd|' /C calc'!A0", 800), col("b\x1b[31m", 1600), none},
		Diff:     []whatif.Difference{{Column: "b", What: "tokensPerSecondPerGpu", Before: "800", After: "1600", Percent: 100, Why: "<b>"}},
	}
}

func sweep() *whatif.Comparison {
	c := comparison()
	c.Sweep = &whatif.SweepResult{Axis: "gpus", Machines: []string{"a", "b"}, Metric: "tokensPerSecondPerGpu", Crossings: []whatif.Crossing{
		{Below: 16, Above: 24, Text: "a: from gpus 24 on: pp2"}, {Below: 16, Above: 24, Text: "best machine"},
	}}
	one := c.Columns[0]
	c.Columns = nil
	for _, name := range c.Sweep.Machines {
		for i, v := range []float64{8, 16, 64} {
			x := *one
			x.Name, x.At = name, &whatif.Position{Axis: "gpus", Value: v, Text: []string{"8", "16", "64"}[i]}
			if name == "b" && i == 1 {
				x.Predicted, x.Strategy = nil, nil
			}
			c.Columns = append(c.Columns, &x)
		}
	}
	return c
}

func TestPagesAreWellFormedAndHoldNoScript(t *testing.T) {
	for _, c := range []*whatif.Comparison{comparison(), sweep()} {
		var b strings.Builder
		if err := WhatIfHTML(&b, c); err != nil {
			t.Fatal(err)
		}
		page := b.String()
		if strings.Contains(page, "<script") || strings.Contains(page, "<b>\n") || strings.Contains(page, "NaN") || strings.Contains(page, "Inf") || strings.Contains(page, "\x1b") {
			t.Errorf("page: %s", page)
		}
		if !strings.Contains(page, "default-src 'none'; style-src 'sha256-") {
			t.Error("no content security policy")
		}
		for _, part := range strings.Split(page, "<svg")[1:] {
			svg := "<svg" + part[:strings.Index(part, "</svg>")] + "</svg>"
			d := xml.NewDecoder(strings.NewReader(svg))
			for {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%v in %s", err, svg)
				}
			}
		}
	}
}

func TestTablesOfComparisons(t *testing.T) {
	var b strings.Builder
	if err := WhatIf(&b, comparison(), WhatIfOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"tp8", "no plan: memory: too small", "4 ms, 40 % over NVLink 450 GB/s", "+100 %", "1 domain of 8, 450 GB/s"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := WhatIf(&b, sweep(), WhatIfOptions{Width: 80}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"crossing points", "from gpus 24 on", "no plan"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestNarrowTerminalsGetBlocks(t *testing.T) {
	var b strings.Builder
	if err := WhatIf(&b, comparison(), WhatIfOptions{Width: 60}); err != nil {
		t.Fatal(err)
	}
	if strings.Count(b.String(), "machine  ") < 3 {
		t.Errorf("want a block a machine:\n%s", b.String())
	}
}

func TestCSVHasOneWidthAndNoFormulas(t *testing.T) {
	var b strings.Builder
	if err := WhatIfCSV(&b, comparison()); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if !strings.HasPrefix(rows[1][0], "'=") || rows[3][len(rows[3])-1] != "memory: too small" {
		t.Errorf("%q", rows)
	}
}
