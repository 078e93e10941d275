package compute

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestBalancedLoad(t *testing.T) {
	for _, c := range []struct {
		name                 string
		m, topk, experts, ep int
		want                 Load
	}{
		{"one token reaches topk experts", 1, 8, 256, 1, Load{8, 8, [2]float64{8, 8}}},
		{"many tokens reach all", 4096, 8, 256, 8, Load{4096, 32, [2]float64{32, 64}}},
		{"one expert a GPU", 64, 1, 8, 8, Load{8, 1, [2]float64{1, 1}}},
	} {
		if got := Balanced(c.m, c.topk, c.experts, c.ep); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestPowerLawHotRank: the published hot-rank factors of 4,096 tokens, topk 8 (a draw: 12 %).
func TestPowerLawHotRank(t *testing.T) {
	for _, c := range []struct {
		experts, ep int
		a, want     float64
	}{
		{256, 8, 1.01, 1.46}, {256, 16, 1.01, 1.88}, {256, 64, 1.01, 3.74}, {256, 8, 1.2, 1.69}, {256, 64, 1.2, 5.18},
		{128, 8, 1.01, 1.68}, {128, 32, 1.01, 3.27}, {128, 8, 1.2, 2.0},
	} {
		if got := HotRank(4096, 8, c.experts, c.ep, c.a); math.Abs(got/c.want-1) > 0.12 {
			t.Errorf("%d experts, ep %d, exponent %g: %.2f, want about %.2f", c.experts, c.ep, c.a, got, c.want)
		}
	}
}

// TestLoadsAddUp: no rank has fewer slots than the mean, more than there are, or more experts than it holds; and the
// same question has the same answer.
func TestLoadsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		experts := 8 << rapid.IntRange(0, 5).Draw(t, "experts")
		ep := 1 << rapid.IntRange(0, 3).Draw(t, "ep")
		topk := rapid.IntRange(1, 8).Draw(t, "topk")
		m := rapid.IntRange(1, 3000).Draw(t, "tokens")
		a := rapid.SampledFrom([]float64{1, 1.01, 1.2, 2}).Draw(t, "exponent")
		mean, local := float64(m*topk)/float64(ep), float64(experts)/float64(ep)
		for name, l := range map[string]Load{"power law": PowerLaw(m, topk, experts, ep, a), "random": Random(m, topk, experts, ep, 1), "skewed": Random(m, topk, experts, ep, 1.7), "balanced": Balanced(m, topk, experts, ep)} {
			if l.Slots < mean*(1-1e-9) && name != "power law" || l.Slots > float64(m*topk)*(1+1e-9) || l.Active > local+1e-9 || l.Active < 0 {
				t.Fatalf("%s: %+v of %d slots, mean %g", name, l, m*topk, mean)
			}
			if l.Rows[0] < l.Slots/128-1 || l.Rows[1] < l.Rows[0]*0.99 || l.Rows[0] > l.Slots/128+local+1 {
				t.Fatalf("%s: tile rows %+v", name, l)
			}
		}
		one, two := PowerLaw(m, topk, experts, ep, a), PowerLaw(m, topk, experts, ep, a)
		if fmt.Sprint(one) != fmt.Sprint(two) {
			t.Fatal("two answers")
		}
	})
}

// TestRandomMissesExperts: 64 tokens with 8 of 256 experts leave 13 % idle.
func TestRandomMissesExperts(t *testing.T) {
	if l := Random(64, 8, 256, 1, 1); math.Abs(l.Active/256-0.869) > 0.01 {
		t.Errorf("%.1f active experts", l.Active)
	}
}

func TestLoadOfNames(t *testing.T) {
	if _, err := LoadOf("power_law_1.2", 64, 8, 256, 8); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "zipf", "power_law_", "power_law_x", "power_law_-1"} {
		if _, err := LoadOf(bad, 64, 8, 256, 8); err == nil {
			t.Errorf("%q accepted", bad)
		}
	}
}

func BenchmarkPowerLaw(b *testing.B) {
	for b.Loop() {
		PowerLaw(4096, 8, 256, 32, 1.2)
	}
}
