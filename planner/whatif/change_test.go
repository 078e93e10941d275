package whatif

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rankmap/topology"
)

func TestAChangeThatChangesNothingGivesAnEmptyDiff(t *testing.T) {
	p := problem(t, "llama-3.1-70b")
	e := existing(t, p, machine(t, "hgx-h100", 2))
	for _, set := range [][]string{
		nil, {"nic.rate=400G"}, {"nvlink.domain=8"}, {"nvlink.scale=1"}, {"nvlink.rate=450GB/s"}, {"nvls=on"}, {"cost=calibrated"},
		{"gpu=h100-sxm"}, {"isl=4096"}, {"experts.redundant=0"},
	} {
		out, err := e.Change(t.Context(), p, Changes{Set: set})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Diff) != 0 || len(out.Columns) != 2 {
			t.Errorf("%v: %d columns, diff %+v", set, len(out.Columns), out.Diff)
		}
	}
	out, err := Compare(t.Context(), p, []Machine{machine(t, "hgx-h100", 2)}, Changes{Set: []string{"nic.rate=400G"}}, Whole)
	if err != nil || len(out.Diff) != 0 || len(out.Columns) != 2 {
		t.Errorf("compare: %v %+v", err, out.Diff)
	}
}

func TestAChangeAndItsInverseGiveTheOriginal(t *testing.T) {
	p := problem(t, "llama-3.1-70b")
	start := machine(t, "hgx-h100", 3)
	set := []string{"nic.rate=800G", "nvlink.rate=300GB/s", "nvlink.domain=4", "gpu=h200-sxm", "nvlink.scale=0.5", "gpus=16"}
	drop := []string{"node0", "node1.gpu3", "node0.nic2", "node1.nvswitch1", "leaf:su0.rail3", "node0.nvlink1-2"}
	degrade := []string{"node0.nic1=100G", "node1.gpu2=9", "node0.nvlink=50%", "leaf:su0=50%", "node1.nic=25%"}
	rapid.Check(t, func(t *rapid.T) {
		pick := func(from []string, name string) []string {
			var out []string
			for _, s := range from {
				if rapid.Bool().Draw(t, name+" "+s) {
					out = append(out, s)
				}
			}
			return out
		}
		ch := Changes{Set: pick(set, "set"), Drop: pick(drop, "drop"), Degrade: pick(degrade, "degrade")}
		m, _, err := ch.Apply(start, p)
		if err != nil {
			t.Skip(err.Error()) // such as a NIC degraded after its leaf was dropped
		}
		back, err := m.Undo(p)
		if err != nil {
			t.Fatal(err)
		}
		if d := topology.Diff(start.Cluster, back.Cluster); len(d) != 0 {
			t.Fatalf("%v and back: %v", ch, d)
		}
	})
}

func TestOrderOfChangesOnTheCommandLineDoesNotMatter(t *testing.T) {
	p := problem(t, "llama-3.1-70b")
	m := machine(t, "hgx-h100", 2)
	a, _, err := Changes{Set: []string{"nic.rate=800G", "gpu=b200-sxm", "nvlink.rate=450GB/s"}, Degrade: []string{"node0.nic1=100G"}}.Apply(m, p)
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := Changes{Set: []string{"nvlink.rate=450GB/s", "gpu=b200-sxm", "nic.rate=800G"}, Degrade: []string{"node0.nic1=100G"}}.Apply(m, p)
	if err != nil {
		t.Fatal(err)
	}
	if d := topology.Diff(a.Cluster, b.Cluster); len(d) != 0 {
		t.Errorf("%v", d)
	}
	if g := a.Cluster.NICBandwidth(0, 1).Gbps(); g != 100 {
		t.Errorf("the degraded NIC has %v Gb/s", g)
	}
	if g := a.Cluster.LinkBandwidth(0).GBps(); g != 450 {
		t.Errorf("NVLink has %v GB/s", g)
	}
}

func TestBadChanges(t *testing.T) {
	p := problem(t, "llama-3.1-70b")
	m := machine(t, "hgx-h100", 2)
	for _, tt := range []struct {
		ch   Changes
		want string
	}{
		{Changes{Set: []string{"nic.rte=800G"}}, `did you mean "nic.rate"`},
		{Changes{Set: []string{"nic.rate"}}, "want key=value"},
		{Changes{Set: []string{"nic.rate=fast"}}, "want gigabits"},
		{Changes{Set: []string{"nvlink.domain=0"}}, "want a whole number"},
		{Changes{Set: []string{"batch=1e9"}}, "want a whole number"},
		{Changes{Set: []string{"nic.rate=200G", "nic.rate=400G"}}, "contradict"},
		{Changes{Set: []string{"gpu=h1000"}}, "unknown gpu"},
		{Changes{Set: []string{"gpu=l40s"}}, "no NVLink"},
		{Changes{Set: []string{"nvls=maybe"}}, "unknown"},
		{Changes{Set: []string{"experts.redundant=8"}}, "no routed experts"},
		{Changes{Drop: []string{"node7.gpu0"}}, "no node"},
		{Changes{Drop: []string{"node0.gpu8"}}, "has no GPU 8"},
		{Changes{Degrade: []string{"node0.nic1"}}, "want HOST"},
		{Changes{Degrade: []string{"node0.nic9=100G"}}, "has no NIC"},
		{Changes{Degrade: []string{"node0.nic1=800G"}}, "more than"},
		{Changes{Degrade: []string{"node0.gpu1=19"}}, "more than the 18"},
		{Changes{Degrade: []string{"node0.nvlink=150%"}}, "want a share"},
		{Changes{Degrade: []string{"leaf:su7=100G"}}, "no NIC is cabled"},
		{Changes{Degrade: []string{"node0.fan=1"}}, "want nicN"},
	} {
		_, _, err := tt.ch.Apply(m, p)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.ch, err, tt.want)
		}
	}
	_, _, err := Changes{Set: []string{"a=1", "b=2"}}.Apply(m, p)
	if err == nil || strings.Count(err.Error(), "unknown key") != 2 {
		t.Errorf("not all problems at once: %v", err)
	}
}

func FuzzParseSetting(f *testing.F) {
	for _, s := range []string{"nic.rate=800G", "nvlink.domain=36", "gpu=b200", "nvls=off", "=", "isl=-1", "nvlink.rate=900GB/s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseSetting(s)
		if err != nil {
			return
		}
		again, err := ParseSetting(v.Key + "=" + v.Text)
		if err != nil || cmp.Diff(v, again) != "" {
			t.Errorf("%q reads as %+v, then %+v, %v", s, v, again, err)
		}
	})
}
