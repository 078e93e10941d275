package model

import (
	"strings"
	"testing"

	"rankmap/internal/parallel"
)

const blockConfig = `{"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 4,
 "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 16,
 "num_experts_per_tok": 8, "vocab_size": 32000, "torch_dtype": "bfloat16",
 "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}}`

// Blocks of scales belong to the type that a step holds weights in, not to the checkpoint.
func TestBlocksAreThoseOfTheTypeInUse(t *testing.T) {
	s, err := Parse(strings.NewReader(blockConfig), "config.json", Options{})
	if err != nil {
		t.Fatal(err)
	}
	st := parallel.Strategy{TP: 8, ExpertTP: 8}.Normalize()
	for _, c := range []struct {
		dtype  string
		broken bool
	}{{"", true}, {"fp8_block", true}, {"bf16", false}, {"fp8", false}, {"nvfp4", false}, {"nosuch", true}} {
		v := s.CheckAs(st, c.dtype)
		if got := len(v) == 1 && v[0].Rule == "quantisation block"; got != c.broken || len(v) > 1 {
			t.Errorf("768 / 8 columns held in %q: %v, want broken %v", c.dtype, v, c.broken)
		}
	}
	if v := s.Split(st, Work{Phase: Train, Batch: 1, Tokens: 4096, Context: 4096}, MemoryOptions{}).Violations; len(v) > 0 {
		t.Errorf("training holds bf16: %v", v)
	}
}
