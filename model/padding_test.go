package model

import (
	"strings"
	"testing"

	"rankmap/configs"
	"rankmap/internal/parallel"
)

// gpt-oss has experts of 2880 in mxfp4 blocks of 32: over four ranks a share is 720 = 22.5 blocks, which engines pad; block
// fp8 they refuse.
func TestEnginesPadMXFP4AndRefuseBlockFP8(t *testing.T) {
	s, err := Load(configs.FS, "gpt-oss-120b")
	if err != nil {
		t.Fatal(err)
	}
	four := parallel.Strategy{TP: 4, ExpertTP: 4}.Normalize()
	if v := s.Check(four); len(v) > 0 {
		t.Errorf("tp 4: %v, want it padded", v)
	}
	if n := strings.Join(s.Notes(four), "; "); !strings.Contains(n, "2880 / 4 = 720 is padded to 768") {
		t.Errorf("notes %q do not name the padding", n)
	}
	inter := func(etp int) int {
		for _, op := range s.StepOps(parallel.Strategy{TP: etp, ExpertTP: etp}.Normalize(), Work{Phase: Decode, Batch: 8, Tokens: 1, Context: 128}, 0) {
			if op.Kind == MoE {
				return op.Inter
			}
		}
		return 0
	}
	if got := [3]int{inter(1), inter(2), inter(4)}; got != [3]int{2880, 2880, 3072} {
		t.Errorf("expert width over 1, 2 and 4 ranks: %v in all, want the padding of 4 alone", got)
	}
	d, err := Load(configs.FS, "deepseek-v3")
	if err != nil {
		t.Fatal(err)
	}
	if v := d.Check(parallel.Strategy{TP: 32, ExpertTP: 32}.Normalize()); len(v) == 0 {
		t.Error("2048 / 32 = 64 of a 128-wide fp8 block was accepted")
	}
}
