package measured

import "strings"

// dtypes maps the spellings of nccl-tests, PyTorch and the tables to one.
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

// dtypeOf returns the one spelling. A type that is not in the list keeps its own name; ok is false for what cannot be a
// type's name.
func dtypeOf(s string) (name string, ok bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	if d, known := dtypes[s]; known {
		return d, true
	}
	if s == "" || len(s) > 32 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return "", false
	}
	return s, true
}

// foreignOps are collectives of nccl-tests and of frameworks that rankmap does not price.
var foreignOps = map[string]bool{
	"gather": true, "scatter": true, "hypercube": true, "alltoallv": true, "all_to_all_v": true, "alltoallv2": true, "bisection": true,
	"barrier": true, "permute": true, "all_gather_v": true, "reduce_scatter_v": true,
}
