package nccl

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Ptr is an address in device memory.
type Ptr uintptr

// Stream, Event and GraphExec are handles of the CUDA runtime.
type (
	Stream    uintptr
	Event     uintptr
	GraphExec uintptr
)

// CUDA is the CUDA runtime.
type CUDA struct {
	Path    string // real path of the library
	Runtime int    // version code of the library, 13000 is 13.0
	Driver  int    // highest version that the driver supports

	lib *library
	out cell

	errorString func(int32) string

	getDeviceCount, setDevice, pciBusID, properties, canAccessPeer, memGetInfo, deviceReset uintptr
	malloc, free, memcpy, memset                                                            uintptr
	streamCreate, streamDestroy, streamSync, streamQuery                                    uintptr
	eventCreate, eventDestroy, eventRecord, eventQuery, eventElapsed                        uintptr
	beginCapture, endCapture, instantiate, launch, execDestroy, graphDestroy                uintptr
}

// OpenCUDA opens a libcudart.
func OpenCUDA(path string) (*CUDA, error) {
	lib, err := openLibrary(path)
	if err != nil {
		return nil, err
	}
	out, err := outCells.get()
	if err != nil {
		return nil, err
	}
	c := &CUDA{Path: lib.path, lib: lib, out: out}
	for _, s := range []struct {
		dst  *uintptr
		name string
	}{
		{&c.getDeviceCount, "cudaGetDeviceCount"}, {&c.setDevice, "cudaSetDevice"},
		{&c.pciBusID, "cudaDeviceGetPCIBusId"}, {&c.canAccessPeer, "cudaDeviceCanAccessPeer"},
		{&c.memGetInfo, "cudaMemGetInfo"}, {&c.deviceReset, "cudaDeviceReset"},
		{&c.malloc, "cudaMalloc"}, {&c.free, "cudaFree"}, {&c.memcpy, "cudaMemcpy"}, {&c.memset, "cudaMemset"},
		{&c.streamCreate, "cudaStreamCreateWithFlags"}, {&c.streamDestroy, "cudaStreamDestroy"},
		{&c.streamSync, "cudaStreamSynchronize"}, {&c.streamQuery, "cudaStreamQuery"},
		{&c.eventCreate, "cudaEventCreate"}, {&c.eventDestroy, "cudaEventDestroy"},
		{&c.eventRecord, "cudaEventRecord"}, {&c.eventQuery, "cudaEventQuery"}, {&c.eventElapsed, "cudaEventElapsedTime"},
		{&c.beginCapture, "cudaStreamBeginCapture"}, {&c.endCapture, "cudaStreamEndCapture"},
		{&c.instantiate, "cudaGraphInstantiate"}, {&c.launch, "cudaGraphLaunch"},
		{&c.execDestroy, "cudaGraphExecDestroy"}, {&c.graphDestroy, "cudaGraphDestroy"},
	} {
		*s.dst = lib.need(s.name)
	}
	// Name and UUID head the structure in every version; only what follows them changed.
	if c.properties = lib.want("cudaGetDeviceProperties_v2"); c.properties == 0 {
		c.properties = lib.need("cudaGetDeviceProperties")
	}
	text, rt, drv := lib.need("cudaGetErrorString"), lib.need("cudaRuntimeGetVersion"), lib.need("cudaDriverGetVersion")
	if err := lib.err(); err != nil {
		return nil, err
	}
	purego.RegisterFunc(&c.errorString, text)
	if err := c.call("cudaRuntimeGetVersion", rt, out.ptr()); err != nil {
		return nil, err
	}
	c.Runtime = int(out.i32())
	if err := c.call("cudaDriverGetVersion", drv, out.ptr()); err != nil {
		return nil, err
	}
	c.Driver = int(out.i32())
	return c, nil
}

// call runs fn and turns a code other than 0 into a *CallError. Memory whose address is among args moves to the heap,
// where it stays put.
//
//go:uintptrescapes
func (c *CUDA) call(name string, fn uintptr, args ...uintptr) error {
	r, _, _ := purego.SyscallN(fn, args...)
	if int32(r) != 0 {
		return c.fail(name, int32(r))
	}
	return nil
}

func (c *CUDA) fail(name string, code int32) error {
	e := &CallError{Func: name, CUDA: true, Code: code}
	if c.errorString != nil {
		e.Text = c.errorString(code)
	}
	return e
}

// DeviceCount is the number of GPUs that this process may use (CUDA_VISIBLE_DEVICES counts).
func (c *CUDA) DeviceCount() (int, error) {
	c.out.set(0)
	err := c.call("cudaGetDeviceCount", c.getDeviceCount, c.out.ptr())
	return int(c.out.i32()), err
}

// Device is what identifies a GPU. It needs no context on the device.
type Device struct {
	Name string
	UUID string // as nvidia-smi -L prints it: GPU- and a UUID
	PCI  string // as the runtime prints it, "0000:00:06.0"
}

// Device reads the identity of device i.
func (c *CUDA) Device(i int) (Device, error) {
	// cudaDeviceProp has about 1 KiB; name is 256 bytes and the UUID 16 (driver_types.h, CUDA 10 to 13).
	buf := make([]byte, 16<<10)
	err := c.call("cudaGetDeviceProperties", c.properties, uintptr(unsafe.Pointer(&buf[0])), uintptr(i))
	runtime.KeepAlive(buf)
	if err != nil {
		return Device{}, err
	}
	u := buf[256:272]
	d := Device{Name: cString(buf[:256]), UUID: fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])}
	id := make([]byte, 64)
	err = c.call("cudaDeviceGetPCIBusId", c.pciBusID, uintptr(unsafe.Pointer(&id[0])), uintptr(len(id)), uintptr(i))
	runtime.KeepAlive(id)
	d.PCI = strings.ToLower(cString(id))
	return d, err
}

func cString(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}

// SetDevice makes device i current for the calling thread.
func (c *CUDA) SetDevice(i int) error { return c.call("cudaSetDevice", c.setDevice, uintptr(i)) }

// CanAccessPeer tells whether device i can address device j's memory.
func (c *CUDA) CanAccessPeer(i, j int) (bool, error) {
	c.out.set(0)
	err := c.call("cudaDeviceCanAccessPeer", c.canAccessPeer, c.out.ptr(), uintptr(i), uintptr(j))
	return c.out.i32() != 0, err
}

// MemInfo returns free and total bytes of the current device.
func (c *CUDA) MemInfo() (free, total int64, err error) {
	var v [2]uint64
	err = c.call("cudaMemGetInfo", c.memGetInfo, uintptr(unsafe.Pointer(&v[0])), uintptr(unsafe.Pointer(&v[1])))
	runtime.KeepAlive(&v)
	return int64(v[0]), int64(v[1]), err
}

// Malloc allocates n bytes of device memory.
func (c *CUDA) Malloc(n int64) (Ptr, error) {
	c.out.set(0)
	err := c.call("cudaMalloc", c.malloc, c.out.ptr(), uintptr(n))
	return Ptr(c.out.u64()), err
}

// Free releases device memory.
func (c *CUDA) Free(p Ptr) error { return c.call("cudaFree", c.free, uintptr(p)) }

// Copy directions of cudaMemcpyKind.
const (
	hostToDevice = 1
	deviceToHost = 2
)

// Upload copies b to the device and returns when it is there.
func (c *CUDA) Upload(dst Ptr, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	err := c.call("cudaMemcpy", c.memcpy, uintptr(dst), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), hostToDevice)
	runtime.KeepAlive(b)
	return err
}

// Download copies from the device into b.
func (c *CUDA) Download(b []byte, src Ptr) error {
	if len(b) == 0 {
		return nil
	}
	err := c.call("cudaMemcpy", c.memcpy, uintptr(unsafe.Pointer(&b[0])), uintptr(src), uintptr(len(b)), deviceToHost)
	runtime.KeepAlive(b)
	return err
}

// Memset fills n bytes with v.
func (c *CUDA) Memset(p Ptr, v byte, n int64) error {
	return c.call("cudaMemset", c.memset, uintptr(p), uintptr(v), uintptr(n))
}

// Reset destroys the current device's context.
func (c *CUDA) Reset() error { return c.call("cudaDeviceReset", c.deviceReset) }
