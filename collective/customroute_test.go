package collective

import (
	"strings"
	"testing"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/topology"
)

// Options.Kernels puts the framework's kernel in NCCL's place where the framework takes it, and nowhere else.
func TestKernelsOption(t *testing.T) {
	c := cluster(t, box("h100_sxm", 8, 18, units.Gbps(400)), 2, topology.FabricInfiniBand)
	ps := profiles(t)
	nccl, vllm := New(c, ps, Options{}), New(c, ps, Options{Kernels: "vllm"})
	price := func(m *Model, r Request) Estimate {
		t.Helper()
		e, err := m.Price(r)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	eight := Request{Op: parallel.AllReduce, Bytes: 64 << 10, Members: ids(0, 1, 8)}
	a, b := price(nccl, eight), price(vllm, eight)
	if b.Protocol != "vllm" || b.Algorithm != "one-shot" || b.Time >= a.Time || b.P10 > b.Time || b.P90 < b.Time {
		t.Errorf("NCCL %+v, vLLM %+v", a, b)
	}
	eight.Bytes = 4 << 20
	if e := price(vllm, eight); e.Algorithm != "multicast" {
		t.Errorf("4 MiB on 8 ranks: %s", e.Algorithm)
	}
	if e := price(New(c, ps, Options{Kernels: "vllm", KernelVersion: "0.14.0"}), eight); e.Algorithm != "two-shot" {
		t.Errorf("before the in-switch kernel: %s", e.Algorithm)
	}
	if e := price(New(c, ps, Options{Kernels: "vllm", NoMulticast: true}), eight); e.Algorithm != "two-shot" {
		t.Errorf("without multicast: %s", e.Algorithm)
	}
	if e := price(New(c, ps, Options{Kernels: "vllm", KernelVersion: "0.99.0"}), eight); !strings.Contains(strings.Join(e.Flags, " "), "vllm 0.99.0 outside the profile") {
		t.Errorf("flags of an unknown version: %q", e.Flags)
	}
	for what, r := range map[string]Request{
		"over nodes":      {Op: parallel.AllReduce, Bytes: 64 << 10, Members: ids(0, 1, 16)},
		"three ranks":     {Op: parallel.AllReduce, Bytes: 64 << 10, Members: ids(0, 1, 3)},
		"another kind":    {Op: parallel.AllGather, Bytes: 64 << 10, Members: ids(0, 1, 8)},
		"one-byte values": {Op: parallel.AllReduce, Bytes: 64 << 10, Members: ids(0, 1, 8), DType: "int8"},
		"beyond":          {Op: parallel.AllReduce, Bytes: 1 << 30, Members: ids(0, 1, 8)},
	} {
		if a, b := price(nccl, r), price(vllm, r); a.Time != b.Time || a.Protocol != b.Protocol {
			t.Errorf("%s: NCCL %v %s, vLLM %v %s", what, a.Time, a.Protocol, b.Time, b.Protocol)
		}
	}
}

// More bytes never take less, across every change of kernel.
func TestKernelsNeverFall(t *testing.T) {
	for system, links := range map[string]int{"h100_sxm": 18, "b200_sxm": 18, "a100_sxm": 12} {
		c := cluster(t, box(system, 8, links, 0), 1, topology.FabricUnknown)
		for _, framework := range Frameworks() {
			m := New(c, profiles(t), Options{Kernels: framework})
			for _, n := range []int{2, 4, 8} {
				var last Estimate
				for b := units.Bytes(8); b <= 1<<30; b += b/3 + 1 {
					e, err := m.Price(Request{Op: parallel.AllReduce, Bytes: b, Members: ids(0, 1, n)})
					if err != nil {
						t.Fatal(err)
					}
					if e.Time < last.Time*0.999999 {
						t.Errorf("%s %s on %d: %v bytes take %v, fewer took %v", system, framework, n, b, e.Time, last.Time)
					}
					last = e
				}
			}
		}
	}
}
