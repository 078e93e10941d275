package compute

// dtype is a compute type, resolved once so that pricing does no map lookups.
type dtype uint8

const (
	bf16 dtype = iota
	fp8
	fp8Static // activation scale known beforehand
	fp8Block  // 128x128 weight scales, 1x128 activation scales
	nvfp4
	i8
	mxfp4   // weights mxfp4, activations bf16
	mxfp4a8 // weights mxfp4, activations mxfp8
	int4    // weights int4 with group scales, activations bf16
	fp32
	numTypes
)

// typeInfo says how a compute type is stored and on which tensor-core rate it runs.
type typeInfo struct {
	name     string
	act      float64 // bytes of an activation element as the matrix product reads it
	weight   float64 // bytes of a weight element with its scales
	peak     string  // key of hardware.GPU.TFLOPS
	quantize bool    // the op quantizes its activation itself
}

// Scale bytes: nvfp4 has one byte for 16 elements (NVIDIA Blackwell architecture brief), mxfp4 one for 32 (OCP MX
// specification 1.0), int4 2 bytes for 128 (the group of AWQ and GPTQ checkpoints).
var types = [numTypes]typeInfo{
	bf16:      {"bf16", 2, 2, "bf16", false},
	fp8:       {"fp8", 1, 1, "fp8", true},
	fp8Static: {"fp8_static", 1, 1, "fp8", true},
	fp8Block:  {"fp8_block", 1, 1, "fp8", true},
	nvfp4:     {"nvfp4", 0.5 + 1.0/16, 0.5 + 1.0/16, "fp4", true},
	i8:        {"int8", 1, 1, "int8", true},
	mxfp4:     {"mxfp4", 2, 0.5 + 1.0/32, "bf16", false},
	mxfp4a8:   {"mxfp4_a8", 1, 0.5 + 1.0/32, "fp8", true},
	int4:      {"int4", 2, 0.5 + 2.0/128, "bf16", false},
	fp32:      {"fp32", 4, 4, "bf16", false},
}

// typeOf resolves a name; ok is false for names that no form covers.
func typeOf(s string) (dtype, bool) {
	switch s {
	case "", "bf16", "fp16":
		return bf16, true
	case "fp8":
		return fp8, true
	case "fp8_static":
		return fp8Static, true
	case "fp8_block":
		return fp8Block, true
	case "nvfp4", "fp4":
		return nvfp4, true
	case "int8", "w8a8":
		return i8, true
	case "mxfp4", "w4a16_mxfp4":
		return mxfp4, true
	case "mxfp4_a8", "w4a8_mxfp4_mxfp8":
		return mxfp4a8, true
	case "int4", "w4a16":
		return int4, true
	case "fp32", "tf32":
		return fp32, true
	}
	return 0, false
}

// attnKey indexes attention records: compute type, cache type.
const (
	keyBF16     = iota // bf16/bf16
	keyBF16FP8         // bf16/fp8
	keyFP8             // fp8/fp8
	numAttnKeys        //
)

var attnKeys = [numAttnKeys]string{"bf16/bf16", "bf16/fp8", "fp8/fp8"}

// attnKeyOf resolves compute and cache type of attention. exact is false when the pair is priced as a near one.
func attnKeyOf(compute, cache string) (key int, exact bool) {
	c8 := cache == "fp8" || cache == "int8"
	switch compute {
	case "fp8":
		return keyFP8, c8 || cache == ""
	case "", "bf16", "fp16":
	default:
		if c8 {
			return keyBF16FP8, false
		}
		return keyBF16, false
	}
	if c8 {
		return keyBF16FP8, cache == "fp8"
	}
	return keyBF16, cache == "" || cache == "bf16" || cache == "fp16"
}
