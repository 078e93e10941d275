package collective

import (
	"fmt"
	"testing"

	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

func genOf(s string) string {
	switch s {
	case "a100_sxm":
		return "a"
	case "h100_sxm", "h200_sxm":
		return "h"
	case "b200_sxm", "gb200":
		return "b"
	}
	return s
}

// eight points: all_reduce half, 2 and all ranks, 4K 1M 32M 512M
func eight(pts []Point) (in, out []Point) {
	maxn := 0
	for _, p := range pts {
		if p.Ranks > maxn {
			maxn = p.Ranks
		}
	}
	lib := ""
	for _, p := range pts {
		if p.Op == parallel.AllReduce {
			lib = p.Library
		}
	}
	seen := map[string]bool{}
	for _, p := range pts {
		k := fmt.Sprint(p.Ranks, p.Bytes)
		if p.Op == parallel.AllReduce && p.DType == "half" && p.Library == lib && (p.Ranks == 2 || p.Ranks == maxn) &&
			(p.Bytes == 4096 || p.Bytes == 1<<20 || p.Bytes == 32<<20 || p.Bytes == 512<<20) && !seen[k] {
			in = append(in, p)
			seen[k] = true
		} else {
			out = append(out, p)
		}
	}
	return
}

func TestOtherGen(t *testing.T) {
	data := loadNCCL(t)
	phys, hyb := tally{}, tally{}
	un := tally{}
	for _, pair := range [][2]string{{"a100_sxm", "h100_sxm"}, {"a100_sxm", "h200_sxm"}, {"h100_sxm", "a100_sxm"}, {"h200_sxm", "a100_sxm"}, {"h100_sxm", "b200_sxm"}, {"h200_sxm", "b200_sxm"}, {"h100_sxm", "gb200"}, {"h200_sxm", "gb200"}, {"b200_sxm", "h100_sxm"}, {"gb200", "h200_sxm"}} {
		from, to := pair[0], pair[1]
		bp := hw(from, data[from], 0)
		in, out := eight(data[to])
		d := domainForm{LinkGBps: sysLink[to], Multicast: sysLink[to] >= 400}
		np := refit(*bp.Domain, d, in)
		d.Params = &np
		// transferred grid, shifted by link
		var cs []hardware.Curve
		sh := log2(sysLink[to] / sysLink[from])
		for _, c := range bp.Curves {
			c.Log2 = append([]float64(nil), c.Log2...)
			for i := range c.Log2 {
				c.Log2[i] += sh
			}
			cs = append(cs, c)
		}
		g := newGrid(cs)
		d0 := d
		d0.Params = bp.Domain
		for i := range out {
			p := &out[i]
			ob := OneByte(p.DType)
			x := d.Micros(p.Op, p.Ranks, float64(p.Bytes), ob)
			ks := []string{"all", from + "->" + to, p.Op.String(), SizeClass(p.Bytes)}
			phys.add(x, p, ks...)
			un.add(d0.Micros(p.Op, p.Ranks, float64(p.Bytes), ob), p, "all", from+"->"+to)
			minor, _ := minorVersion(p.Library)
			hyb.add(x*exp(g.at(gridKey{p.Op, ob}, p.Ranks, log2(float64(p.Bytes)), float64(minor))), p, ks...)
		}
		_ = units.Bytes(0)
	}
	un.show("other generation, uncalibrated")
	phys.show("other generation + 8, physical")
	hyb.show("other generation + 8, physical x transferred grid")
}
