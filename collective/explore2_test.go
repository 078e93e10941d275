package collective

import (
	"fmt"
	"math"
	"testing"

	"rankmap/internal/hardware"
)

func profOf(sys string, pts []Point, tol float64) *predictor {
	l := sysLink[sys]
	kind := "nvlink"
	if l < 100 {
		kind = "pcie"
	}
	p := FitDomain(hardware.CollectiveProfile{System: sys, Link: kind, LinkGBps: l, Multicast: l >= 400, NVLSFromRanks: 8}, pts, tol)
	return newPredictor(p)
}

var sibW = 0.6

var sibOf = map[string]string{"h100_sxm": "h200_sxm", "h200_sxm": "h100_sxm", "b200_sxm": "gb200", "gb200": "b200_sxm"}

func hw(sys string, pts []Point, tol float64) *hardware.CollectiveProfile {
	l := sysLink[sys]
	kind := "nvlink"
	if l < 100 {
		kind = "pcie"
	}
	return FitDomain(hardware.CollectiveProfile{System: sys, Link: kind, LinkGBps: l, Multicast: l >= 400, NVLSFromRanks: 8}, pts, tol)
}

func profSib(sys string, pts []Point, data map[string][]Point, tol float64) *predictor {
	p := hw(sys, pts, tol)
	if s := sibOf[sys]; s != "" && sibW > 0 {
		for _, c := range hw(s, data[s], tol).Curves {
			c.Weight = sibW
			p.Curves = append(p.Curves, c)
		}
	}
	return newPredictor(p)
}

func sel(pts []Point, f func(*Point) bool) (in, out []Point) {
	for _, p := range pts {
		if f(&p) {
			in = append(in, p)
		} else {
			out = append(out, p)
		}
	}
	return
}

type tally map[string]*score

func (t tally) add(pred float64, p *Point, keys ...string) {
	for _, k := range keys {
		if t[k] == nil {
			t[k] = &score{}
		}
		t[k].add(pred, p)
	}
}

func (t tally) show(title string) {
	fmt.Println("==", title)
	for _, k := range sortedK(t) {
		fmt.Printf("   %-40s %v\n", k, t[k])
	}
}

func sortedK(t tally) []string {
	var k []string
	for x := range t {
		k = append(k, x)
	}
	sortStrings(k)
	return k
}

func sortStrings(v []string) {
	for i := range v {
		for j := i + 1; j < len(v); j++ {
			if v[j] < v[i] {
				v[i], v[j] = v[j], v[i]
			}
		}
	}
}

func TestCV(t *testing.T) {
	data := loadNCCL(t)
	tol := DefaultTolerance
	// A version
	ta, tp := tally{}, tally{}
	for _, sys := range []string{"h100_sxm", "h200_sxm", "b200_sxm"} {
		vs := map[string]bool{}
		for _, p := range data[sys] {
			vs[p.Library] = true
		}
		for v := range vs {
			test, train := sel(data[sys], func(p *Point) bool { return p.Library == v })
			has := map[string]bool{}
			for _, p := range train {
				has[p.Op.String()] = true
			}
			pr := profSib(sys, train, data, tol)
			for i := range test {
				p := &test[i]
				if !has[p.Op.String()] {
					continue
				}
				ob := OneByte(p.DType)
				minor, _ := minorVersion(v)
				x := pr.hybrid(p.Op, p.Ranks, float64(p.Bytes), ob, float64(minor))
				y := pr.physical(p.Op, p.Ranks, float64(p.Bytes), ob)
				ta.add(x, p, "all", sys, sys+" "+v, p.Op.String(), SizeClass(p.Bytes), fmt.Sprint("n", p.Ranks))
				tp.add(y, p, "all")
			}
		}
	}
	ta.show("version left out, hybrid")
	tp.show("version left out, physical")
	// B n=4
	ta, tp = tally{}, tally{}
	for _, sys := range sysOrder {
		test, train := sel(data[sys], func(p *Point) bool { return p.Ranks == 4 })
		pr := profOf(sys, train, tol)
		for i := range test {
			p := &test[i]
			ob := OneByte(p.DType)
			minor, _ := minorVersion(p.Library)
			x := pr.hybrid(p.Op, p.Ranks, float64(p.Bytes), ob, float64(minor))
			y := pr.physical(p.Op, p.Ranks, float64(p.Bytes), ob)
			ks := []string{"all", sys, p.Op.String(), SizeClass(p.Bytes)}
			ta.add(x, p, ks...)
			tp.add(y, p, ks...)
		}
	}
	ta.show("n=4 left out, hybrid")
	tp.show("n=4 left out, physical")
	// C sibling
	ta, tp = tally{}, tally{}
	for _, pair := range [][2]string{{"h100_sxm", "h200_sxm"}, {"h200_sxm", "h100_sxm"}, {"b200_sxm", "gb200"}, {"gb200", "b200_sxm"}} {
		pr := profOf(pair[0], data[pair[0]], tol)
		for i := range data[pair[1]] {
			p := &data[pair[1]][i]
			ob := OneByte(p.DType)
			minor, _ := minorVersion(p.Library)
			x := pr.hybrid(p.Op, p.Ranks, float64(p.Bytes), ob, float64(minor))
			y := pr.physical(p.Op, p.Ranks, float64(p.Bytes), ob)
			ks := []string{"all", pair[0] + "->" + pair[1], p.Op.String(), SizeClass(p.Bytes)}
			ta.add(x, p, ks...)
			tp.add(y, p, ks...)
		}
	}
	ta.show("sibling, hybrid")
	tp.show("sibling, physical")
	_ = math.Pi
}
