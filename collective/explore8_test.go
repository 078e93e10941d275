package collective

import "math"

func log2(x float64) float64 { return math.Log2(x) }
func exp(x float64) float64  { return math.Exp(x) }
