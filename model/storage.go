package model

import (
	"fmt"
	"strings"
)

// Format is the number format of stored weights.
type Format uint8

// The formats.
const (
	BF16 Format = iota
	FP16
	FP32
	FP8      // one scale a tensor or a row
	FP8Block // one scale a block, 128 x 128 as a rule
	NVFP4    // 4 bits, one fp8 scale for 16 weights
	MXFP4    // 4 bits, one power-of-two scale for 32 weights
	INT8
	INT4
	numFormats
)

var formatNames = [numFormats]string{"bf16", "fp16", "fp32", "fp8", "fp8_block", "nvfp4", "mxfp4", "int8", "int4"}

// String returns the format's name, such as "fp8_block".
func (f Format) String() string {
	if f < numFormats {
		return formatNames[f]
	}
	return "format"
}

// compute is the type that GEMMs on such weights run in.
func (f Format) compute() string {
	if f == FP16 || f == FP32 {
		return "bf16"
	}
	return f.String()
}

// Storage is how one tensor is stored: its format and what comes on top for scales.
type Storage struct {
	Format     Format
	Group      int  // weights along the input that share a scale; 0 = the whole row
	BlockOut   int  // rows that share it (FP8Block)
	ScaleBytes int  // of one scale
	PerTensor  bool // one scale for the whole matrix
	ZeroPoints bool // a 4-bit zero point beside each scale (AWQ, asymmetric GPTQ)
	ActOrder   bool // a 4-byte index for each input (GPTQ with desc_act)
	Extra      int  // bytes of further per-matrix numbers: global and activation scales
}

// Plain storages.
var (
	storeBF16 = Storage{Format: BF16}
	storeFP16 = Storage{Format: FP16}
	storeFP32 = Storage{Format: FP32}
	// Weights in blocks of 128 x 128 with an fp32 scale each (DeepSeek-V3's weight_scale_inv).
	storeFP8Block = Storage{Format: FP8Block, Group: 128, BlockOut: 128, ScaleBytes: 4}
	// ModelOpt FP8: one fp32 weight scale and one fp32 activation scale a matrix.
	storeFP8Tensor = Storage{Format: FP8, PerTensor: true, ScaleBytes: 4, Extra: 4}
	// ModelOpt NVFP4: an fp8 scale for 16 weights, an fp32 global and an fp32 activation scale a matrix.
	storeNVFP4 = Storage{Format: NVFP4, Group: 16, ScaleBytes: 1, Extra: 8}
	// OCP MX: an e8m0 scale for 32 weights.
	storeMXFP4 = Storage{Format: MXFP4, Group: 32, ScaleBytes: 1}
)

func (f Format) bits() int64 {
	switch f {
	case FP32:
		return 32
	case FP8, FP8Block, INT8:
		return 8
	case NVFP4, MXFP4, INT4:
		return 4
	default:
		return 16
	}
}

// scales is how many scales one matrix of out x in has.
func (s Storage) scales(out, in int) int64 {
	switch {
	case s.ScaleBytes == 0:
		return 0
	case s.PerTensor:
		return 1
	case s.Group == 0:
		return int64(out)
	}
	rows := int64(out)
	if s.BlockOut > 1 {
		rows = int64(ceilDiv(out, s.BlockOut))
	}
	return rows * int64(ceilDiv(in, s.Group))
}

func (s Storage) bytes(t Tensor) int64 {
	n := t.Params()
	b := (n*s.Format.bits() + 7) / 8
	if t.In == 0 || s.Format <= FP32 {
		return b
	}
	copies := int64(max(t.Count, 1))
	scales := s.scales(t.Out, t.In)
	per := scales * int64(s.ScaleBytes)
	if s.ZeroPoints {
		per += (scales + 1) / 2
	}
	if s.ActOrder {
		per += 4 * int64(t.In)
	}
	return b + copies*(per+int64(s.Extra))
}

// perWeight is the mean number of bytes a weight, for large matrices.
func (s Storage) perWeight() float64 {
	b := float64(s.Format.bits()) / 8
	if s.Group > 0 {
		b += float64(s.ScaleBytes) / float64(s.Group*max(s.BlockOut, 1))
		if s.ZeroPoints {
			b += 0.5 / float64(s.Group)
		}
	}
	return b
}

// words describes the storage for people.
func (s Storage) words() string {
	switch {
	case s.Format == FP8Block:
		return fmt.Sprintf("fp8, blocks of %d x %d", s.BlockOut, s.Group)
	case s.Format == FP8 && s.PerTensor:
		return "fp8, one scale a matrix"
	case s.Format == FP8:
		return "fp8, one scale a row"
	case s.Group > 0:
		return fmt.Sprintf("%s, groups of %d", s.Format, s.Group)
	}
	return s.Format.String()
}

// named holds the usual storage of each format, by name and by the names that configurations use.
var named = map[string]*Storage{
	"bf16": &storeBF16, "bfloat16": &storeBF16, "fp16": &storeFP16, "float16": &storeFP16, "fp32": &storeFP32, "float32": &storeFP32,
	"fp8": &storeFP8Tensor, "fp8_block": &storeFP8Block, "nvfp4": &storeNVFP4, "mxfp4": &storeMXFP4,
	"int8": {Format: INT8, ScaleBytes: 2}, "int4": {Format: INT4, Group: 128, ScaleBytes: 2},
}

// namedStorage returns the usual storage of a type, nil for an unknown name.
func namedStorage(name string) *Storage { return named[name] }

// StorageNamed is the usual storage of a type by name: "bf16", "fp16", "fp32", "fp8" (one scale a matrix), "fp8_block"
// (128 x 128), "nvfp4", "mxfp4", "int8" (one scale a row), "int4" (groups of 128 with a 2-byte scale).
func StorageNamed(name string) (Storage, error) {
	if st := named[strings.ToLower(name)]; st != nil {
		return *st, nil
	}
	return Storage{}, fmt.Errorf("weight type %q: want one of %s", name, strings.Join(formatNames[:], ", "))
}

// cacheBytes is the size of one cached element; an unknown name counts as bf16.
func cacheBytes(dtype string) float64 {
	switch dtype {
	case "fp8", "int8", "fp8_e4m3", "fp8_e5m2":
		return 1
	case "fp32":
		return 4
	case "nvfp4":
		return 0.5625
	}
	return 2
}
