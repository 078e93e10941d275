package measured

import "strings"

// dtypes maps the spellings of nccl-tests, PyTorch and the tables to one. The value is the name and the size of one
// element in bytes.
var dtypes = map[string]string{
	"half": "fp16", "float16": "fp16", "fp16": "fp16",
	"bfloat16": "bf16", "bf16": "bf16",
	"float": "fp32", "float32": "fp32", "fp32": "fp32",
	"double": "fp64", "float64": "fp64", "fp64": "fp64",
	"int8": "int8", "uint8": "int8", "char": "int8",
	"int32": "int32", "uint32": "int32", "int": "int32",
	"int64": "int64", "uint64": "int64",
	"fp8": "fp8", "f8e4m3": "fp8", "f8e5m2": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8",
	"nvfp4": "nvfp4", "mxfp4": "mxfp4",
}

// dtypeOf returns the one spelling, and whether it is known.
func dtypeOf(s string) (string, bool) {
	d, ok := dtypes[strings.ToLower(strings.TrimSpace(s))]
	return d, ok
}
