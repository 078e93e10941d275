// Package nccl binds libnccl and libcudart at run time: no cgo, no headers, nothing linked. A binary built with
// CGO_ENABLED=0 on a machine without GPUs measures on one with GPUs.
//
// The package promises: libraries are opened by an absolute path that was found by documented rules and that no
// stranger can write; communicators are non-blocking, so that a caller can give up waiting; every result code comes
// back as a *CallError that names the function. It does not decide anything: which sizes, how often, what is slow is
// the caller's business.
//
// CUDA keeps the current device in the calling thread. A caller locks its goroutine to a thread (runtime.LockOSThread)
// and makes all calls from it.
package nccl
