package model

import (
	"strings"
	"testing"

	"rankmap/internal/parallel"
)

// Between projection and attention inference rotates queries and keys and writes the cache; queries and keys with a norm
// take one kernel more, and one over all heads sums its squares over tensor parallelism.
func TestInferencePreparesHeads(t *testing.T) {
	for _, c := range []struct {
		config     string
		norm, sums bool
	}{
		{`{"model_type":"llama","hidden_size":4096,"num_hidden_layers":4,"num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,"vocab_size":1000}`, false, false},
		{`{"model_type":"qwen3","hidden_size":4096,"num_hidden_layers":4,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"intermediate_size":14336,"vocab_size":1000}`, true, false},
		{`{"model_type":"olmo2","hidden_size":4096,"num_hidden_layers":4,"num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,"vocab_size":1000}`, true, true},
	} {
		s, err := Parse(strings.NewReader(c.config), "config.json", Options{})
		if err != nil {
			t.Fatal(err)
		}
		st := parallel.Strategy{TP: 4, PP: 1, DP: 1, CP: 1, EP: 1, ExpertTP: 1}
		w := Work{Phase: Decode, Batch: 8, Tokens: 1, Context: 1024}
		have := map[string]ComputeOp{}
		for _, op := range s.AppendStepOps(nil, &st, &w, 0) {
			have[op.Name] = op
		}
		r, ok := have["rotary_cache"]
		// 8 tokens of 8 + 2 heads of 128: read and written; 2 heads of keys and values read and written in bf16
		if want := 8*10*128*4 + 8*2*2*128*4; !ok || r.Times != 4 || r.Kernels != 2 || int(r.Bytes) != want {
			t.Errorf("%.30s: rotary and cache write %+v, want %d bytes", c.config, r, want)
		}
		if _, ok := have["qk_norm"]; ok != c.norm {
			t.Errorf("%.30s: norm of queries and keys %v", c.config, ok)
		}
		sums := 0
		for _, op := range s.AppendStepCollectives(nil, &st, &w, 0) {
			if op.Name == "qk norm" {
				sums += op.Times
			}
		}
		if (sums == 4) != c.sums {
			t.Errorf("%.30s: %d sums of squares", c.config, sums)
		}
		w.Phase = Train
		w.Tokens = 1024
		for _, op := range s.AppendStepOps(nil, &st, &w, 0) {
			if op.Name == "rotary_cache" || op.Name == "qk_norm" {
				t.Errorf("training lists %s", op.Name)
			}
		}
	}
}
