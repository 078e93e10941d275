package collective

import (
	"fmt"
	"testing"
)

func TestShift(t *testing.T) {
	data := loadNCCL(t)
	for _, left := range []int{4, 2, 8} {
		preds := map[string]*predictor{}
		tests := map[string][]Point{}
		for _, sys := range sysOrder {
			test, train := sel(data[sys], func(p *Point) bool { return p.Ranks == left })
			if len(test) == 0 {
				continue
			}
			preds[sys] = profOf(sys, train, -0.0)
			tests[sys] = test
		}
		for _, sh := range []float64{0, 0.5, 1} {
			for _, sk := range []float64{0, 0.5, 1} {
				ShiftN, ShrinkN, ShrinkE = sh, sk, sk
				ta, tn := &score{}, &score{}
				for sys, pr := range preds {
					for i := range tests[sys] {
						p := &tests[sys][i]
						minor, _ := minorVersion(p.Library)
						x := pr.hybrid(p.Op, p.Ranks, float64(p.Bytes), OneByte(p.DType), float64(minor))
						ta.add(x, p)
						if sys[:3] != "rtx" {
							tn.add(x, p)
						}
					}
				}
				fmt.Printf("n=%d shift %.1f shrink %.1f  all %v  no pcie %v\n", left, sh, sk, ta, tn)
			}
		}
	}
	ShiftN, ShrinkN, ShrinkE = 0, 1, 1
}
