package parallel

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestBusFactors(t *testing.T) {
	for _, c := range []struct {
		op   Op
		n    int
		want float64
	}{
		{AllReduce, 8, 1.75}, {AllGather, 8, 0.875}, {ReduceScatter, 4, 0.75}, {AllToAll, 2, 0.5},
		{Broadcast, 8, 1}, {Reduce, 8, 1}, {SendRecv, 2, 1}, {AllReduce, 1, 0},
	} {
		if got := c.op.BusFactor(c.n); got != c.want {
			t.Errorf("%s on %d: %v, want %v", c.op, c.n, got, c.want)
		}
	}
}

func TestNamesRoundTrip(t *testing.T) {
	for _, o := range Ops() {
		var back Op
		if err := back.UnmarshalText([]byte(o.String())); err != nil || back != o {
			t.Errorf("%s reads back as %s, %v", o, back, err)
		}
	}
	for d := range numDims {
		var back Dim
		if err := back.UnmarshalText([]byte(d.String())); err != nil || back != d {
			t.Errorf("%s reads back as %s, %v", d, back, err)
		}
	}
	var o Op
	if o.UnmarshalText([]byte("alltoall")) != nil || o != AllToAll {
		t.Error("nccl-tests' alltoall is not read")
	}
	if err := o.UnmarshalText([]byte("nope")); err == nil || !strings.Contains(err.Error(), "all_reduce") {
		t.Errorf("unknown op: %v, want the known names", err)
	}
}

// draw makes a consistent random strategy.
func draw(t *rapid.T) Strategy {
	s := Strategy{
		TP: rapid.SampledFrom([]int{1, 2, 3, 4, 8}).Draw(t, "tp"), PP: rapid.IntRange(1, 4).Draw(t, "pp"),
		DP: rapid.IntRange(1, 6).Draw(t, "dp"), CP: rapid.IntRange(1, 3).Draw(t, "cp"),
	}
	var divs []int
	for d := 1; d <= s.StageRanks(); d++ {
		if s.StageRanks()%d == 0 {
			divs = append(divs, d)
		}
	}
	ranks := rapid.SampledFrom(divs).Draw(t, "expert ranks")
	s.EP, s.ExpertTP = ranks, 1
	for _, d := range divs {
		if ranks%d == 0 && rapid.Bool().Draw(t, "cut") {
			s.EP, s.ExpertTP = ranks/d, d
		}
	}
	o := rapid.Permutation([]Dim{TP, CP, DP, PP}).Draw(t, "order")
	s.Order = o
	return s
}

func TestRankArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		for r := range s.World() {
			if back := s.RankOf(s.CoordsOf(r)); back != r {
				t.Fatalf("%s order %v: rank %d has coords %+v, which is rank %d", s, s.Order, r, s.CoordsOf(r), back)
			}
		}
		want := map[Dim]int{TP: s.TP, CP: s.CP, DP: s.DP, PP: s.PP, EP: s.EP, ExpertTP: s.ExpertTP, ExpertDP: s.ExpertDP()}
		for kind, size := range want {
			groups := s.Groups(kind)
			if size == 1 {
				if groups != nil {
					t.Fatalf("%s: %s groups of one: %v", s, kind, groups)
				}
				continue
			}
			checkArithmetic(t, s, kind, groups)
			seen := map[int]bool{}
			for _, g := range groups {
				if len(g) != size {
					t.Fatalf("%s: %s group %v, want %d ranks", s, kind, g, size)
				}
				checkGroup(t, s, kind, g)
				for _, r := range g {
					if seen[r] {
						t.Fatalf("%s: rank %d is in two %s groups", s, r, kind)
					}
					seen[r] = true
				}
			}
			if len(seen) != s.World() {
				t.Fatalf("%s: %s groups hold %d of %d ranks", s, kind, len(seen), s.World())
			}
		}
	})
}

// checkArithmetic compares the groups of a kind with their arithmetic.
func checkArithmetic(t *rapid.T, s Strategy, kind Dim, groups [][]int) {
	stride, ok := s.Arithmetic(kind)
	if !ok {
		return
	}
	for _, g := range groups {
		for i, r := range g {
			if r != g[0]+i*stride || r/stride%len(g) != i {
				t.Fatalf("%s order %v: %s group %v is not arithmetic with stride %d", s, s.Order, kind, g, stride)
			}
		}
	}
}

// checkGroup compares a group with the coordinates of its members: its own coordinate counts up, the others of its side
// and the stage stay.
func checkGroup(t *rapid.T, s Strategy, kind Dim, g []int) {
	first := s.CoordsOf(g[0])
	own := s.GroupOf(kind, g[0])
	for i, r := range g {
		if s.GroupOf(kind, r) != own {
			t.Fatalf("%s order %v: rank %d of %s group %v says it is in %+v", s, s.Order, r, kind, g, s.GroupOf(kind, r))
		}
		c, want := s.CoordsOf(r), first
		switch kind {
		case TP:
			want.TP = i
		case CP:
			want.CP = i
		case DP:
			want.DP = i
		case PP:
			want.PP = i
		case EP:
			want.EP = i
		case ExpertTP:
			want.ExpertTP = i
		case ExpertDP:
			want.ExpertDP = i
		}
		if kind == EP || kind == ExpertTP || kind == ExpertDP {
			c.TP, c.CP, c.DP, want.TP, want.CP, want.DP = 0, 0, 0, 0, 0, 0
		} else {
			c.EP, c.ExpertTP, c.ExpertDP, want.EP, want.ExpertTP, want.ExpertDP = 0, 0, 0, 0, 0, 0
		}
		if c != want {
			t.Fatalf("%s order %v: %s group %v: rank %d has %+v, want %+v", s, s.Order, kind, g, r, c, want)
		}
	}
}

// Megatron-LM's documented example: 16 ranks, tp 2, pp 4, default order: tp groups are neighbours, pp groups stride 4.
func TestMegatronExample(t *testing.T) {
	s := Strategy{TP: 2, PP: 4, DP: 2}.Normalize()
	if g := s.Groups(TP)[0]; !slices.Equal(g, []int{0, 1}) {
		t.Errorf("first tp group %v", g)
	}
	if g := s.Groups(PP)[0]; !slices.Equal(g, []int{0, 4, 8, 12}) {
		t.Errorf("first pp group %v", g)
	}
	if g := s.Groups(DP)[0]; !slices.Equal(g, []int{0, 2}) {
		t.Errorf("first dp group %v", g)
	}
}

func TestCheckNamesContradictions(t *testing.T) {
	s := Strategy{TP: 2, EP: 3}.Normalize()
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "does not divide") {
		t.Errorf("ep 3 over 2 ranks: %v", err)
	}
	s = Strategy{Order: []Dim{TP, TP, DP, PP}}.Normalize()
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "order") {
		t.Errorf("doubled tp in the order: %v", err)
	}
	s = Strategy{TP: -1}.Normalize()
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "tp is -1") {
		t.Errorf("negative tp: %v", err)
	}
	if got := (Strategy{TP: 8, DP: 4, EP: 32}.Normalize()).String(); got != "tp8 dp4 ep32" {
		t.Errorf("prints %q", got)
	}
	if got := (Strategy{TP: 1, DP: 64, EP: 64}.Normalize()); got.AttentionDP() != 64 || got.ExpertDP() != 1 {
		t.Errorf("attention-dp %d, expert-dp %d", got.AttentionDP(), got.ExpertDP())
	}
}
