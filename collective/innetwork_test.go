package collective

import (
	"slices"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/topology"
)

// SHARP shortens an all_reduce over three nodes and more, where the cluster (or the user) says that it is there, and only over
// InfiniBand.
func TestSHARP(t *testing.T) {
	with := cluster(t, box("h100_sxm", 8, 18, units.Gbps(200)), 4, topology.FabricInfiniBand)
	plain := cluster(t, box("h100_sxm", 8, 18, units.Gbps(200)), 4, topology.FabricInfiniBand)
	roce := cluster(t, box("h100_sxm", 8, 18, units.Gbps(200)), 4, topology.FabricRoCE)
	with.Fabric.SHARP, roce.Fabric.SHARP = true, true
	price := func(c *topology.Cluster, o Options, r Request) Estimate {
		t.Helper()
		e, err := New(c, profiles(t), o).Price(r)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	r := Request{Op: parallel.AllReduce, Bytes: 1 << 30, Members: ids(0, 1, 32)}
	a, b := price(plain, Options{}, r), price(with, Options{}, r)
	if b.Algorithm != "collnet_direct" || !slices.Contains(b.Flags, flagSHARP) || a.Time < b.Time*5/4 || a.Time > b.Time*21/10 {
		t.Errorf("ring %v %s, SHARP %v %s %q", a.Time, a.Algorithm, b.Time, b.Algorithm, b.Flags)
	}
	if o := price(plain, Options{SHARP: true}, r); o.Time != b.Time {
		t.Errorf("by option %v, by the cluster %v", o.Time, b.Time)
	}
	if o := price(roce, Options{}, r); slices.Contains(o.Flags, flagSHARP) {
		t.Error("SHARP over RoCE")
	}
	for what, r := range map[string]Request{
		"two nodes":  {Op: parallel.AllReduce, Bytes: 1 << 30, Members: ids(0, 1, 16)},
		"one node":   {Op: parallel.AllReduce, Bytes: 1 << 30, Members: ids(0, 1, 8)},
		"all_gather": {Op: parallel.AllGather, Bytes: 1 << 30, Members: ids(0, 1, 32)},
		"int8":       {Op: parallel.AllReduce, Bytes: 1 << 30, Members: ids(0, 1, 32), DType: "int8"},
	} {
		if a, b := price(plain, Options{}, r), price(with, Options{}, r); a.Time != b.Time || slices.Contains(b.Flags, flagSHARP) {
			t.Errorf("%s: %v without, %v with SHARP", what, a.Time, b.Time)
		}
	}
}

// PAT: one GPU a node, NCCL 2.23 and later, where its logarithmic steps beat the ring's.
func TestPAT(t *testing.T) {
	c := cluster(t, box("h100_sxm", 8, 18, units.Gbps(400)), 64, topology.FabricRoCE)
	m := New(c, profiles(t), Options{})
	r := Request{Op: parallel.AllGather, Bytes: 64 << 10, Members: ids(0, 8, 64), Library: "2.28.9"}
	now, err := m.Price(r)
	if err != nil {
		t.Fatal(err)
	}
	r.Library = "2.21.5"
	before, err := m.Price(r)
	if err != nil {
		t.Fatal(err)
	}
	if now.Algorithm != "pat" || !slices.Contains(now.Flags, flagPAT) || before.Algorithm == "pat" || before.Time <= now.Time {
		t.Errorf("2.28 %v %s %q, 2.21 %v %s", now.Time, now.Algorithm, now.Flags, before.Time, before.Algorithm)
	}
	r.Library, r.Bytes = "2.28.9", 1<<30
	if e, err := m.Price(r); err != nil || e.Algorithm == "pat" {
		t.Errorf("1 GiB: %s, %v: the ring moves more", e.Algorithm, err)
	}
	r.Bytes, r.Members = 64<<10, ids(0, 1, 64)
	if e, err := m.Price(r); err != nil || e.Algorithm == "pat" {
		t.Errorf("eight GPUs a node: %s, %v", e.Algorithm, err)
	}
}
