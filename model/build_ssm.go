package model

// ssd describes a Mamba-2 mixer.
type ssd struct {
	module                            string
	heads, dim, groups, state, kernel int
	bias, convBias                    bool
	norm                              bool
}

func (b *builder) mambaTwo(k *Kind, m ssd) {
	inner := m.heads * m.dim
	gn := m.groups * m.state
	conv := inner + 2*gn
	k.Mixer = Mixer{Kind: Mamba2, Heads: m.heads, KVHeads: m.groups, HeadDim: m.dim, VHeadDim: m.dim, ConvState: (m.kernel - 1) * conv, State: inner * m.state, StateBytes: 4, InProj: 2*inner + 2*gn + m.heads, Inner: inner}
	b.mambaTwoTensors(k, m)
}

func (b *builder) mambaTwoTensors(k *Kind, m ssd) {
	inner := m.heads * m.dim
	gn := m.groups * m.state
	h := b.hidden
	in := m.module + ".in_proj"
	k.column(in, "in_proj", PartAttention, 2*inner, h, m.heads, false)
	k.matrix(in, "in_proj", PartAttention, 2*gn, h, KVSplit, m.groups, false)
	k.column(in, "in_proj", PartAttention, m.heads, h, m.heads, false)
	if m.bias {
		k.vector(in+".bias", PartAttention, 2*inner+2*gn+m.heads, TensorSplit, m.heads)
	}
	k.vector(m.module+".conv1d", PartAttention, inner*m.kernel, TensorSplit, m.heads)
	k.vector(m.module+".conv1d", PartAttention, 2*gn*m.kernel, KVSplit, m.groups)
	if m.convBias {
		k.vector(m.module+".conv1d.bias", PartAttention, inner+2*gn, TensorSplit, m.heads)
	}
	k.vector(m.module+".dt_bias", PartAttention, m.heads, TensorSplit, m.heads)
	k.vector(m.module+".A_log", PartAttention, m.heads, TensorSplit, m.heads)
	k.vector(m.module+".D", PartAttention, m.heads, TensorSplit, m.heads)
	if m.norm {
		k.vector(m.module+".norm", PartNorm, inner, TensorSplit, m.heads)
	}
	k.row(m.module+".out_proj", "o_proj", PartAttention, h, inner, m.heads, m.bias)
}

// mambaOne adds a Mamba-1 mixer; norms are those of dt, B and C (Jamba).
func (b *builder) mambaOne(k *Kind, module string, inner, state, kernel, rank int, bias, convBias, norms bool) {
	k.Mixer = Mixer{Kind: Mamba, Heads: inner, HeadDim: 1, VHeadDim: 1, ConvState: (kernel - 1) * inner, State: inner * state, StateBytes: 4, InProj: 2 * inner, Inner: inner}
	h := b.hidden
	k.column(module+".in_proj", "in_proj", PartAttention, 2*inner, h, inner, bias)
	k.vector(module+".conv1d", PartAttention, inner*kernel, TensorSplit, inner)
	if convBias {
		k.vector(module+".conv1d.bias", PartAttention, inner, TensorSplit, inner)
	}
	k.row(module+".x_proj", "x_proj", PartAttention, rank+2*state, inner, inner, false)
	k.column(module+".dt_proj", "dt_proj", PartAttention, inner, rank, inner, true)
	k.vector(module+".A_log", PartAttention, inner*state, TensorSplit, inner)
	k.vector(module+".D", PartAttention, inner, TensorSplit, inner)
	if norms {
		k.norm(module+".dt_layernorm", rank+2*state)
	}
	k.row(module+".out_proj", "o_proj", PartAttention, h, inner, inner, bias)
}
