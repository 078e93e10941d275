package nccl

import "fmt"

// VersionString turns NCCL's version code into "2.28.9". Codes up to 2.8 count the minor version in hundreds
// (NCCL_VERSION in nccl.h).
func VersionString(code int) string {
	if code < 10000 {
		return fmt.Sprintf("%d.%d.%d", code/1000, code%1000/100, code%100)
	}
	return fmt.Sprintf("%d.%d.%d", code/10000, code%10000/100, code%100)
}

// CUDAVersionString turns CUDA's version code into "13.0".
func CUDAVersionString(code int) string { return fmt.Sprintf("%d.%d", code/1000, code%1000/10) }
