package collective

import (
	"fmt"
	"testing"
)

// run index of each repeat, by order
func runs(pts []Point) []int {
	type k struct {
		a Point
	}
	seen := map[Point]int{}
	out := make([]int, len(pts))
	for i, p := range pts {
		p.Time = 0
		out[i] = seen[p]
		seen[p]++
	}
	return out
}

func TestRuns(t *testing.T) {
	data := loadNCCL(t)
	ta, tb, tr := tally{}, tally{}, tally{}
	for _, sys := range sysOrder {
		ri := runs(data[sys])
		max := 0
		for _, r := range ri {
			if r > max {
				max = r
			}
		}
		if max == 0 {
			continue
		}
		for r := 0; r <= max; r++ {
			var train, test []Point
			rep := map[Point]bool{}
			for i, p := range data[sys] {
				if ri[i] > 0 {
					q := p
					q.Time = 0
					rep[q] = true
				}
			}
			for i, p := range data[sys] {
				q := p
				q.Time = 0
				if ri[i] == r && rep[q] {
					test = append(test, p)
				} else {
					train = append(train, p)
				}
			}
			pr := profSib(sys, train, data, DefaultTolerance)
			pr0 := profOf(sys, train, DefaultTolerance)
			// raw: median of other repeats
			raw := map[Point]float64{}
			for _, p := range mergeRepeats(train) {
				q := p
				q.Time = 0
				raw[q] = p.Time.Micros()
			}
			for i := range test {
				p := &test[i]
				ob := OneByte(p.DType)
				minor, _ := minorVersion(p.Library)
				ks := []string{"all", sys, p.Op.String(), SizeClass(p.Bytes)}
				ta.add(pr.hybrid(p.Op, p.Ranks, float64(p.Bytes), ob, float64(minor)), p, ks...)
				tb.add(pr0.hybrid(p.Op, p.Ranks, float64(p.Bytes), ob, float64(minor)), p, ks...)
				q := *p
				q.Time = 0
				if !typed(q.Op) {
					q.DType = ""
				}
				if v := raw[q]; v > 0 {
					tr.add(v, p, ks...)
				}
			}
		}
	}
	ta.show("run left out, sib hybrid")
	tb.show("run left out, own hybrid")
	tr.show("run left out, raw table")
	fmt.Println()
}
