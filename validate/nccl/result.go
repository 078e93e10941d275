package nccl

import (
	"errors"
	"fmt"
)

// Result is ncclResult_t (nccl.h, 2.30).
type Result int32

// The result codes.
const (
	Success            Result = 0
	UnhandledCudaError Result = 1
	SystemError        Result = 2
	InternalError      Result = 3
	InvalidArgument    Result = 4
	InvalidUsage       Result = 5
	RemoteError        Result = 6
	InProgress         Result = 7
	Timeout            Result = 8 // since 2.30
)

var resultNames = []string{
	"ncclSuccess", "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError", "ncclInvalidArgument",
	"ncclInvalidUsage", "ncclRemoteError", "ncclInProgress", "ncclTimeout",
}

// String returns the name in nccl.h.
func (r Result) String() string {
	if r >= 0 && int(r) < len(resultNames) {
		return resultNames[r]
	}
	return fmt.Sprintf("ncclResult(%d)", int32(r))
}

// CallError is a failed call of libnccl or libcudart.
type CallError struct {
	Func   string // "ncclAllReduce", "cudaMalloc"
	CUDA   bool   // the code is a cudaError_t, else a ncclResult_t
	Code   int32
	Text   string // what the library says about the code
	Detail string // ncclGetLastError, may be empty
}

// Error names the function, the code and what the library said.
func (e *CallError) Error() string {
	s := fmt.Sprintf("%s: code %d", e.Func, e.Code)
	if !e.CUDA {
		s = fmt.Sprintf("%s: %s (%d)", e.Func, Result(e.Code), e.Code)
	}
	if e.Text != "" {
		s += ": " + e.Text
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// ResultOf returns the NCCL result inside err, and whether there is one.
func ResultOf(err error) (Result, bool) {
	var c *CallError
	if errors.As(err, &c) && !c.CUDA {
		return Result(c.Code), true
	}
	return 0, false
}
