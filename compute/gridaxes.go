package compute

import "rankmap/model"

// Axes of the correction grids: knots as log2 (see log2) and the coordinates of an operation. Knots are dense where
// kernels change and where the tables have rows.
var (
	gemmAxes = [][]float64{ // rows, columns, depth
		{0, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14}, {6, 8, 10, 11, 12, 13, 14, 16}, {6, 8, 10, 11, 12, 13, 14, 16},
	}
	prefillAxes = [][]float64{ // sequences x heads, new tokens, head size, windowed or not
		{0, 2, 4, 6, 8, 10, 12, 14}, {4, 6, 7, 8, 9, 10, 11, 12, 14}, {6, 7, 8}, {0, 1},
	}
	decodeAxes = [][]float64{ // sequences x KV heads, context, query heads a KV head
		{0, 2, 4, 5, 6, 7, 8, 9, 10, 12, 16}, {1, 4, 6, 7, 8, 9, 10, 11, 12, 13, 15, 17}, {0, 2, 4, 5, 7},
	}
	mlaPrefillAxes = [][]float64{ // sequences x heads, new tokens, heads
		{0, 2, 4, 6, 7, 8, 9, 10, 11, 12, 14, 17}, {0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17}, {0, 4, 7},
	}
	mlaDecodeAxes = [][]float64{ // sequences, context, heads
		{0, 1, 2, 3, 4, 5, 6, 7, 8, 10}, {0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17}, {0, 2, 3, 4, 5, 6, 7},
	}
	moeAxes = [][]float64{ // tokens an active expert, local experts, weights an expert matrix, expert-parallel ranks
		{0, 2, 3, 4, 5, 6, 7, 8, 10, 12}, {0, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 8}, {17, 20, 22, 24, 26}, {0, 3, 5, 6, 7},
	}
)

// stiff is the stiffness of all shipped grids; values between a third and thrice of these change held-out errors by less
// than half a point.
var stiff = gridPenalty{bend: 1, shrink: 0.05}

// coordsOf gives the coordinates of a sample in its grid. The forms compute the same where they price.
func coordsOf(s *Sample) [4]float64 {
	o := &s.Op
	switch o.Kind {
	case model.GEMM:
		return coords(float64(o.M), float64(o.N), float64(o.K), 1)
	case model.AttnPrefill:
		return prefillCoords(o.Batch, o.Tokens, o.Heads, o.HeadDim, o.Window)
	case model.AttnDecode:
		return coords(float64(o.Batch*o.KVHeads), float64(o.Context), float64(o.Heads)/float64(o.KVHeads), 1)
	case model.MLAPrefill:
		return coords(float64(o.Batch*o.Heads), float64(o.Tokens), float64(o.Heads), 1)
	case model.MLADecode:
		return coords(float64(o.Batch), float64(o.Context), float64(o.Heads), 1)
	default:
		sh := shapeOf(o, s.Load)
		return sh.coords()
	}
}

func coords(a, b, c, d float64) [4]float64 { return [4]float64{log2(a), log2(b), log2(c), log2(d)} }

func prefillCoords(b, s, h, d, w int) [4]float64 {
	x := coords(float64(b*h), float64(s), float64(d), 1)
	if w > 0 {
		x[3] = 1
	}
	return x
}
