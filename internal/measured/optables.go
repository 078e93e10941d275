package measured

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"rankmap/internal/units"
)

// OpRow is one measured computation on one GPU. Fields that its kind does not use are 0.
type OpRow struct {
	Line      int    // in the file
	Kind      string // "gemm", "attn_prefill", "attn_decode", "moe", "mla_prefill", "mla_decode", "copy"
	System    string // as the table writes it, such as "h200_sxm"
	Version   string // of the library
	Framework string // "trtllm" for the tables of TensorRT-LLM, "plain" for PyTorch
	DType     string // "bf16", "fp8", "fp8_static", "fp8_block", "nvfp4", "int8", "w4a16_mxfp4", ...
	Cache     string // type of the cached elements

	M, N, K                        int // gemm
	Batch, Heads, KVHeads, HeadDim int // attention
	Tokens, Context, Window        int // new tokens a sequence, tokens read, window (0 = none)

	Hidden, Inter, TopK, Experts, ExpertTP, EP int    // moe; M holds the tokens of the whole expert-parallel group
	Routing                                    string // "balanced", "power_law_1.2", ...

	Bytes units.Bytes // copy: read and written together
	Time  units.Duration
}

// StepRow is one measured stack of layers: step.csv.
type StepRow struct {
	Line     int
	Model    string // "llama70b"
	TP       int
	Phase    string // "decode", "prefill"
	Batch    int    // sequences
	Tokens   int    // new tokens a sequence
	Context  int    // tokens the attention reads
	Comm     bool   // with its all-reduces
	Layers   int
	Time     units.Duration // of all layers
	PerLayer units.Duration
}

// maxTable caps a table of measured operations, bytes.
const maxTable = 64 << 20

// maxProblems caps the problems that one reading reports.
const maxProblems = 20

// opTypes maps the spellings of the tables to ours.
var opTypes = map[string]string{"bfloat16": "bf16", "float16": "fp16", "sq": "int8"}

func opType(s string) string {
	if t, ok := opTypes[s]; ok {
		return t
	}
	return s
}

// opReader fills a row from named columns.
type opReader struct {
	kind string
	cols []string // that make this table recognisable, all required
	fill func(r *record, o *OpRow)
}

var opReaders = []opReader{
	{"gemm", []string{"system", "version", "gemm_dtype", "m", "n", "k", "time_us"}, func(r *record, o *OpRow) {
		o.DType, o.M, o.N, o.K = opType(r.str("gemm_dtype")), r.int("m"), r.int("n"), r.int("k")
	}},
	{"attn_prefill", []string{"system", "version", "attn_dtype", "kv_cache_dtype", "batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "window_size", "time_us"}, func(r *record, o *OpRow) {
		r.attention(o)
		o.Tokens = r.int("isl")
		o.Context = o.Tokens
	}},
	{"attn_decode", []string{"system", "version", "attn_dtype", "kv_cache_dtype", "batch_size", "isl", "step", "num_heads", "num_key_value_heads", "head_dim", "window_size", "time_us"}, func(r *record, o *OpRow) {
		r.attention(o)
		o.Tokens, o.Context = 1, r.int("step")+1
	}},
	{"moe", []string{"system", "version", "moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution", "time_us"}, func(r *record, o *OpRow) {
		o.DType, o.M, o.Hidden, o.Inter = opType(r.str("moe_dtype")), r.int("num_tokens"), r.int("hidden_size"), r.int("inter_size")
		o.TopK, o.Experts, o.ExpertTP, o.EP = r.int("topk"), r.int("num_experts"), r.int("moe_tp_size"), r.int("moe_ep_size")
		o.Routing = r.str("distribution")
	}},
	{"mla_prefill", []string{"system", "version", "mla_dtype", "kv_cache_dtype", "num_heads", "batch_size", "isl", "time_us"}, func(r *record, o *OpRow) {
		o.DType, o.Cache = opType(r.str("mla_dtype")), opType(r.str("kv_cache_dtype"))
		o.Batch, o.Heads, o.Tokens = r.int("batch_size"), r.int("num_heads"), r.int("isl")
		o.Context = o.Tokens
	}},
	{"mla_decode", []string{"system", "version", "mla_dtype", "kv_cache_dtype", "num_heads", "batch_size", "isl", "step", "time_us"}, func(r *record, o *OpRow) {
		o.DType, o.Cache = opType(r.str("mla_dtype")), opType(r.str("kv_cache_dtype"))
		o.Batch, o.Heads, o.Tokens, o.Context = r.int("batch_size"), r.int("num_heads"), 1, r.int("step")+1
	}},
}

// record is one line with named columns; it keeps the first problem.
type record struct {
	cols map[string]int
	vals []string
	err  error
}

func (r *record) str(name string) string { return r.vals[r.cols[name]] }

func (r *record) int(name string) int {
	v, err := strconv.Atoi(r.str(name))
	if (err != nil || v < 0) && r.err == nil {
		r.err = fmt.Errorf("%s is %q, want a whole number of 0 or more", name, r.str(name))
	}
	return v
}

func (r *record) micros(name string) units.Duration {
	v, err := strconv.ParseFloat(r.str(name), 64)
	if (err != nil || math.IsNaN(v) || v <= 0 || v > 1e12) && r.err == nil {
		r.err = fmt.Errorf("%s is %q, want microseconds above 0", name, r.str(name))
	}
	return units.Micros(v)
}

func (r *record) attention(o *OpRow) {
	o.DType, o.Cache = opType(r.str("attn_dtype")), opType(r.str("kv_cache_dtype"))
	o.Batch, o.Heads, o.KVHeads = r.int("batch_size"), r.int("num_heads"), r.int("num_key_value_heads")
	o.HeadDim, o.Window = r.int("head_dim"), r.int("window_size")
}

// Ops reads a table of measured computations: the six TensorRT-LLM tables (gemm, context and generation attention and
// MLA, moe) or the PyTorch table "kind,name,m,k,n,time_us". The header tells which. system is given to rows of a table
// without such a column. Rows of size 0 exist in published tables and are left out; other bad rows are errors with
// name:line, all of them at once up to 20, beside the rows that are good.
func Ops(r io.Reader, name, system string) ([]OpRow, error) {
	rows, cols, err := table(r, name)
	if err != nil {
		return nil, err
	}
	for _, t := range opReaders {
		if len(t.cols) <= len(cols) && hasAll(cols, t.cols) && t.distinct(cols) {
			return readOps(rows, cols, name, t)
		}
	}
	if hasAll(cols, []string{"kind", "name", "m", "k", "n", "time_us"}) {
		return plainOps(rows, cols, name, system)
	}
	return nil, fmt.Errorf("%s:1: not a table of measured computations: no known set of columns in %s", name, strings.Join(rows.header, ","))
}

// distinct tells a prefill table from a decode table: only the latter has a step column.
func (t opReader) distinct(cols map[string]int) bool {
	_, step := cols["step"]
	return !step || t.kind == "attn_decode" || t.kind == "mla_decode"
}

func hasAll(cols map[string]int, want []string) bool {
	for _, w := range want {
		if _, ok := cols[w]; !ok {
			return false
		}
	}
	return true
}

// csvTable is a table read line by line.
type csvTable struct {
	*csv.Reader
	header []string
}

func table(r io.Reader, name string) (*csvTable, map[string]int, error) {
	c := csv.NewReader(io.LimitReader(r, maxTable))
	c.ReuseRecord = true
	c.FieldsPerRecord = -1 // checked with our own message
	head, err := c.Read()
	if err != nil {
		return nil, nil, fmt.Errorf("%s:1: no header line: %w", name, err)
	}
	t := &csvTable{Reader: c, header: append([]string(nil), head...)}
	cols := map[string]int{}
	for i, h := range t.header {
		cols[strings.TrimSpace(strings.TrimPrefix(h, "\ufeff"))] = i
	}
	return t, cols, nil
}

// each calls f for every line and gathers its problems.
func (t *csvTable) each(name string, f func(line int, vals []string) error) error {
	var errs []error
	for len(errs) < maxProblems {
		vals, err := t.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			break
		}
		line, _ := t.FieldPos(0)
		if len(vals) != len(t.header) {
			errs = append(errs, fmt.Errorf("%s:%d: %d fields, want %d", name, line, len(vals), len(t.header)))
			continue
		}
		if err := f(line, vals); err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", name, line, err))
		}
	}
	return errors.Join(errs...)
}

func readOps(t *csvTable, cols map[string]int, name string, rd opReader) ([]OpRow, error) {
	var out []OpRow
	err := t.each(name, func(line int, vals []string) error {
		r := record{cols: cols, vals: vals}
		o := OpRow{Line: line, Kind: rd.kind, Framework: "trtllm", System: strings.Clone(r.str("system")), Version: strings.Clone(r.str("version"))}
		rd.fill(&r, &o)
		o.Time = r.micros("time_us")
		o.DType, o.Cache, o.Routing = strings.Clone(o.DType), strings.Clone(o.Cache), strings.Clone(o.Routing)
		if r.err != nil || o.empty() {
			return r.err
		}
		out = append(out, o)
		return nil
	})
	return out, err
}

// empty says that the row computes nothing.
func (o *OpRow) empty() bool {
	switch o.Kind {
	case "gemm":
		return o.M == 0 || o.N == 0 || o.K == 0
	case "moe":
		return o.M == 0 || o.Experts == 0 || o.EP == 0 || o.ExpertTP == 0 || o.TopK == 0
	case "copy":
		return o.Bytes == 0
	}
	return o.Batch == 0 || o.Heads == 0 || o.Tokens == 0
}

// plainOps reads compute.csv: kind is gemm_TYPE, copy, attn_decode or attn_prefill. A copy names its bytes in m, which
// are read and written; attention names batch in m, tokens in k, heads in n and the rest in its name
// ("b16_L8192_h64_kv8", heads of 128).
func plainOps(t *csvTable, cols map[string]int, name, system string) ([]OpRow, error) {
	var out []OpRow
	err := t.each(name, func(line int, vals []string) error {
		r := record{cols: cols, vals: vals}
		o := OpRow{Line: line, System: system, Framework: "plain", Kind: r.str("kind"), DType: "bf16", Time: r.micros("time_us")}
		m, n, k := r.int("m"), r.int("n"), r.int("k")
		switch typ, isGEMM := strings.CutPrefix(o.Kind, "gemm_"); {
		case isGEMM:
			o.Kind, o.DType, o.M, o.N, o.K = "gemm", strings.Clone(opType(typ)), m, n, k
		case o.Kind == "copy":
			o.Kind, o.Bytes = "copy", units.Bytes(2*m)
		case o.Kind == "attn_decode" || o.Kind == "attn_prefill":
			o.Kind, o.Cache = strings.Clone(o.Kind), "bf16"
			o.Batch, o.Context, o.Heads, o.HeadDim, o.Tokens = m, k, n, 128, 1
			if o.Kind == "attn_prefill" {
				o.Tokens = k
			}
			_, kv, ok := strings.Cut(r.str("name"), "_kv")
			v, err := strconv.Atoi(kv)
			if !ok || err != nil || v < 1 {
				return fmt.Errorf("name is %q, want one like b16_L8192_h64_kv8", r.str("name"))
			}
			o.KVHeads = v
		default:
			return fmt.Errorf("kind is %q, want gemm_TYPE, copy, attn_decode or attn_prefill", o.Kind)
		}
		if r.err != nil || o.empty() {
			return r.err
		}
		out = append(out, o)
		return nil
	})
	return out, err
}

// Steps reads step.csv: model,tp,phase,case,comm,layers,time_us,per_layer_us. The case of a decode row is b8_ctx1024, of
// a prefill row s512 (one sequence). Rows of symmetric-memory collectives ("symm") are another kind and left out.
func Steps(r io.Reader, name string) ([]StepRow, error) {
	t, cols, err := table(r, name)
	if err != nil {
		return nil, err
	}
	if want := []string{"model", "tp", "phase", "case", "comm", "layers", "time_us", "per_layer_us"}; !hasAll(cols, want) {
		return nil, fmt.Errorf("%s:1: not a table of steps: want the columns %s", name, strings.Join(want, ","))
	}
	var out []StepRow
	err = t.each(name, func(line int, vals []string) error {
		r := record{cols: cols, vals: vals}
		if r.str("model") == "symm" {
			return nil
		}
		s := StepRow{Line: line, Model: strings.Clone(r.str("model")), Phase: strings.Clone(r.str("phase")), Tokens: 1}
		tp, err := strconv.Atoi(strings.TrimPrefix(r.str("tp"), "tp"))
		if err != nil || tp < 1 {
			return fmt.Errorf("tp is %q, want tp1, tp2 and so on", r.str("tp"))
		}
		s.TP, s.Comm, s.Layers = tp, r.str("comm") == "comm", r.int("layers")
		s.Time, s.PerLayer = r.micros("time_us"), r.micros("per_layer_us")
		switch c := r.str("case"); s.Phase {
		case "decode":
			if _, err := fmt.Sscanf(c, "b%d_ctx%d", &s.Batch, &s.Context); err != nil {
				return fmt.Errorf("case is %q, want one like b8_ctx1024", c)
			}
		case "prefill":
			if _, err := fmt.Sscanf(c, "s%d", &s.Tokens); err != nil {
				return fmt.Errorf("case is %q, want one like s2048", c)
			}
			s.Batch, s.Context = 1, s.Tokens
		default:
			return fmt.Errorf("phase is %q, want decode or prefill", s.Phase)
		}
		if r.err == nil {
			out = append(out, s)
		}
		return r.err
	})
	return out, err
}
