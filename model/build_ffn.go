package model

// mlp adds a dense MLP; ops of the same layer must not share a module.
func (b *builder) mlp(k *Kind, module string, inter int, gated, withBias bool) {
	k.FFN.Kind, k.FFN.Inter, k.FFN.Gated = Dense, inter, gated
	b.mlpTensors(k, module, PartMLP, "mlp", inter, b.hidden, gated, withBias, TensorSplit)
}

func (b *builder) mlpTensors(k *Kind, module string, part Part, op string, inter, in int, gated, withBias bool, split Split) {
	up, down := op+"_up", op+"_down"
	add := func(name string) {
		k.matrix(module+"."+name, up, part, inter, in, split, inter, false)
		if withBias {
			k.vector(module+"."+name+".bias", part, inter, split, inter)
		}
	}
	if gated {
		add("gate_proj")
	}
	add("up_proj")
	k.matrix(module+".down_proj", down, part, in, inter, split, inter, true)
	if withBias {
		k.vector(module+".down_proj.bias", part, in, Replicated, 0)
	}
}

// moe describes a layer of experts.
type moe struct {
	module      string // "mlp"
	experts     int
	topK        int
	inter       int
	gated       bool
	expertBias  bool
	routerBias  bool // a bias or correction for each expert
	routerRows  int  // rows of the router, if not the number of experts
	shared      int  // width of the shared experts together
	sharedGate  bool
	sharedName  string
	latent      int
	latentNorm  bool
	zero        int
	groups, top int
}

func (b *builder) moe(k *Kind, m moe) {
	f := &k.FFN
	f.Kind, f.Experts, f.TopK, f.ExpertInter, f.SharedInter, f.Latent, f.ZeroExperts, f.Gated = Experts, m.experts, m.topK, m.inter, m.shared, m.latent, m.zero, m.gated
	f.Groups, f.TopGroups = m.groups, m.top
	h, in := b.hidden, b.hidden
	if m.latent > 0 {
		in = m.latent
		k.copied(m.module+".fc1_latent_proj", "latent_in", PartMLP, in, h, false)
		k.copied(m.module+".fc2_latent_proj", "latent_out", PartMLP, h, in, false)
		if m.latentNorm {
			k.norm(m.module+".latent_norm", in)
		}
	}
	rows := m.experts + m.zero
	if m.routerRows > 0 {
		rows = m.routerRows
	}
	k.plain(m.module+".gate", "router", PartRouter, rows, h)
	if m.routerBias {
		k.vector(m.module+".gate.bias", PartRouter, rows, Replicated, 0)
	}
	expert := func(name string, out, in int, row bool) {
		k.Tensors = append(k.Tensors, Tensor{Module: m.module + ".experts.0." + name, Part: PartExperts, Out: out, In: in, Count: m.experts,
			Split: ExpertSplit, Units: m.inter, Row: row, Linear: true})
		if m.expertBias {
			t := Tensor{Module: m.module + ".experts.0." + name + ".bias", Part: PartExperts, Out: out, Count: m.experts, Split: ExpertSplit, Units: m.inter}
			if row {
				t.Units = 1
			}
			k.Tensors = append(k.Tensors, t)
		}
	}
	if m.gated {
		expert("gate_proj", m.inter, in, false)
	}
	expert("up_proj", m.inter, in, false)
	expert("down_proj", in, m.inter, true)
	if m.shared > 0 {
		name := m.sharedName
		if name == "" {
			name = "shared_experts"
		}
		b.mlpTensors(k, m.module+"."+name, PartShared, "shared", m.shared, h, m.gated, false, SharedSplit)
		if m.sharedGate {
			k.plain(m.module+"."+name+"_gate", "", PartRouter, 1, h)
		}
	}
}
