package hardware

import (
	"fmt"
	"io/fs"
)

// Kernels is SYSTEM.kernels.yaml: the parameters that turn the shape of a computation into time on one GPU. What
// belongs to the chip (Matrix) is kept apart from what belongs to a serving framework's kernels and launch path.
//
// Efficiencies are fractions of datasheet rates; times carry their unit in the comment. compute documents the forms.
type Kernels struct {
	System     string                `yaml:"system"`
	Estimate   string                `yaml:"estimate,omitempty"`   // why nothing here was measured on this GPU; empty = measured
	Calibrated string                `yaml:"calibrated,omitempty"` // the user's rows that t0, ec, em were refitted to
	Source     string                `yaml:"source"`
	GEMM       map[string]GEMM       `yaml:"gemm"`       // by compute type, burst clock
	Frameworks map[string]*Framework `yaml:"frameworks"` // "trtllm", "plain"
	// Triton holds expert layers as Triton runs them, by compute type: vLLM and SGLang on Hopper. Inference only.
	Triton map[string]MoE `yaml:"triton,omitempty"`
}

// Framework is what depends on the code that runs, not on the chip: launches, quantization passes, attention kernels.
// Attention keys are "compute type/cache type", such as "bf16/fp8".
type Framework struct {
	About      string                `yaml:"about"`
	GEMM       map[string]Launch     `yaml:"gemm"`
	Prefill    map[string]Prefill    `yaml:"prefill"`
	Decode     map[string]Decode     `yaml:"decode"`
	MLAPrefill map[string]MLAPrefill `yaml:"mlaPrefill,omitempty"`
	MLADecode  map[string]MLADecode  `yaml:"mlaDecode,omitempty"`
	MoE        map[string]MoE        `yaml:"moe,omitempty"`
	// MoEFast is a second kernel of the same library for expert layers, one fused launch instead of a chain of them; a
	// deployment runs whichever is faster. By compute type, gated experts only.
	MoEFast map[string]MoE `yaml:"moeFast,omitempty"`
	Small   Small          `yaml:"small"`
	// DecodeTable holds parameters that describe the measured table only, where its kernel choice or memory layout is
	// not what a deployment runs; Decode is what plans use.
	DecodeTable map[string]Decode `yaml:"decodeTable,omitempty"`
}

// Fit says how well a record predicts rows that took no part in the fit.
type Fit struct {
	Rows   int     `yaml:"rows,omitempty"`   // held-out rows
	Median float64 `yaml:"median,omitempty"` // of |predicted/measured - 1|, percent
	P90    float64 `yaml:"p90,omitempty"`    // percent
	Lo     float64 `yaml:"lo,omitempty"`     // p10 of measured/predicted
	Hi     float64 `yaml:"hi,omitempty"`     // p90 of measured/predicted
	From   string  `yaml:"from,omitempty"`   // where an estimated record comes from
}

// GEMM is the chip's side of a matrix product.
type GEMM struct {
	EC  float64 `yaml:"ec"` // best fraction of the tensor-core peak
	EM  float64 `yaml:"em"` // fraction of the memory bandwidth
	LK  float64 `yaml:"lk"` // ns: shortest time of one unit of K in a block's main loop
	TW  float64 `yaml:"tw"` // us: prologue and epilogue of one wave
	T1  float64 `yaml:"t1"` // us: second kernel or pass of split-K; 0 = the kernels do not split
	P   float64 `yaml:"p"`  // sharpness of the overlap of math and memory: 1 = sum, large = max
	Fit Fit     `yaml:"fit,omitempty"`
}

// Launch is the framework's side of a matrix product.
type Launch struct {
	T0   float64 `yaml:"t0"`             // us: launch and drain, with the quantization kernels where the op has them
	Q    float64 `yaml:"q,omitempty"`    // passes over the activation for quantization
	TR   float64 `yaml:"tr,omitempty"`   // us a row
	TA   float64 `yaml:"ta,omitempty"`   // us when the rows are no multiple of 4: the activation and its scales get padded
	Grid string  `yaml:"grid,omitempty"` // smooth correction over the shape, see compute.Grid
}

// Prefill is attention over a prompt.
type Prefill struct {
	T    int     `yaml:"t"`    // tile edge, tokens
	T0   float64 `yaml:"t0"`   // us
	EC   float64 `yaml:"ec"`   // fraction of the tensor-core peak
	SX   float64 `yaml:"sx"`   // exponentials a score, over 16 a clock and SM
	PM   float64 `yaml:"pm"`   // overlap of the two
	EM   float64 `yaml:"em"`   // memory fraction of rotary, cache write and Q, K, V, O
	WKV  float64 `yaml:"wkv"`  // weight of a KV head against a query head in that traffic
	TCTA float64 `yaml:"tcta"` // us a block
	Tail float64 `yaml:"tail"` // blocks left over at the end
	WX   float64 `yaml:"wx"`   // extra work of windowed kernels
	Grid string  `yaml:"grid,omitempty"`
	Fit  Fit     `yaml:"fit,omitempty"`
}

// Decode is attention of one new token a sequence over its cache. Two kernels share the work: one that serves all query
// heads of a KV head together, and one block a query head.
type Decode struct {
	MaxGroup int        `yaml:"maxGroup"`       // query heads a KV head that the grouped kernel takes; 0 = it never runs
	Fill     float64    `yaml:"fill,omitempty"` // share of the SMs that the grouped kernel's blocks must fill to be chosen; 0 = any
	Grouped  DecodePath `yaml:"grouped,omitempty"`
	PerHead  DecodePath `yaml:"perHead"`
	Fit      Fit        `yaml:"fit,omitempty"`
}

// DecodePath is one of the two kernels.
type DecodePath struct {
	T0    float64 `yaml:"t0"`              // us
	T1    float64 `yaml:"t1,omitempty"`    // us: combine of a split context
	TW    float64 `yaml:"tw,omitempty"`    // us a block
	LT    float64 `yaml:"lt,omitempty"`    // ns a token of 256 cached bytes in K and as many in V
	LD    float64 `yaml:"ld,omitempty"`    // exponent of that time over the bytes a token
	EM    float64 `yaml:"em"`              // memory fraction, K and V counted once each
	P     float64 `yaml:"p"`               // overlap of blocks' time and memory
	Wide  float64 `yaml:"wide,omitempty"`  // factor on a block's time for groups of more than 16 heads; 0 = 1
	Waves bool    `yaml:"waves,omitempty"` // splits to 8 waves of blocks, at most 128 tokens a block and sqrt(8 n) splits; else fills the SMs once
	Split int     `yaml:"split,omitempty"` // tokens a split at least
	Grid  string  `yaml:"grid,omitempty"`
}

// MLAPrefill is latent attention over a prompt.
type MLAPrefill struct {
	T    int     `yaml:"t"`
	T0   float64 `yaml:"t0"`
	EC   float64 `yaml:"ec"`
	SX   float64 `yaml:"sx"`
	PM   float64 `yaml:"pm"`
	EM   float64 `yaml:"em"`
	TCTA float64 `yaml:"tcta"`
	Tail float64 `yaml:"tail"`
	Grid string  `yaml:"grid,omitempty"`
	Fit  Fit     `yaml:"fit,omitempty"`
}

// MLADecode is absorbed latent attention of one new token a sequence.
type MLADecode struct {
	T0    float64 `yaml:"t0"`
	T1    float64 `yaml:"t1"`
	EM    float64 `yaml:"em"`
	EC    float64 `yaml:"ec"`
	LT    float64 `yaml:"lt"`              // ns a token
	TW    float64 `yaml:"tw"`              // us a block
	EQ    float64 `yaml:"eq"`              // memory fraction of the query and output traffic
	Whole bool    `yaml:"whole,omitempty"` // the kernel does not split the context
	Grid  string  `yaml:"grid,omitempty"`
	Fit   Fit     `yaml:"fit,omitempty"`
}

// MoE is the expert layer of one GPU.
type MoE struct {
	T0   float64 `yaml:"t0"`           // us: routing, permutation, launches
	TE   float64 `yaml:"te"`           // ns a local expert
	EM   float64 `yaml:"em"`           // memory fraction of the weights
	EC   float64 `yaml:"ec"`           // fraction of the tensor-core peak
	LK   float64 `yaml:"lk"`           // ns, as for GEMM
	TW   float64 `yaml:"tw"`           // us, as for GEMM
	EA   float64 `yaml:"ea"`           // memory fraction of the activations
	P    float64 `yaml:"p"`            // overlap
	TR   float64 `yaml:"tr,omitempty"` // ns a (token, expert) pair of the whole expert-parallel group: routing
	Grid string  `yaml:"grid,omitempty"`
	Odd  float64 `yaml:"odd,omitempty"` // factor on 3, 6 and 12 local experts in the table's library; 0 = none
	Mix  string  `yaml:"mix,omitempty"` // of a fused kernel: grid from its time to that of a table that mixes it with another
	Fit  Fit     `yaml:"fit,omitempty"`
}

// Small is for norms, residual adds, activations and copies.
type Small struct {
	T0 float64 `yaml:"t0"` // us a kernel, inside a CUDA graph
	EM float64 `yaml:"em"` // memory fraction
}

// LoadKernels reads hardware/SYSTEM.kernels.yaml of fsys. Unknown keys are errors.
func LoadKernels(fsys fs.FS, system string) (*Kernels, error) {
	k := new(Kernels)
	name := "hardware/" + system + ".kernels.yaml"
	if err := decode(fsys, name, k); err != nil {
		return nil, err
	}
	if k.System != system {
		return nil, fmt.Errorf("%s: system is %q, want %q like the file", name, k.System, system)
	}
	return k, nil
}

// Peak is the dense tensor-core rate for a compute type in FLOP/s, 0 when the datasheet has none. bf16 falls back to
// fp16 (Volta has no bf16).
func (g *GPU) Peak(dtype string) float64 {
	v, ok := g.TFLOPS[dtype]
	if !ok && dtype == "bf16" {
		v = g.TFLOPS["fp16"]
	}
	return v * 1e12
}
