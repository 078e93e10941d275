package collective

import (
	"strings"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/topology"
)

// together prices requests at once and says how many times as long each takes as alone.
func together(t *testing.T, m *Model, rs ...Request) []float64 {
	t.Helper()
	es, err := m.PriceConcurrent(rs)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float64, len(es))
	for i, e := range es {
		out[i] = float64(e.Time / price(t, m, rs[i]).Time)
		if e.P10 > e.Time || e.P90 < e.Time {
			t.Errorf("%d: %v outside %v to %v", i, e.Time, e.P10, e.P90)
		}
		if slow := out[i] > 1.01; slow != strings.Contains(strings.Join(e.Flags, " "), "beside") {
			t.Errorf("%d: %.2f times as long, flags %q", i, out[i], e.Flags)
		}
	}
	return out
}

func TestGroupsThatShareNothingDoNotDisturbEachOther(t *testing.T) {
	m := New(cluster(t, box("h100_sxm", 8, 18, units.Gbps(400)), 2, topology.FabricInfiniBand), profiles(t), Options{})
	ar := func(ids []topology.GPUID) Request {
		return Request{Op: parallel.AllReduce, Bytes: 256 << 20, Members: ids}
	}
	for what, c := range map[string]struct {
		a, b     []topology.GPUID
		low, top float64
	}{
		"halves of a box":         {ids(0, 1, 4), ids(4, 1, 4), 1, 1},
		"two boxes":               {ids(0, 1, 8), ids(8, 1, 8), 1, 1},
		"two rails":               {ids(0, 8, 2), ids(1, 8, 2), 1, 1},
		"the same four GPUs":      {ids(0, 1, 4), ids(0, 1, 4), 1.3, 2},
		"the same rail":           {ids(0, 8, 2), ids(0, 8, 2), 1.5, 2.01},
		"one GPU in common":       {ids(0, 1, 4), ids(3, 1, 4), 1.3, 2},
		"the box and all of both": {ids(0, 1, 8), ids(0, 1, 16), 1.2, 2},
	} {
		for _, f := range together(t, m, ar(c.a), ar(c.b)) {
			if f < c.low-1e-9 || f > c.top+1e-9 {
				t.Errorf("%s: %.3f times as long, want %.2f to %.2f", what, f, c.low, c.top)
			}
		}
	}
}

func TestSmallCollectivesHardlyDisturb(t *testing.T) {
	m := New(cluster(t, box("h100_sxm", 8, 18, 0), 1, topology.FabricUnknown), profiles(t), Options{})
	big := Request{Op: parallel.AllReduce, Bytes: 1 << 30, Members: ids(0, 1, 8)}
	small := Request{Op: parallel.AllReduce, Bytes: 8, Members: ids(0, 1, 8)}
	if f := together(t, m, big, small); f[0] > 1.02 || f[1] > 1.3 {
		t.Errorf("%.3f", f)
	}
}

// Siblings on the same ports count like concurrent requests of the same kind.
func TestSiblingsOnOnePort(t *testing.T) {
	m := New(cluster(t, box("h200_sxm", 8, 18, 0), 1, topology.FabricUnknown), profiles(t), Options{})
	r := Request{Op: parallel.AllReduce, Bytes: 256 << 20, Members: ids(0, 1, 2)}
	alone := price(t, m, r)
	both := together(t, m, r, r)[0]
	r.Siblings = [][]topology.GPUID{ids(0, 1, 2)}
	if f := float64(price(t, m, r).Time / alone.Time); f < 1.3 || f < 0.98*both || f > 1.02*both {
		t.Errorf("%.3f times as long as siblings, %.3f as requests", f, both)
	}
}

func TestChannelsBoundTheRate(t *testing.T) {
	m := New(cluster(t, box("h200_sxm", 8, 18, 0), 1, topology.FabricUnknown), profiles(t), Options{NoMulticast: true})
	r := Request{Op: parallel.AllReduce, Bytes: 256 << 20, Members: ids(0, 1, 2)}
	free := price(t, m, r)
	last := units.Duration(1e9)
	for _, c := range []int{1, 2, 4, 8, 16, 32} {
		r.Channels = c
		e := price(t, m, r)
		if e.Time >= last || e.Time < free.Time {
			t.Errorf("%d channels: %v after %v, without bound %v", c, e.Time, last, free.Time)
		}
		if c <= 4 && (e.BusBW.GBps() < 18*float64(c) || e.BusBW.GBps() > 22*float64(c)) {
			t.Errorf("%d channels: %v", c, e.BusBW)
		}
		last = e.Time
	}
	r.Channels = -1
	if _, err := m.Price(r); err == nil {
		t.Error("-1 channels are accepted")
	}
}

func TestConcurrentErrorsNameTheRequest(t *testing.T) {
	m := New(cluster(t, box("h100_sxm", 8, 18, 0), 1, topology.FabricUnknown), profiles(t), Options{})
	_, err := m.PriceConcurrent([]Request{{Members: ids(0, 1, 2)}, {Members: ids(7, 1, 2)}})
	if err == nil || !strings.HasPrefix(err.Error(), "collective 1: ") {
		t.Error(err)
	}
	if es, err := m.PriceConcurrent(nil); err != nil || len(es) != 0 {
		t.Error(es, err)
	}
}
