package model

// moeFamilies are networks with routed experts and plain attention.
var moeFamilies = []*family{
	{types: []string{"mixtral"}, classes: []string{"Mixtral"}, defaults: merge(sizes(4096, 32, 32, 8, 14336, 32000), map[string]int{nameExperts[0]: 8, nameTopK[0]: 2}),
		build: standard(recipe{moe: func(b *builder, i int) *moe {
			m := b.experts(b.inter)
			m.module = "block_sparse_moe"
			return &m
		}})},
}
