package collective

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"testing"
	"time"

	"rankmap/internal/hardware"
	"rankmap/internal/testdata"
	"rankmap/internal/units"
)

func loadNCCL(t *testing.T) map[string][]Point {
	f, err := os.Open(testdata.Dir(t, "measured", "public", "collectives.csv"))
	if err != nil {
		t.Fatal(err)
	}
	recs, _ := csv.NewReader(f).ReadAll()
	out := map[string][]Point{}
	for _, r := range recs[1:] {
		if r[1] != "nccl" {
			continue
		}
		var p Point
		p.Op.UnmarshalText([]byte(r[4]))
		p.System, p.Library, p.DType = r[0], r[2], r[5]
		p.Ranks, _ = strconv.Atoi(r[6])
		b, _ := strconv.ParseInt(r[8], 10, 64)
		us, _ := strconv.ParseFloat(r[9], 64)
		p.Bytes, p.Time = units.Bytes(b), units.Micros(us)
		out[p.System] = append(out[p.System], p)
	}
	return out
}

func q(v []float64, p float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	sort.Float64s(v)
	x := p * float64(len(v)-1)
	i := int(x)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[i] + (x-float64(i))*(v[i+1]-v[i])
}

type score struct{ ape []float64 }

func (s *score) add(pred float64, p *Point) {
	s.ape = append(s.ape, 100*math.Abs(pred/p.Time.Micros()-1))
}
func (s *score) String() string {
	return fmt.Sprintf("%5.1f /%5.1f (%d)", q(s.ape, .5), q(s.ape, .9), len(s.ape))
}

var sysOrder = []string{"a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm", "gb200", "rtx_pro_6000_server"}
var sysLink = map[string]float64{"a100_sxm": 300, "h100_sxm": 450, "h200_sxm": 450, "b200_sxm": 900, "gb200": 900, "rtx_pro_6000_server": 64}

func fitSys(sys string, pts []Point, start hardware.DomainParams) (domainForm, *fitProblem[hardware.DomainParams]) {
	d := domainForm{LinkGBps: sysLink[sys], Multicast: sysLink[sys] >= 400}
	f := &fitProblem[hardware.DomainParams]{space: domainParams, points: mergeRepeats(pts), predict: domainPredict(d), centre: priorCentre(domainParams), strength: 1}
	p := f.fit(start)
	d.Params = &p
	return d, f
}

func TestExplore(t *testing.T) {
	data := loadNCCL(t)
	all := &score{}
	for _, sys := range sysOrder {
		t0 := time.Now()
		d, f := fitSys(sys, data[sys], priorCentre(domainParams))
		s := &score{}
		for i := range data[sys] {
			p := &data[sys][i]
			pr := d.Micros(p.Op, p.Ranks, float64(p.Bytes), OneByte(p.DType))
			s.add(pr, p)
			all.add(pr, p)
		}
		fmt.Printf("%-20s %v %.2fs %v\n", sys, s, time.Since(t0).Seconds(), f.unidentified(*d.Params))
		fmt.Printf("   %+v\n", *d.Params)
	}
	fmt.Println("all", all)
}
