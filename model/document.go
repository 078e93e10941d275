package model

import (
	"fmt"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// APIVersion marks documents of this form.
const APIVersion = "rankmap/v1"

// Document is what a network costs, as other tools read it.
type Document struct {
	APIVersion   string      `json:"apiVersion" yaml:"apiVersion"`
	Kind         string      `json:"kind" yaml:"kind"` // "Model"
	Name         string      `json:"name" yaml:"name"`
	Architecture string      `json:"architecture" yaml:"architecture"`
	ModelType    string      `json:"modelType,omitempty" yaml:"modelType,omitempty"`
	Estimated    bool        `json:"estimated,omitempty" yaml:"estimated,omitempty"`
	Parameters   ParamCounts `json:"parameters" yaml:"parameters"`
	Layers       int         `json:"layers" yaml:"layers"`
	Hidden       int         `json:"hidden" yaml:"hidden"`
	Vocab        int         `json:"vocab" yaml:"vocab"`
	MaxContext   int         `json:"maxContext,omitempty" yaml:"maxContext,omitempty"`
	LayerKinds   []LayerKind `json:"layerKinds" yaml:"layerKinds"`
	// KVBytesPerTokenBf16 counts sliding-window layers like full ones.
	KVBytesPerTokenBf16   units.Bytes `json:"kvBytesPerTokenBf16" yaml:"kvBytesPerTokenBf16"`
	StateBytesPerSequence units.Bytes `json:"stateBytesPerSequence" yaml:"stateBytesPerSequence"`
	WeightBytes           units.Bytes `json:"weightBytes" yaml:"weightBytes"` // main network as stored, scales included
	WeightBytesBf16       units.Bytes `json:"weightBytesBf16" yaml:"weightBytesBf16"`
	MTPWeightBytes        units.Bytes `json:"mtpWeightBytes,omitempty" yaml:"mtpWeightBytes,omitempty"`
	Weights               string      `json:"weights" yaml:"weights"` // how they are stored, in words
	KVCache               string      `json:"kvCache,omitempty" yaml:"kvCache,omitempty"`
	Warnings              []string    `json:"warnings" yaml:"warnings"`
	Split                 *SplitCost  `json:"split,omitempty" yaml:"split,omitempty"`
}

// ParamCounts counts parameters; MTP is apart from Total.
type ParamCounts struct {
	Total  int64 `json:"total" yaml:"total"`
	Active int64 `json:"active" yaml:"active"`
	// ActiveBody is Active without the input embedding.
	ActiveBody int64 `json:"activeWithoutEmbedding" yaml:"activeWithoutEmbedding"`
	MTP        int64 `json:"mtp" yaml:"mtp"`
	// Vision is the vision tower, not in Total; 0 = none or not known.
	Vision int64            `json:"vision,omitempty" yaml:"vision,omitempty"`
	ByPart map[string]int64 `json:"byPart" yaml:"byPart"`
}

// LayerKind describes the layers of one kind.
type LayerKind struct {
	Layers     int         `json:"layers" yaml:"layers"`
	First      int         `json:"first" yaml:"first"` // index of the first one
	Mixer      string      `json:"mixer" yaml:"mixer"`
	FFN        string      `json:"ffn" yaml:"ffn"`
	Parameters int64       `json:"parameters" yaml:"parameters"` // of one layer
	Weights    units.Bytes `json:"weightBytes" yaml:"weightBytes"`
	KVPerToken float64     `json:"kvBytesPerTokenBf16" yaml:"kvBytesPerTokenBf16"`
	Window     int         `json:"window,omitempty" yaml:"window,omitempty"`
	State      units.Bytes `json:"stateBytes,omitempty" yaml:"stateBytes,omitempty"`
}

// SplitCost is what a strategy moves and holds for one step.
type SplitCost struct {
	Strategy    string            `json:"strategy" yaml:"strategy"`
	GPUs        int               `json:"gpus" yaml:"gpus"`
	Task        string            `json:"task" yaml:"task"`
	Batch       int               `json:"batch" yaml:"batch"` // sequences of one attention replica
	Context     int               `json:"context" yaml:"context"`
	Violations  []string          `json:"violations" yaml:"violations"`
	Notes       []string          `json:"notes" yaml:"notes"`
	Stages      []StageCost       `json:"stages" yaml:"stages"`
	Memory      Memory            `json:"memory" yaml:"memory"` // of the fullest stage
	MemoryTotal units.Bytes       `json:"memoryTotal" yaml:"memoryTotal"`
	Gradients   []CollectiveEntry `json:"gradientCollectives,omitempty" yaml:"gradientCollectives,omitempty"`
	TransferKV  units.Bytes       `json:"kvTransferBytesPerSequence,omitempty" yaml:"kvTransferBytesPerSequence,omitempty"`
}

// StageCost is one pipeline stage's part; stages with equal lists are merged.
type StageCost struct {
	Stages      []int             `json:"stages" yaml:"stages,flow"`
	Layers      int               `json:"layers" yaml:"layers"`
	FLOPs       float64           `json:"flops" yaml:"flops"`
	Collectives []CollectiveEntry `json:"collectives" yaml:"collectives"`
	Operations  []OperationEntry  `json:"operations" yaml:"operations"`
}

// CollectiveEntry is a collective of a step.
type CollectiveEntry struct {
	Name         string      `json:"name" yaml:"name"`
	Op           string      `json:"op" yaml:"op"`
	Group        string      `json:"group" yaml:"group"`
	Bytes        units.Bytes `json:"bytes" yaml:"bytes"`
	DType        string      `json:"dtype" yaml:"dtype"`
	Times        int         `json:"times" yaml:"times"`
	Overlappable bool        `json:"overlappable" yaml:"overlappable"`
}

// OperationEntry is a computation of a step on one GPU.
type OperationEntry struct {
	Name     string      `json:"name" yaml:"name"`
	DType    string      `json:"dtype" yaml:"dtype"`
	Shape    string      `json:"shape" yaml:"shape"`
	Times    int         `json:"times" yaml:"times"`
	FLOPs    float64     `json:"flops" yaml:"flops"` // of one execution
	Bytes    units.Bytes `json:"bytes" yaml:"bytes"` // of one execution
	Backward bool        `json:"backward,omitempty" yaml:"backward,omitempty"`
}

// Describe returns the network's document.
func (s *Spec) Describe() *Document {
	p := s.Params()
	d := &Document{APIVersion: APIVersion, Kind: "Model", Name: s.Name, Architecture: s.Architecture, ModelType: s.ModelType, Estimated: s.Estimated,
		Parameters: ParamCounts{Total: p.Total, Active: p.Active, ActiveBody: p.ActiveBody, MTP: p.MTP, Vision: s.Vision, ByPart: map[string]int64{}},
		Layers:     s.Layers(), Hidden: s.Hidden, Vocab: s.Vocab, MaxContext: s.MaxContext, LayerKinds: []LayerKind{},
		KVBytesPerTokenBf16: s.KVBytesPerToken("bf16"), StateBytesPerSequence: s.StateBytes("bf16"),
		WeightBytes: s.WeightBytes(""), WeightBytesBf16: s.WeightBytes("bf16"), MTPWeightBytes: s.MTPBytes(), Weights: s.DType, KVCache: s.KVDType,
		Warnings: append([]string{}, s.Warnings...)}
	if s.Quant != "" {
		d.Weights = s.Quant + "; the rest " + s.DType
	}
	for part, n := range p.ByPart {
		if n > 0 && Part(part) != PartMTP {
			d.Parameters.ByPart[Part(part).String()] = n
		}
	}
	for i := range s.Kinds {
		k := &s.Kinds[i]
		l := LayerKind{Layers: int(s.prefix[i][len(s.layers)]), Mixer: k.Mixer.words(), FFN: k.FFN.words(), KVPerToken: k.LayerKVBytesPerToken("bf16"), Window: k.Mixer.Window, State: k.StateBytes("bf16")}
		for first, at := range s.layers {
			if int(at) == i {
				l.First = first
				break
			}
		}
		for j := range k.Tensors {
			l.Parameters += k.Tensors[j].Params()
			l.Weights += units.Bytes(k.Tensors[j].Bytes())
		}
		d.LayerKinds = append(d.LayerKinds, l)
	}
	return d
}

func (m *Mixer) words() string {
	switch m.Kind {
	case Attention:
		name := "GQA"
		switch m.KVHeads {
		case m.Heads:
			name = "MHA"
		case 1:
			name = "MQA"
		}
		w := fmt.Sprintf("%s %d/%d heads of %d", name, m.Heads, m.KVHeads, m.HeadDim)
		if m.VHeadDim != m.HeadDim {
			w += fmt.Sprintf(" (values %d)", m.VHeadDim)
		}
		switch {
		case m.Chunked && m.Window > 0:
			w += fmt.Sprintf(", chunks of %d", m.Window)
		case m.Window > 0:
			w += fmt.Sprintf(", window %d", m.Window)
		}
		if m.SharedKV {
			w += ", keys are values"
		}
		if m.NoCache {
			w += ", no cache of its own"
		}
		if m.IndexTopK > 0 {
			w += fmt.Sprintf(", sparse top %d", m.IndexTopK)
		}
		if m.State > 0 {
			w += ", beside a state space"
		}
		return w
	case MLA:
		w := fmt.Sprintf("MLA %d heads, latent %d+%d", m.Heads, m.KVLora, m.Rope)
		if m.IndexTopK > 0 {
			w += fmt.Sprintf(", sparse top %d", m.IndexTopK)
			if !m.IndexOwn {
				w += " of an earlier layer"
			}
		}
		return w
	case Compressed:
		w := fmt.Sprintf("MQA %d heads of %d, window %d", m.Heads, m.HeadDim, m.Window)
		if m.CompressRatio > 0 {
			w += fmt.Sprintf(" and 1 entry for %d tokens", m.CompressRatio)
		}
		return w
	case NoMixer:
		return "none"
	}
	return fmt.Sprintf("%s %d heads, state %d", m.Kind, m.Heads, m.State)
}

func (f *FFN) words() string {
	switch f.Kind {
	case Dense:
		return fmt.Sprintf("dense %d", f.Inter)
	case Experts:
		w := fmt.Sprintf("%d experts of %d, top %d", f.Experts, f.ExpertInter, f.TopK)
		if f.SharedInter > 0 {
			w += fmt.Sprintf(", shared %d", f.SharedInter)
		}
		if f.Latent > 0 {
			w += fmt.Sprintf(", latent %d", f.Latent)
		}
		if f.Inter > 0 {
			w += fmt.Sprintf(", beside dense %d", f.Inter)
		}
		return w
	}
	return "none"
}

// Split returns what a strategy moves and holds for a step.
func (s *Spec) Split(st parallel.Strategy, w Work, o MemoryOptions) *SplitCost {
	c := &SplitCost{Strategy: st.String(), GPUs: st.World(), Task: w.Phase.String(), Batch: w.Batch, Context: w.Context, Violations: []string{}, Notes: s.Notes(st)}
	if c.Notes == nil {
		c.Notes = []string{}
	}
	for _, v := range s.CheckAs(st, w.storedAs()) {
		c.Violations = append(c.Violations, v.String())
	}
	for stage := range st.PP {
		sc := s.stageCost(st, w, stage)
		if n := len(c.Stages); n > 0 && sameStage(&c.Stages[n-1], &sc) {
			c.Stages[n-1].Stages = append(c.Stages[n-1].Stages, stage)
			continue
		}
		c.Stages = append(c.Stages, sc)
	}
	c.Memory = s.Memory(st, w, o)
	c.MemoryTotal = c.Memory.Total()
	if w.Phase == Train {
		for _, g := range s.GradientCollectives(st, c.Memory.Stage, o.Training) {
			c.Gradients = append(c.Gradients, entry(g))
		}
	} else {
		c.TransferKV = s.TransferBytes(w.Context, w.KVDType)
	}
	return c
}

func entry(g CollectiveOp) CollectiveEntry {
	return CollectiveEntry{g.Name, g.Op.String(), g.Group.String(), g.Bytes, g.DType, g.Times, g.Overlappable}
}

func (s *Spec) stageCost(st parallel.Strategy, w Work, stage int) StageCost {
	sc := StageCost{Stages: []int{stage}, Layers: s.LayersOn(st, stage), Collectives: []CollectiveEntry{}, Operations: []OperationEntry{}}
	for _, g := range s.StepCollectives(st, w, stage) {
		sc.Collectives = append(sc.Collectives, entry(g))
	}
	for _, op := range s.StepOps(st, w, stage) {
		sc.FLOPs += op.FLOPs * float64(op.Times)
		sc.Operations = append(sc.Operations, OperationEntry{op.Name, op.DType, op.shape(), op.Times, op.FLOPs, op.Bytes, op.Backward})
	}
	return sc
}

func sameStage(a, b *StageCost) bool {
	if a.Layers != b.Layers || len(a.Collectives) != len(b.Collectives) || len(a.Operations) != len(b.Operations) {
		return false
	}
	for i := range a.Collectives {
		if a.Collectives[i] != b.Collectives[i] {
			return false
		}
	}
	for i := range a.Operations {
		if a.Operations[i] != b.Operations[i] {
			return false
		}
	}
	return true
}

func (op *ComputeOp) shape() string {
	switch op.Kind {
	case GEMM:
		return fmt.Sprintf("%d x %d x %d", op.M, op.N, op.K)
	case MoE:
		return fmt.Sprintf("%d tokens, %d/%d experts, %d x %d, ep%d etp%d", op.MoETokens, op.TopK, op.Experts, op.Hidden, op.Inter, op.EP, op.ExpertTP)
	case Elementwise:
		return ""
	}
	w := fmt.Sprintf("%d x %d tokens, %d/%d heads of %d, context %d", op.Batch, op.Tokens, op.Heads, op.KVHeads, op.HeadDim, op.Context)
	if op.Window > 0 {
		w += fmt.Sprintf(", window %d", op.Window)
	}
	return w
}
