package collective

import (
	"fmt"
	"math"
	"testing"

	"rankmap/internal/parallel"
)

func TestResid(t *testing.T) {
	data := loadNCCL(t)
	for _, op := range []parallel.Op{parallel.AllReduce, parallel.AllGather, parallel.ReduceScatter, parallel.AllToAll} {
		fmt.Println("#", op)
		for _, sys := range sysOrder {
			pr := profOf(sys, data[sys], -1)
			for _, n := range []int{2, 4, 8} {
				for _, dt := range []string{"half", "int8"} {
					if dt == "int8" && !typed(op) {
						continue
					}
					by := map[int][]float64{}
					for i := range data[sys] {
						p := &data[sys][i]
						if p.Op != op || p.Ranks != n || (typed(op) && p.DType != dt) {
							continue
						}
						l := int(math.Round(math.Log2(float64(p.Bytes))))
						by[l] = append(by[l], 100*math.Log(p.Time.Micros()/pr.physical(op, n, float64(p.Bytes), OneByte(p.DType))))
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
