package compute

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"fmt"
	"io"
	"math"
	"strings"
)

// Grid is a smooth correction of a form over the logarithms of its sizes: multilinear between knots. It carries what
// the form cannot say, the library's choice among kernels, and ends flat beyond its outer knots, where the form alone
// extrapolates. Its text is "axis;axis;...|base64", an axis being its knots as powers of two ("0,2,4") and the values
// one signed byte a knot, in fiftieths of the natural logarithm, deflated.
type Grid struct {
	knots [][]float64 // log2, ascending
	vals  []float64   // ln factor, last axis fastest
}

// log2 is a piecewise linear logarithm: exact at powers of two, at most 0.086 off between, monotone. It is a
// coordinate, the same in the fit and in use, so exactness does not matter and speed does.
func log2(x float64) float64 {
	b := math.Float64bits(x)
	return float64(int(b>>52)-1023) + float64(b&(1<<52-1))/(1<<52)
}

// locate finds the knot interval and the fraction in it.
func locate(knots []float64, v float64) (int, float64) {
	n := len(knots)
	if n == 1 || v <= knots[0] {
		return 0, 0
	}
	if v >= knots[n-1] {
		return n - 2, 1
	}
	i := 0
	for v >= knots[i+1] {
		i++
	}
	return i, (v - knots[i]) / (knots[i+1] - knots[i])
}

// factor is the correction at the given coordinates.
func (g *Grid) factor(x [4]float64) float64 { return math.Exp(g.at(&x, len(g.knots))) }

// at interpolates.
func (g *Grid) at(x *[4]float64, dims int) float64 {
	var idx, step [4]int
	var frac [4]float64
	stride := 1
	for d := dims - 1; d >= 0; d-- {
		idx[d], frac[d] = locate(g.knots[d], x[d])
		step[d] = stride
		stride *= len(g.knots[d])
	}
	sum := 0.0
	for corner := range 1 << dims {
		w, at := 1.0, 0
		for d := range dims {
			if corner>>d&1 == 1 {
				w *= frac[d]
				at += step[d] * min(idx[d]+1, len(g.knots[d])-1)
			} else {
				w *= 1 - frac[d]
				at += step[d] * idx[d]
			}
		}
		if w > 0 {
			sum += w * g.vals[at]
		}
	}
	return sum
}

// unit is the resolution of the stored values.
const unit = 0.02

// String writes the text form.
func (g *Grid) String() string {
	axes := make([]string, len(g.knots))
	for i, k := range g.knots {
		s := make([]string, len(k))
		for j, v := range k {
			s[j] = fmt.Sprintf("%g", v)
		}
		axes[i] = strings.Join(s, ",")
	}
	b := make([]byte, len(g.vals))
	for i, v := range g.vals {
		b[i] = byte(int8(math.Round(math.Max(-127, math.Min(127, v/unit)))))
	}
	var packed bytes.Buffer
	w, _ := flate.NewWriter(&packed, flate.BestCompression) // the level is valid: no error
	w.Write(b)                                              // into memory: no error
	w.Close()
	return strings.Join(axes, ";") + "|" + base64.RawStdEncoding.EncodeToString(packed.Bytes())
}

// maxGrid caps the values of a grid.
const maxGrid = 1 << 16

// ParseGrid reads the text form; dims is how many axes the form has.
func ParseGrid(s string, dims int) (*Grid, error) {
	head, data, ok := strings.Cut(s, "|")
	if !ok {
		return nil, fmt.Errorf("grid has no |, want axis;axis;...|base64")
	}
	axes := strings.Split(head, ";")
	if len(axes) != dims {
		return nil, fmt.Errorf("grid has %d axes, want %d", len(axes), dims)
	}
	g := &Grid{knots: make([][]float64, dims)}
	n := 1
	for i, a := range axes {
		for _, t := range strings.Split(a, ",") {
			var v float64
			if _, err := fmt.Sscanf(t, "%g", &v); err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("grid axis %d: knot %q is no number", i+1, t)
			}
			if k := g.knots[i]; len(k) > 0 && v <= k[len(k)-1] {
				return nil, fmt.Errorf("grid axis %d: knot %g does not rise", i+1, v)
			}
			g.knots[i] = append(g.knots[i], v)
		}
		if n *= len(g.knots[i]); n > maxGrid {
			return nil, fmt.Errorf("grid has more than %d values", maxGrid)
		}
	}
	packed, err := base64.RawStdEncoding.DecodeString(data)
	if err != nil {
		return nil, fmt.Errorf("grid values: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), int64(n)+1))
	if err != nil {
		return nil, fmt.Errorf("grid values: %w", err)
	}
	if len(b) != n {
		return nil, fmt.Errorf("grid has %d values, want %d", len(b), n)
	}
	for _, v := range b {
		g.vals = append(g.vals, float64(int8(v))*unit)
	}
	return g, nil
}
