package planner

import (
	"testing"

	"pgregory.net/rapid"

	"rankmap/internal/parallel"
)

func TestStrategiesAreCompleteAndConsistent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 96).Draw(t, "gpus")
		experts := rapid.SampledFrom([]int{0, 8, 60, 128, 256}).Draw(t, "experts")
		s := splitter{gpus: n, layers: 32, expert: experts, cp: rapid.Bool().Draw(t, "cp")}
		seen := map[string]bool{}
		for _, st := range s.strategies(Freedom{}) {
			st = st.Normalize()
			if err := st.Check(); err != nil {
				t.Fatalf("%s: %v", st, err)
			}
			if st.World() != n {
				t.Fatalf("%s has %d ranks, want %d", st, st.World(), n)
			}
			key := st.String()
			if seen[key] {
				t.Fatalf("%s comes twice", key)
			}
			seen[key] = true
			if experts > 0 && experts%st.EP != 0 {
				t.Fatalf("%s: ep does not divide %d experts", st, experts)
			}
		}
		// a dumb twin counts the attention splits of a dense model
		if experts == 0 {
			want := 0
			for tp := 1; tp <= n; tp++ {
				for pp := 1; pp <= min(n, 32); pp++ {
					for cp := 1; cp <= n; cp++ {
						if n%(tp*pp*cp) == 0 && (s.cp || cp == 1) {
							want++
						}
					}
				}
			}
			if len(seen) != want {
				t.Fatalf("%d splits of %d GPUs, want %d", len(seen), n, want)
			}
		}
	})
}

func TestFreedomHolds(t *testing.T) {
	s := splitter{gpus: 64, layers: 80, expert: 0, cp: true}
	f := Freedom{Fix: map[parallel.Dim]int{parallel.TP: 8}, Forbid: map[parallel.Dim]bool{parallel.PP: true}}
	got := s.strategies(f)
	if len(got) == 0 {
		t.Fatal("nothing left")
	}
	for _, st := range got {
		if st.TP != 8 || st.PP != 1 {
			t.Errorf("%s breaks tp=8 without pp", st)
		}
	}
}

func TestOrdersAreDistinct(t *testing.T) {
	st := parallel.Strategy{TP: 2, PP: 2, DP: 2, CP: 2}.Normalize()
	got := orders(st)
	if len(got) != 24 {
		t.Fatalf("%d orders of four dimensions, want 24", len(got))
	}
	seen := map[string]bool{}
	for _, o := range got {
		st.Order = o
		if err := st.Check(); err != nil {
			t.Errorf("%v: %v", o, err)
		}
		key := ""
		for _, d := range o {
			key += d.String() + " "
		}
		if seen[key] {
			t.Errorf("%s twice", key)
		}
		seen[key] = true
	}
	if n := len(orders(parallel.Strategy{TP: 8}.Normalize())); n != 1 {
		t.Errorf("one dimension has %d orders", n)
	}
}

func TestRoundest(t *testing.T) {
	for n, want := range map[int]int{72: 64, 64: 64, 7: 6, 100: 96, 144: 128, 1: 1, 56: 48, 9: 8} {
		if got := roundest(n); got != want {
			t.Errorf("roundest(%d) = %d, want %d", n, got, want)
		}
	}
}
