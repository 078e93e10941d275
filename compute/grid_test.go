package compute

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// testGrid is 3 x 2 x 3 with distinct values.
func testGrid() *Grid {
	g := &Grid{knots: [][]float64{{0, 2, 5}, {1, 3}, {0, 1, 4}}}
	for i := range 18 {
		g.vals = append(g.vals, float64(i*7%11-5)*unit)
	}
	return g
}

func TestGridTextRoundTrip(t *testing.T) {
	g := testGrid()
	h, err := ParseGrid(g.String(), 3)
	if err != nil {
		t.Fatal(err)
	}
	if h.String() != g.String() {
		t.Errorf("%s became %s", g, h)
	}
	for i := range g.vals {
		if math.Abs(g.vals[i]-h.vals[i]) > 1e-12 {
			t.Errorf("value %d: %g became %g", i, g.vals[i], h.vals[i])
		}
	}
}

func TestGridErrors(t *testing.T) {
	good := testGrid().String()
	_, data, _ := strings.Cut(good, "|")
	for name, s := range map[string]string{
		"no values":     "0,1;0,1;0,1",
		"too few axes":  "0,1;0,1|" + data,
		"no number":     "0,x;0,1;0,1|" + data,
		"falling knots": "1,0;0,1;0,1|" + data,
		"wrong count":   "0,1;0,1;0,1|" + data,
		"no base64":     "0,2,5;1,3;0,1,4|***",
		"huge":          strings.Repeat("0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41;", 3) + "0|" + data,
	} {
		if _, err := ParseGrid(s, 3); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// dumb interpolates one axis after the other.
func dumb(knots [][]float64, vals []float64, x []float64) float64 {
	if len(knots) == 0 {
		return vals[0]
	}
	n := len(vals) / len(knots[0])
	at := func(i int) float64 { return dumb(knots[1:], vals[i*n:(i+1)*n], x[1:]) }
	k := knots[0]
	for i := 1; i < len(k); i++ {
		if x[0] < k[i] || i == len(k)-1 {
			f := math.Min(math.Max((x[0]-k[i-1])/(k[i]-k[i-1]), 0), 1)
			return (1-f)*at(i-1) + f*at(i)
		}
	}
	return at(0)
}

func TestGridAgreesWithAxisByAxis(t *testing.T) {
	g := testGrid()
	rapid.Check(t, func(t *rapid.T) {
		x := [4]float64{rapid.Float64Range(-2, 8).Draw(t, "x"), rapid.Float64Range(-2, 8).Draw(t, "y"), rapid.Float64Range(-2, 8).Draw(t, "z")}
		if a, b := g.at(&x, 3), dumb(g.knots, g.vals, x[:3]); math.Abs(a-b) > 1e-12 {
			t.Fatalf("%v: %g, axis by axis %g", x, a, b)
		}
	})
}

func TestLog2IsExactAtPowersAndRises(t *testing.T) {
	for i := range 40 {
		if v := log2(math.Ldexp(1, i)); v != float64(i) {
			t.Errorf("log2(2^%d) = %g", i, v)
		}
	}
	last := -1.0
	for v := 1; v < 5000; v++ {
		l := log2(float64(v))
		if l <= last || math.Abs(l-math.Log2(float64(v))) > 0.087 {
			t.Fatalf("log2(%d) = %g after %g", v, l, last)
		}
		last = l
	}
}

// TestFitGridFindsASurface: from scattered points with outliers.
func TestFitGridFindsASurface(t *testing.T) {
	truth := func(x, y float64) float64 { return 0.3*math.Sin(x/2) - 0.05*y }
	var pts []gridPoint
	for i := range 600 {
		x, y := float64(i*37%100)/10, float64(i*53%90)/10
		r := truth(x, y)
		if i%25 == 0 {
			r += 2 // a row measured wrong
		}
		pts = append(pts, gridPoint{[4]float64{x, y}, r, 1})
	}
	k := []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	g := fitGrid([][]float64{k, {0, 3, 6, 9}}, pts, gridPenalty{0.01, 0.01})
	for x := 0.5; x < 9.5; x++ {
		for y := 0.5; y < 8.5; y++ {
			p := [4]float64{x, y}
			if d := math.Abs(g.at(&p, 2) - truth(x, y)); d > 0.04 {
				t.Errorf("(%g, %g): off by %.3f", x, y, d)
			}
		}
	}
}

// TestFitGridLeavesEmptyCellsAlone: no rows, no correction.
func TestFitGridLeavesEmptyCellsAlone(t *testing.T) {
	g := fitGrid([][]float64{{0, 1, 2}, {0, 1}}, nil, gridPenalty{1, 0.1})
	for i, v := range g.vals {
		if v != 0 {
			t.Errorf("value %d is %g", i, v)
		}
	}
}

func FuzzParseGrid(f *testing.F) {
	f.Add(testGrid().String(), 3)
	f.Add("0|", 1)
	f.Add("0,1;2|AAAA", 2)
	f.Fuzz(func(t *testing.T, s string, dims int) {
		if dims < 0 || dims > 4 {
			return
		}
		g, err := ParseGrid(s, dims)
		if err != nil {
			return
		}
		if dims == 0 {
			t.Fatal("a grid without axes")
		}
		if v := g.factor([4]float64{1, 2, 3, 4}); math.IsNaN(v) || v <= 0 {
			t.Fatalf("factor %g", v)
		}
	})
}
