package nccl

import (
	"fmt"
	"slices"
)

// DType is ncclDataType_t.
type DType int32

// The data types that rankmap measures.
const (
	Int8     DType = 0
	Uint8    DType = 1
	Float16  DType = 6
	Float32  DType = 7
	BFloat16 DType = 9
	E4M3     DType = 10
	E5M2     DType = 11
)

type dtypeFact struct {
	names []string
	size  int
	exact int // largest n such that every whole number 0..n has an exact form
}

var dtypes = map[DType]dtypeFact{
	Int8:     {[]string{"int8"}, 1, 127},
	Uint8:    {[]string{"uint8"}, 1, 255},
	Float16:  {[]string{"fp16", "float16", "half"}, 2, 2048},
	Float32:  {[]string{"fp32", "float32", "float"}, 4, 1 << 24},
	BFloat16: {[]string{"bf16", "bfloat16"}, 2, 256},
	E4M3:     {[]string{"fp8", "fp8e4m3", "e4m3"}, 1, 16},
	E5M2:     {[]string{"fp8e5m2", "e5m2"}, 1, 8},
}

// ParseDType reads a name such as "bf16"; empty means bf16.
func ParseDType(s string) (DType, error) {
	if s == "" {
		return BFloat16, nil
	}
	for d, f := range dtypes {
		if slices.Contains(f.names, s) {
			return d, nil
		}
	}
	return 0, fmt.Errorf("unknown data type %q (known: bf16, fp16, fp32, int8, uint8, fp8, fp8e5m2)", s)
}

// String returns the short name.
func (d DType) String() string {
	if f, ok := dtypes[d]; ok {
		return f.names[0]
	}
	return fmt.Sprintf("dtype(%d)", int32(d))
}

// Size is the bytes of one element.
func (d DType) Size() int { return dtypes[d].size }

// Exact is the largest n such that all whole numbers from 0 to n are exact in the type: sums of a verification stay
// below it.
func (d DType) Exact() int { return dtypes[d].exact }
