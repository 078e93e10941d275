package accuracy

import (
	"slices"
	"strings"

	"rankmap/internal/parallel"
)

// statedOrder is the rank order that a row states, fastest varying first, such as "tp-cp-pp-dp (TP_PP_DP_MAPPING=True)"; empty when
// it states none that ranks could be laid in. Dimensions that it leaves out stand where Megatron-LM has them.
func statedOrder(text string) []parallel.Dim {
	text, _, _ = strings.Cut(text, "(")
	var out []parallel.Dim
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r == '-' || r == ',' || r == ' ' }) {
		at := slices.IndexFunc(parallel.DefaultOrder, func(d parallel.Dim) bool { return d.String() == w })
		if at < 0 || slices.Contains(out, parallel.DefaultOrder[at]) {
			return nil
		}
		out = append(out, parallel.DefaultOrder[at])
	}
	if !slices.Contains(out, parallel.TP) || !slices.Contains(out, parallel.DP) || !slices.Contains(out, parallel.PP) {
		return nil
	}
	if !slices.Contains(out, parallel.CP) {
		out = slices.Insert(out, slices.Index(out, parallel.TP)+1, parallel.CP)
	}
	if !slices.Contains(out, parallel.EP) {
		out = slices.Insert(out, slices.Index(out, parallel.DP), parallel.EP)
	}
	return out
}
