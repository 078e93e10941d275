package model

// opAbsorb marks MLA's up-projection of keys and values: prefill multiplies with it, decode folds it into queries and
// output.
const opAbsorb = "kv_b_proj"

// gemm is one matrix product of a layer: the fused tensors of one Op.
type gemm struct {
	name   string
	parts  []int // tensors of the kind
	in     int
	part   Part
	absorb bool
}

// kindFormats is what prepare derives from a kind's tensors, so that listing operations needs no search.
type kindFormats struct {
	gemms   []gemm
	experts int // the first experts' tensor, -1 without
	// expertBias: the experts' products add a bias.
	expertBias bool
}

// prepare groups the tensors of a kind by GEMM.
func (k *Kind) prepare() {
	k.fmt.experts = -1
	for i := range k.Tensors {
		t := &k.Tensors[i]
		if t.Part == PartExperts {
			k.fmt.expertBias = k.fmt.expertBias || t.In == 0 && t.Count > 0
			if k.fmt.experts < 0 && t.In > 0 {
				k.fmt.experts = i
			}
			continue
		}
		if t.Op == "" || t.In == 0 {
			continue
		}
		at := -1
		for j := range k.fmt.gemms {
			if g := &k.fmt.gemms[j]; g.name == t.Op && g.part == t.Part && g.in == t.In {
				at = j
			}
		}
		if at < 0 {
			at = len(k.fmt.gemms)
			k.fmt.gemms = append(k.fmt.gemms, gemm{name: t.Op, in: t.In, part: t.Part, absorb: t.Op == opAbsorb})
		}
		k.fmt.gemms[at].parts = append(k.fmt.gemms[at].parts, i)
	}
}

// dims returns output and input width of a GEMM on one rank.
func (k *Kind) dims(g *gemm, d degrees) (n, in int) {
	in = g.in
	for _, i := range g.parts {
		t := &k.Tensors[i]
		s := t.share(d)
		if t.Row {
			n = t.Out
			in = int(float64(t.In)*s + 0.5)
			continue
		}
		n += int(float64(t.Out)*s + 0.5)
	}
	return n, in
}
