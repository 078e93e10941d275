package validate

import (
	"errors"

	"rankmap/validate/nccl"
)

// problemError is an error with its entry in the finding table.
type problemError struct {
	id  string
	err error
}

func (e *problemError) Error() string { return e.err.Error() }
func (e *problemError) Unwrap() error { return e.err }

// toProblem puts any error into the words of the finding table.
func toProblem(err error) *problem {
	p := &problem{ID: "rank-failed", Detail: clip(err.Error(), 2000)}
	var pe *problemError
	var ce *nccl.CallError
	switch {
	case errors.As(err, &pe):
		p.ID = pe.id
	case errors.As(err, &ce) && ce.CUDA:
		p.ID = cudaFinding(ce.Code)
	case errors.As(err, &ce):
		p.ID, p.Result = ncclFinding(nccl.Result(ce.Code)), int(ce.Code)
	}
	return p
}

// cudaFinding maps the codes of cudaError_t that have a next step of their own (driver_types.h, CUDA 13).
func cudaFinding(code int32) string {
	switch code {
	case 2:
		return "cuda-memory"
	case 3, 35:
		return "driver-old"
	case 46:
		return "gpu-busy"
	case 100:
		return "gpu-none"
	case 802:
		return "fabric-not-ready"
	case 214, 220: // ECC uncorrectable, NVLink uncorrectable
		return "gpu-hardware"
	}
	return "cuda-failed"
}

func ncclFinding(r nccl.Result) string {
	switch r {
	case nccl.UnhandledCudaError:
		return "nccl-cuda"
	case nccl.SystemError:
		return "nccl-system"
	case nccl.InternalError:
		return "nccl-internal"
	case nccl.InvalidArgument:
		return "nccl-argument"
	case nccl.InvalidUsage:
		return "nccl-usage"
	case nccl.RemoteError:
		return "nccl-remote"
	case nccl.InProgress:
		return "nccl-progress"
	case nccl.Timeout:
		return "nccl-timeout"
	}
	return "nccl-unknown"
}

// clip shortens text from a library.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "..."
}
