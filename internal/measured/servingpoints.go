package measured

import (
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// ServingPoint is one measured operating point of an inference deployment.
type ServingPoint struct {
	ID, Model, System, Backend, Version, Precision string
	ISL, OSL, Concurrency, GPUs                    int
	Parts                                          []ServingPart // one, or prefill and decode instances
	TokensPerGPU                                   float64       // output tokens a second and GPU; 0 = not stated
	TTFT, TPOT                                     float64       // milliseconds; 0 = not measured
	Flag                                           string        // why the row is doubtful; such rows do not count
	Provenance                                     string        // where the point was taken from; empty = not stated
	Line                                           int
}

// ServingPart is a set of equal instances.
type ServingPart struct {
	Role         string // "" = whole requests, "P" = prefill, "D" = decode
	Count        int
	TP, PP, DP   int
	ExpertTP, EP int // ExpertTP 0 = not stated
}

// GPUs is the number of GPUs of one instance.
func (p ServingPart) GPUs() int { return p.TP * p.PP * p.DP }

var servingColumns = []string{"id", "model", "system", "isl", "osl", "concurrency", "layout", "ttft_ms", "tpot_ms"}

var partText = regexp.MustCompile(`^(?:([PD]) (\d{1,5})x)?\(?((?:[a-z_]+\d{1,6} ?)+)\)?$`)

// ReadServingPoints reads a CSV table of measured serving points by its header.
func ReadServingPoints(r io.Reader, name string) ([]ServingPoint, error) {
	t, err := newSheet(io.LimitReader(r, maxInput), name, false, servingColumns...)
	if err != nil {
		return nil, err
	}
	var out []ServingPoint
	for t.next() {
		before := t.noted()
		p := ServingPoint{
			ID: t.str("id"), Model: t.str("model"), System: t.str("system"), Backend: t.str("backend"), Version: t.str("version"),
			Precision: t.str("precision"), Flag: t.str("flag"), Line: t.line,
			Provenance: t.str("provenance"),
			ISL:        t.small("isl", 1), OSL: t.small("osl", 1), Concurrency: t.small("concurrency", 0),
			TTFT: t.millis("ttft_ms"), TPOT: t.millis("tpot_ms"),
		}
		if s := t.str("gpus"); s != "" {
			p.GPUs = t.small("gpus", 1)
		}
		if p.TokensPerGPU = t.number("est_output_tok_s_gpu"); p.Flag == "" {
			var err error
			if p.Parts, err = servingParts(t.str("layout")); err != nil {
				t.addf(t.line, "%w", err)
			}
		}
		if t.noted() == before {
			out = append(out, p)
		}
	}
	return out, t.err()
}

// millis returns a number of milliseconds; 0 when the field is empty.
func (t *sheet) millis(col string) float64 { return t.positive(col, "milliseconds") }

// number returns a number that is not negative; 0 when the field is empty.
func (t *sheet) number(col string) float64 { return t.positive(col, "a number") }

func (t *sheet) positive(col, want string) float64 {
	s := t.str(col)
	if s == "" {
		return 0
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0) || math.IsInf(v, 0) {
		t.addf(t.line, "%s %q: want %s", col, s, want)
		return 0
	}
	return v
}

// servingParts reads "tp4 pp1 dp1 moe_tp4 ep1" or "P 1x(tp8 pp1 dp1 ep8) + D 4x(tp4 pp1 dp1 ep4)".
func servingParts(s string) ([]ServingPart, error) {
	var out []ServingPart
	for text := range strings.SplitSeq(s, "+") {
		m := partText.FindStringSubmatch(strings.TrimSpace(text))
		if m == nil {
			return nil, fmt.Errorf("layout %q: want degrees such as tp4 pp1 dp1 moe_tp4 ep1, or P 1x(...) + D 2x(...)", s)
		}
		p := ServingPart{Role: m[1], Count: 1, TP: 1, PP: 1, DP: 1, EP: 1}
		if m[2] != "" {
			p.Count, _ = strconv.Atoi(m[2])
		}
		for _, f := range strings.Fields(m[3]) {
			i := strings.IndexAny(f, "0123456789")
			n, _ := strconv.Atoi(f[i:])
			switch f[:i] {
			case "tp":
				p.TP = n
			case "pp":
				p.PP = n
			case "dp":
				p.DP = n
			case "ep":
				p.EP = n
			case "moe_tp":
				p.ExpertTP = n
			default:
				return nil, fmt.Errorf("layout %q: unknown degree %s", s, f[:i])
			}
		}
		if p.TP < 1 || p.PP < 1 || p.DP < 1 || p.EP < 1 || p.Count < 1 {
			return nil, fmt.Errorf("layout %q: a degree is 0", s)
		}
		out = append(out, p)
	}
	return out, nil
}
