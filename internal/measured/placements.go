package measured

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Placement is one published run: how a model was laid out on which GPUs, and what was measured, if anything. A number
// that the row does not state is 0; one that it states in words, such as "16-24" GPUs, is 0 and listed in Unclear.
type Placement struct {
	ID, Source, Model string
	Task              string // train, prefill, decode, serve
	GPUs              int
	GPU               string // as the row names it: "A100 80GB"
	Nodes             int
	Interconnect      string
	Domain            int // GPUs that reach each other at NVLink speed
	TP, PP, DP, EP    int
	CP                int
	SP                string // yes, no or empty
	VPP               int    // virtual stages a rank
	MicroBatch        int    // sequences: of a micro-batch in training, on a GPU in serving
	Concurrency       int    // requests in flight, where the micro-batch column says so
	GlobalBatch       int    // sequences
	BatchTokens       int    // global batch in tokens, where the row counts so
	SeqLen            int    // training
	ISL, OSL          int    // serving
	Precision         string
	RankOrder         string
	Metrics           []Metric
	Evidence, Note    string
	Unclear           []string // "gpus: 16-24"
	Line              int
}

// Metric is one measured number.
type Metric struct {
	Name, Unit string
	Value      float64
}

// Family is the identity without its number: "mlperf-405b" of "mlperf-405b-001".
func (p *Placement) Family() string {
	i := strings.LastIndexByte(p.ID, '-')
	if i < 0 {
		return p.ID
	}
	return p.ID[:i]
}

// Metric returns the first metric whose name is one of names; false without.
func (p *Placement) Metric(names ...string) (Metric, bool) {
	for _, m := range p.Metrics {
		for _, n := range names {
			if m.Name == n {
				return m, true
			}
		}
	}
	return Metric{}, false
}

// placementColumns are those without which a file is no table of placements.
var placementColumns = []string{"id", "model", "task", "gpus", "gpu_type", "tp", "pp", "dp"}

// IsPlacements tells a table of placements by its header.
func IsPlacements(data []byte) bool { return header(placementColumns...)(data) }

// ReadPlacements reads a CSV table of placements by its header; columns may come in any order among others. Errors:
// missing columns, rows without identity, lines that are no CSV.
func ReadPlacements(r io.Reader, name string) ([]Placement, error) {
	t, err := newSheet(io.LimitReader(r, maxInput), name, false, placementColumns...)
	if err != nil {
		return nil, err
	}
	var out []Placement
	seen := map[string]int{}
	for t.next() {
		p := Placement{
			ID: t.str("id"), Source: t.str("source"), Model: t.str("model"), Task: t.str("task"), GPU: t.str("gpu_type"),
			Interconnect: t.str("interconnect"), SP: t.str("sp"), Precision: t.str("precision"), RankOrder: t.str("rank_order"),
			Evidence: t.str("evidence"), Note: t.str("note"), Line: t.line,
		}
		if p.ID == "" {
			t.addf(t.line, "the row has no id")
			continue
		}
		if l, dup := seen[p.ID]; dup {
			t.addf(t.line, "id %q is also on line %d", p.ID, l)
			continue
		}
		seen[p.ID] = t.line
		for _, f := range []struct {
			col  string
			into *int
		}{
			{"gpus", &p.GPUs}, {"nodes", &p.Nodes}, {"scaleup_domain", &p.Domain}, {"tp", &p.TP}, {"pp", &p.PP}, {"dp", &p.DP},
			{"ep", &p.EP}, {"cp", &p.CP}, {"vpp", &p.VPP},
		} {
			p.number(f.col, t.str(f.col), f.into)
		}
		if c, ok := strings.CutPrefix(t.str("microbatch"), "concurrency "); ok {
			p.number("concurrency", c, &p.Concurrency)
		} else {
			p.number("microbatch", t.str("microbatch"), &p.MicroBatch)
		}
		if b, ok := strings.CutSuffix(t.str("global_batch"), " tokens"); ok {
			p.BatchTokens = tokens(b)
		} else {
			p.number("global_batch", t.str("global_batch"), &p.GlobalBatch)
		}
		p.lengths(t.str("seq_len"))
		for _, m := range [][3]string{{"metric", "value", "unit"}, {"metric2", "value2", "unit2"}} {
			if v, err := strconv.ParseFloat(t.str(m[1]), 64); err == nil && !math.IsInf(v, 0) && v > 0 && t.str(m[0]) != "" {
				p.Metrics = append(p.Metrics, Metric{t.str(m[0]), t.str(m[2]), v})
			}
		}
		out = append(out, p)
	}
	return out, t.err()
}

// number fills a whole number of at least 1; anything else is noted.
func (p *Placement) number(col, s string, into *int) {
	if s == "" {
		return
	}
	v, err := strconv.Atoi(s)
	if err != nil || v < 1 || v > 1<<30 {
		p.Unclear = append(p.Unclear, fmt.Sprintf("%s: %s", col, s))
		return
	}
	*into = v
}

// lengths reads "4096", "8192/1024" or "1K/2K".
func (p *Placement) lengths(s string) {
	in, out, pair := strings.Cut(s, "/")
	switch {
	case strings.Trim(s, "/") == "":
	case pair:
		p.ISL, p.OSL = tokens(in), tokens(out)
		if p.ISL == 0 || p.OSL == 0 {
			p.Unclear = append(p.Unclear, "seq_len: "+s)
		}
	default:
		p.SeqLen = tokens(s)
		p.ISL = p.SeqLen
		if p.SeqLen == 0 {
			p.Unclear = append(p.Unclear, "seq_len: "+s)
		}
	}
}

// tokens reads a number of tokens: K = 1024, M = 1024 x 1024; 0 for anything else.
func tokens(s string) int {
	s = strings.TrimSpace(s)
	f := 1
	switch {
	case strings.HasSuffix(s, "K"):
		f = 1 << 10
	case strings.HasSuffix(s, "M"):
		f = 1 << 20
	}
	v, err := strconv.Atoi(strings.TrimRight(s, "KM"))
	if err != nil || v < 1 || v > math.MaxInt32/f {
		return 0
	}
	return v * f
}

// ModelMap says which configuration or shape a model's name in a table means.
type ModelMap struct {
	Config string // file name of a config.json
	Shape  string // "hidden=2048 layers=24 heads=16 vocab=51200 mlp=4h gelu"
}

// ReadModelMap reads a table of tab-separated model, config and shape.
func ReadModelMap(r io.Reader, name string) (map[string]ModelMap, error) {
	data, err := readAll(r, name)
	if err != nil {
		return nil, err
	}
	p := problems{name: name}
	out := map[string]ModelMap{}
	for i, line := range strings.Split(strings.TrimPrefix(string(data), "\ufeff"), "\n") {
		line = strings.TrimRight(line, "\r")
		if line == "" {
			continue
		}
		f := strings.Split(line, "\t")
		if i == 0 {
			if f[0] != "model" {
				p.addf(1, "the first column is %q, want model", f[0])
			}
			continue
		}
		if len(f) > 3 {
			p.addf(i+1, "%d fields, want model, config and shape", len(f))
			continue
		}
		f = append(f, "", "")
		out[f[0]] = ModelMap{Config: strings.TrimSpace(f[1]), Shape: strings.TrimSpace(f[2])}
	}
	return out, p.err()
}
