package collective

import (
	"fmt"
	"math"
	"testing"

	"rankmap/internal/parallel"
)

func TestLeft(t *testing.T) {
	data := loadNCCL(t)
	ShiftN = 1
	for _, op := range []parallel.Op{parallel.AllReduce, parallel.AllGather, parallel.ReduceScatter, parallel.AllToAll} {
		fmt.Println("#", op)
		for _, sys := range sysOrder {
			for _, n := range []int{2, 4, 8} {
				test, train := sel(data[sys], func(p *Point) bool { return p.Ranks == n })
				pr := profOf(sys, train, 0)
				if op == parallel.AllReduce {
					fmt.Printf("%+v\n", *pr.form.Params)
				}
				for _, dt := range []string{"half", "int8"} {
					if dt == "int8" && !typed(op) {
						continue
					}
					by := map[int][]float64{}
					for i := range test {
						p := &test[i]
						if p.Op != op || (typed(op) && p.DType != dt) {
							continue
						}
						l := int(math.Round(math.Log2(float64(p.Bytes))))
						minor, _ := minorVersion(p.Library)
						by[l] = append(by[l], 100*math.Log(p.Time.Micros()/pr.hybrid(op, n, float64(p.Bytes), OneByte(p.DType), float64(minor))))
					}
					if len(by) == 0 {
						continue
					}
					fmt.Printf("%-8.8s n%d %s", sys, n, dt)
					for l := 9; l <= 29; l++ {
						if len(by[l]) == 0 {
							fmt.Printf("    .")
						} else {
							fmt.Printf("%5.0f", q(by[l], .5))
						}
					}
					fmt.Println()
				}
			}
		}
	}
}
