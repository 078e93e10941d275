package nccl

import (
	"math"
	"runtime"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
)

// UniqueID is ncclUniqueId: whoever holds it can join the communicator, so it travels only after authentication.
type UniqueID [128]byte

// byValue is the id as C passes it: a structure of 128 bytes on the stack.
type byValue struct{ internal [128]byte }

// NCCL is an opened libnccl.
type NCCL struct {
	Path    string // real path
	Version int    // version code, 22809 is 2.28.9

	lib *library
	out cell

	initRank     func(comm uintptr, n int32, id byValue, rank int32, config unsafe.Pointer) int32
	errorString  func(int32) string
	lastErrorFn  func(uintptr) string
	resetDebugFn uintptr

	getUniqueID, split, finalize, destroy, abort, asyncError                     uintptr
	allReduce, allGather, reduceScatter, broadcast, reduce, send, recv, alltoall uintptr
	groupStart, groupEnd                                                         uintptr
}

// OpenNCCL opens a libnccl and reads its version; it creates nothing. Versions before 2.18 lack ncclCommSplit and are
// refused with the list of what is missing.
func OpenNCCL(path string) (*NCCL, error) {
	lib, err := openLibrary(path)
	if err != nil {
		return nil, err
	}
	out, err := outCells.get()
	if err != nil {
		return nil, err
	}
	n := &NCCL{Path: lib.path, lib: lib, out: out}
	for _, s := range []struct {
		dst  *uintptr
		name string
	}{
		{&n.getUniqueID, "ncclGetUniqueId"}, {&n.split, "ncclCommSplit"}, {&n.finalize, "ncclCommFinalize"},
		{&n.destroy, "ncclCommDestroy"}, {&n.abort, "ncclCommAbort"}, {&n.asyncError, "ncclCommGetAsyncError"},
		{&n.allReduce, "ncclAllReduce"}, {&n.allGather, "ncclAllGather"}, {&n.reduceScatter, "ncclReduceScatter"},
		{&n.broadcast, "ncclBroadcast"}, {&n.reduce, "ncclReduce"}, {&n.send, "ncclSend"}, {&n.recv, "ncclRecv"},
		{&n.groupStart, "ncclGroupStart"}, {&n.groupEnd, "ncclGroupEnd"},
	} {
		*s.dst = lib.need(s.name)
	}
	initRank, text, version := lib.need("ncclCommInitRankConfig"), lib.need("ncclGetErrorString"), lib.need("ncclGetVersion")
	n.alltoall = lib.want("ncclAlltoAll") // since 2.28
	n.resetDebugFn = lib.want("ncclResetDebugInit")
	if err := lib.err(); err != nil {
		return nil, err
	}
	purego.RegisterFunc(&n.initRank, initRank)
	purego.RegisterFunc(&n.errorString, text)
	if p := lib.want("ncclGetLastError"); p != 0 {
		purego.RegisterFunc(&n.lastErrorFn, p)
	}
	if err := n.check("ncclGetVersion", n.call(version, out.ptr()), nil); err != nil {
		return nil, err
	}
	n.Version = int(out.i32())
	return n, nil
}

// call runs fn. Memory whose address is among args moves to the heap, where it stays put.
//
//go:uintptrescapes
func (n *NCCL) call(fn uintptr, args ...uintptr) Result {
	r, _, _ := purego.SyscallN(fn, args...)
	return Result(int32(r))
}

// check turns a result other than Success into a *CallError.
func (n *NCCL) check(name string, r Result, c *Comm) error {
	if r == Success {
		return nil
	}
	e := &CallError{Func: name, Code: int32(r), Text: n.errorString(int32(r))}
	if n.lastErrorFn != nil {
		var h uintptr
		if c != nil {
			h = c.handle()
		}
		e.Detail = n.lastErrorFn(h)
	}
	return e
}

// HasAllToAll tells whether the library has ncclAlltoAll (2.28 and later).
func (n *NCCL) HasAllToAll() bool { return n.alltoall != 0 }

// NewUniqueID makes the id of a new communicator. It opens a listening socket of NCCL's own.
func (n *NCCL) NewUniqueID() (UniqueID, error) {
	var id UniqueID
	r := n.call(n.getUniqueID, uintptr(unsafe.Pointer(&id)))
	runtime.KeepAlive(&id)
	return id, n.check("ncclGetUniqueId", r, nil)
}

// config is the head of ncclConfig_t as of 2.18. NCCL copies min(size, its own size) bytes and takes its defaults for
// what a caller of that version did not know (parseCommConfig in src/init.cc), so this one form serves every version
// since.
type config struct {
	size           uint64
	magic, version uint32
	blocking       int32
	cgaClusterSize int32
	minCTAs        int32
	maxCTAs        int32
	netName        uintptr
	splitShare     int32
	_              int32
}

// newConfig leaves all but blocking to the library.
func newConfig(blocking bool) config {
	c := config{
		size: uint64(unsafe.Sizeof(config{})), magic: configMagic, version: configVersion,
		cgaClusterSize: undefInt, minCTAs: undefInt, maxCTAs: undefInt, splitShare: undefInt,
	}
	if blocking {
		c.blocking = 1
	}
	return c
}

const (
	configMagic   = 0xcafebeef // NCCL_API_MAGIC
	configVersion = 21805
	undefInt      = math.MinInt32 // NCCL_CONFIG_UNDEF_INT
	// NoColor tells Split that this rank takes no part.
	NoColor = -1
)

// Comm is a communicator.
type Comm struct {
	n *NCCL
	c cell
}

func (c *Comm) handle() uintptr { return uintptr(c.c.u64()) }

// InitRank starts to create a non-blocking communicator; Ready tells when it is done. Rank is the caller's place
// among size members.
func (n *NCCL) InitRank(id UniqueID, size, rank int) (*Comm, error) {
	c, err := n.newComm()
	if err != nil {
		return nil, err
	}
	cfg := newConfig(false)
	r := Result(n.initRank(c.c.ptr(), int32(size), byValue{id}, int32(rank), unsafe.Pointer(&cfg)))
	runtime.KeepAlive(&cfg)
	if r != Success && r != InProgress {
		return c, n.check("ncclCommInitRankConfig", r, nil)
	}
	return c, nil
}

// Split starts to divide c: ranks of one color form a new communicator, ordered by key. A rank with NoColor gets a
// null one. All ranks of c must call it; wait for c with Ready, then for the new one.
//
// Blocking is the new communicator's mode. Init and Split of a non-blocking communicator can be given up; but since 2.28
// a non-blocking one starts a thread for every collective, which no training or serving engine pays: what is timed runs
// on blocking ones, in a process that can be killed.
func (c *Comm) Split(color, key int, blocking bool) (*Comm, error) {
	child, err := c.n.newComm()
	if err != nil {
		return nil, err
	}
	cfg := newConfig(blocking)
	r := c.n.call(c.n.split, c.handle(), uintptr(int32(color)), uintptr(int32(key)), child.c.ptr(), uintptr(unsafe.Pointer(&cfg)))
	runtime.KeepAlive(&cfg)
	if r != Success && r != InProgress {
		return nil, c.n.check("ncclCommSplit", r, c)
	}
	return child, nil
}

func (n *NCCL) newComm() (*Comm, error) {
	cl, err := outCells.get()
	if err != nil {
		return nil, err
	}
	cl.set(0)
	return &Comm{n: n, c: cl}, nil
}

// Null tells whether the communicator has no address: Split with NoColor, or an init that has not got that far.
func (c *Comm) Null() bool { return c.handle() == 0 }

// AsyncError returns the communicator's state: nil when it is ready, a *CallError with InProgress while work is under
// way, or what went wrong.
func (c *Comm) AsyncError() error {
	out := c.n.out
	out.set(0)
	if r := c.n.call(c.n.asyncError, c.handle(), out.ptr()); r != Success {
		return c.n.check("ncclCommGetAsyncError", r, c)
	}
	return c.n.check("asynchronous error", Result(out.i32()), c)
}

// Ready waits until the communicator's pending call has finished. Between polls it calls check, which ends the wait
// with an error.
func (c *Comm) Ready(check func() error) error {
	for i := 0; ; i++ {
		if c.handle() != 0 {
			err := c.AsyncError()
			if r, ok := ResultOf(err); !ok || r != InProgress {
				return err
			}
		}
		if err := check(); err != nil {
			return err
		}
		if i > 100 {
			time.Sleep(100 * time.Microsecond)
		}
	}
}

// Finalize flushes the communicator, Destroy frees it; between them Ready waits.
func (c *Comm) Finalize() error {
	r := c.n.call(c.n.finalize, c.handle())
	if r == InProgress {
		return nil
	}
	return c.n.check("ncclCommFinalize", r, c)
}

// Destroy frees local resources.
func (c *Comm) Destroy() error {
	r := c.n.call(c.n.destroy, c.handle())
	c.c.set(0)
	return c.n.check("ncclCommDestroy", r, nil)
}

// Abort frees the communicator and stops what runs on the device. It can hang in the driver: call it where the process
// may be killed.
func (c *Comm) Abort() error {
	h := c.handle()
	if h == 0 {
		return nil
	}
	r := c.n.call(c.n.abort, h)
	c.c.set(0)
	return c.n.check("ncclCommAbort", r, nil)
}

// SetLog changes NCCL's log level, subsystems and file while the process runs (setenv and ncclResetDebugInit). It
// reports false where the library does not offer it; the log then stays as it was.
func (n *NCCL) SetLog(level, subsystems, file string) bool {
	if n.resetDebugFn == 0 {
		return false
	}
	if !setenv("NCCL_DEBUG", level) || !setenv("NCCL_DEBUG_SUBSYS", subsystems) || !setenv("NCCL_DEBUG_FILE", file) {
		return false
	}
	purego.SyscallN(n.resetDebugFn)
	return true
}
