package accuracy

import (
	"fmt"
	"testing"

	"rankmap/internal/measured"
)

func TestStatedOrder(t *testing.T) {
	for text, want := range map[string]string{
		"tp-cp-ep-dp-pp (Megatron default)":        "[tp cp ep dp pp]",
		"tp-dp-pp":                                 "[tp cp ep dp pp]",
		"tp-cp-pp-dp (TP_PP_DP_MAPPING=True)":      "[tp cp pp ep dp]",
		"tp,cp,pp,dp (inner to outer)":             "[tp cp pp ep dp]",
		"tp-dp-pp (mapping kept TP inside a node)": "[tp cp ep dp pp]",
		"":            "[]",
		"tp-pp":       "[]",
		"tp-tp-dp-pp": "[]",
		"ring-dp-pp":  "[]",
	} {
		if got := fmt.Sprint(statedOrder(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestRecipesWithAPlainAllToAll(t *testing.T) {
	for _, c := range []struct {
		model, gpu string
		want       bool
	}{
		{"Qwen3_235B_a22B", "H100", true}, {"Qwen3_235B_a22B", "B300", true}, {"Qwen3_235B_a22B", "GB200", false},
		{"Qwen3_30B_a3B", "H100", false}, {"Qwen3_Next_80B_a3B", "H100", true}, {"Qwen3_Next_80B_a3B", "B200", false}, {"DeepSeekV3", "H100", false},
	} {
		if got := allToAll(&measured.Placement{Model: c.model, GPU: c.gpu}); got != c.want {
			t.Errorf("%s on %s: %v", c.model, c.gpu, got)
		}
	}
}
