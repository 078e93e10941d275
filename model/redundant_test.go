package model

import (
	"os"
	"testing"

	"rankmap/internal/parallel"
)

func TestRedundantExpertsHoldWeightsAndAdmitOtherDegrees(t *testing.T) {
	s, err := Load(os.DirFS("../configs"), "deepseek-v3")
	if err != nil {
		t.Fatal(err)
	}
	more := s.WithRedundantExperts(32)
	st := parallel.Strategy{TP: 1, PP: 1, DP: 72, CP: 1, EP: 72, ExpertTP: 1}.Normalize()
	if len(s.Check(st)) == 0 || len(more.Check(st)) != 0 {
		t.Errorf("ep72: %v with 256 experts, %v with 288", s.Check(st), more.Check(st))
	}
	st.DP, st.EP = 32, 32
	w := Work{Phase: Decode, Batch: 64, Tokens: 1, Context: 4096}
	a, b := s.Memory(st, w, MemoryOptions{}), more.Memory(st, w, MemoryOptions{})
	_, _, added, _ := s.Redundancy(32, 32, "")
	if d := b.Weights - a.Weights; d < added*99/100 || d > added*101/100 {
		t.Errorf("32 experts more take %v, want %v", d, added)
	}
	if n, _ := s.Experts(); n != 256 {
		t.Errorf("the network itself changed: %d experts", n)
	}
	if s.WithRedundantExperts(0) != s {
		t.Error("none extra is another network")
	}
}
