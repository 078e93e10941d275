package accuracy

import (
	"testing"

	"rankmap/internal/measured"
	"rankmap/planner"
)

func TestLoadsOfARecipe(t *testing.T) {
	for _, c := range []struct {
		name, task, note string
		want             []int // requests in flight on an instance
	}{
		{"ctx1_gen4_tep8_batch16_eplb0_mtp3.yaml", "decode", "instance counts 4; concurrency 5-192", []int{16}},
		{"ctx1_gen2_dep16_batch32_eplb0_mtp2.yaml", "decode", "instance counts 1,3; concurrency 231-4916", []int{512}},
		{"ctx1_gen2_dep8_batch768_eplb0_mtp2_1600.yaml", "decode", "instance counts 2; concurrency 896-5152", []int{800}},
		{"maxthroughput-ctx3_pp4_gen1_dep32_batch16_eplb0_mtp1.yaml", "decode", "concurrency 16-1024", []int{512}},
		{"low-latency-mtp.yaml", "decode", "instance counts 2; concurrency 8-512", []int{4}},
		{"max_tpt.yaml", "decode", "instance counts 2; concurrency 8-512", []int{256}},
		{"mid-curve.yaml", "decode", "instance counts 1; concurrency 8-512", []int{64}},
		{"h100-fp8-1p2d-max-tp-mtp.yaml", "decode", "instance counts 2; concurrency 2-512", []int{16, 1, 256}},
		{"1k1k.yaml", "decode", "instance counts 1; concurrency 64-128", []int{91}},
		{"1k1k.yaml", "decode", "instance counts 1; concurrency unstated", []int{0, 1}},
		{"ctx1_gen4_xep8_batch16_eplb0_mtp3.yaml", "decode", "instance counts 1; concurrency unstated", []int{0, 1}},
	} {
		p := &measured.Placement{ID: "srt-1", Source: "s@1 recipes/a/" + c.name, Task: c.task, Note: c.note, GPUs: 8}
		var got []int
		for _, u := range loads(p) {
			got = append(got, u.inFlight(p))
		}
		if len(got) != len(c.want) {
			t.Errorf("%s, %s: %v, want %v", c.name, c.note, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s, %s: %v, want %v", c.name, c.note, got, c.want)
				break
			}
		}
	}
}

// The users of a prefill instance follow from how many there are for decode.
func TestLoadsOfPrefill(t *testing.T) {
	p := &measured.Placement{ID: "srt-1", Source: "r/ctx2_gen3_tep8_batch16_eplb0_mtp3.yaml", Task: "prefill", Note: "instance counts 2; concurrency 1-9", GPUs: 8}
	if u := loads(p)[0]; u.total != 48 || u.of(p) != 2 {
		t.Errorf("%+v, want 48 users of two instances", u)
	}
	if u := loads(&measured.Placement{ID: "x-1", Concurrency: 64}); len(u) != 1 {
		t.Errorf("a stated concurrency is %d loads", len(u))
	}
}

// A row whose load nobody states counts where it does best, and the share of all layouts that would is told.
func TestDecisionUnderUnknownLoads(t *testing.T) {
	j := jobOf(t, srtHead+"decode,8,GB200,2,,72,8,1,1,8,,,,,,1024/1024"+srtTail+"1; concurrency unstated\n")
	if len(j.others) != 1 || j.others[0].work.Batch != 1 || j.others[0].work.Objective != string(planner.Latency) {
		t.Fatalf("others: %+v", j.others)
	}
	if j.work.Batch != 0 || j.work.Objective != string(planner.Throughput) {
		t.Errorf("the first: %+v", j.work)
	}
	a, b := Choice{Rank: 5, Ratio: 1.2, Fits: true}, Choice{Rank: 2, Ratio: 1.3, Fits: true}
	if better(&a, &b) || !better(&b, &a) {
		t.Error("a place among the first three counts before the cost")
	}
	if c := (Choice{}); better(&c, &a) {
		t.Error("a layout that the search drops is no better")
	}
}
