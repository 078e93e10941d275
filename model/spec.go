package model

// MixerKind is how a layer mixes tokens.
type MixerKind uint8

// The kinds of mixer.
const (
	NoMixer    MixerKind = iota // an MLP-only layer, or attention replaced by a matrix
	Attention                   // softmax attention with a key and a value per KV head (MHA, GQA, MQA)
	MLA                         // multi-head latent attention: one compressed latent a token
	Compressed                  // keys and values of several tokens merged, beside a short window (DeepSeek-V4)
	Linear                      // linear attention with a state per head (gated delta, KDA, lightning)
	Mamba                       // selective state space, version 1
	Mamba2                      // selective state space, version 2
	ShortConv                   // gated short convolution
)

var mixerNames = [...]string{"none", "attention", "mla", "compressed", "linear", "mamba", "mamba2", "conv"}

// String returns the kind's name, such as "mla".
func (k MixerKind) String() string {
	if int(k) < len(mixerNames) {
		return mixerNames[k]
	}
	return "mixer"
}

// Mixer is the token mixing of one kind of layer. Fields that a kind does not use are 0.
type Mixer struct {
	Kind     MixerKind
	Heads    int // query heads
	KVHeads  int
	HeadDim  int // of queries and keys
	VHeadDim int // of values, if another; equals HeadDim otherwise
	Window   int // tokens a sliding window or a chunk lets a query see; 0 = all
	Chunked  bool
	SharedKV bool // keys and values are one tensor, cached once
	NoCache  bool // reuses the cache of an earlier layer
	OutGate  bool // the output is gated by a projection as wide as the queries
	QKNorm   bool // queries and keys are normalised before the product
	QKSum    bool // over all heads together: tensor parallelism sums the squares of its shares

	QLora, KVLora  int // MLA
	Rope, Nope     int // MLA: widths of the rotary and the plain part of a head
	CompressRatio  int // tokens merged into one cached entry (Compressed; 0 = window only)
	OLora, OGroups int // low-rank output projection (Compressed)

	// Sparse attention: an indexer picks TopK of the cached tokens.
	IndexHeads, IndexDim, IndexTopK int
	IndexKey                        IndexKey // what is cached for the indexer
	IndexOwn                        bool     // this layer holds its own indexer

	// Recurrent state of one sequence: elements of the convolution tail and of the state matrix.
	ConvState, State int
	StateBytes       int // bytes an element of State; 4 = fp32
	InProj           int // width of the fused input projection (Linear, Mamba)
	Inner            int // width of the output projection's input
}

// IndexKey is how the key of a sparse-attention indexer is cached.
type IndexKey uint8

// The forms.
const (
	NoIndexKey  IndexKey = iota
	IndexFP8             // fp8 with one fp32 scale for 128 elements, whatever the cache type
	IndexCached          // in the type of the cache
)

// FFNKind is what follows the mixer.
type FFNKind uint8

// The kinds.
const (
	NoFFN FFNKind = iota
	Dense
	Experts
)

var ffnNames = [...]string{"none", "dense", "moe"}

// String returns the kind's name, such as "moe".
func (k FFNKind) String() string {
	if int(k) < len(ffnNames) {
		return ffnNames[k]
	}
	return "ffn"
}

// FFN is the feed-forward part of one kind of layer.
type FFN struct {
	Kind  FFNKind
	Inter int  // width of the dense MLP; beside experts: of a dense MLP that runs in parallel with them
	Gated bool // two input matrices (SwiGLU, GeGLU)

	Experts, TopK int
	ExpertInter   int
	SharedInter   int // width of all shared experts together
	Latent        int // width of the experts' input and output, if not the hidden size
	ZeroExperts   int // experts that pass their input on: routed to, hold nothing
	Groups        int // node-limited routing: expert groups ...
	TopGroups     int // ... of which a token may use this many
}

// effectiveTopK is how many experts that hold weights a token reaches in the mean.
func (f *FFN) effectiveTopK() int {
	if f.ZeroExperts == 0 {
		return f.TopK
	}
	return max(1, (f.TopK*f.Experts+(f.Experts+f.ZeroExperts)/2)/(f.Experts+f.ZeroExperts))
}

// Kind is one kind of layer: all layers with the same shapes and the same storage share one.
type Kind struct {
	Mixer    Mixer
	FFN      FFN
	Parallel bool // mixer and MLP read the same input: one reduction instead of two
	Tensors  []Tensor

	fmt kindFormats
}

// Spec is a network.
type Spec struct {
	Name         string
	Architecture string // such as "LlamaForCausalLM"
	ModelType    string // such as "llama"
	Hidden       int
	Vocab        int
	Tied         bool // the output head is the embedding
	MaxContext   int
	DType        string // of weights that are not quantised: "bf16", "fp16", "fp32"
	Quant        string // how the rest is stored, in words: "fp8 128x128 blocks"; empty when nothing is
	KVDType      string // what the checkpoint asks the cache to be: "fp8"; empty = no wish
	LayerNorm    bool   // LayerNorm and dropout of the GPT line, against RMSNorm
	Estimated    bool   // unknown architecture taken as a dense one
	Multimodal   bool   // vision or audio parts exist, apart from every figure but Vision
	Vision       int64  // parameters of the vision tower and its projector; 0 = none or not known
	Warnings     []string

	Kinds     []Kind
	layers    []uint16   // kind of each layer
	prefix    [][]uint32 // prefix[k][i]: layers of kind k among the first i
	outer     []Tensor   // embedding, head, final norm
	mtp       []Tensor
	MTPLayers int
	learned   bool // positions are rows of a table, not rotations
}

// Layers is the number of layers of the main network.
func (s *Spec) Layers() int { return len(s.layers) }

// Layer returns the kind of a layer.
func (s *Spec) Layer(i int) *Kind { return &s.Kinds[s.layers[i]] }

// Recurrent tells whether any layer mixes tokens by a recurrence: linear attention, Mamba, short convolutions.
func (s *Spec) Recurrent() bool {
	for i := range s.Kinds {
		switch s.Kinds[i].Mixer.Kind {
		case Linear, Mamba, Mamba2, ShortConv:
			return true
		}
	}
	return false
}

// MoE tells whether any layer routes to experts.
func (s *Spec) MoE() bool {
	for i := range s.Kinds {
		if s.Kinds[i].FFN.Kind == Experts {
			return true
		}
	}
	return false
}

// Experts returns the largest number of routed experts and of experts a token in any layer; 0 for a dense network.
func (s *Spec) Experts() (experts, topK int) {
	for i := range s.Kinds {
		f := &s.Kinds[i].FFN
		experts, topK = max(experts, f.Experts), max(topK, f.TopK)
	}
	return experts, topK
}
