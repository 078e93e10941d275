package nccl

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"
)

// library is an opened shared object.
type library struct {
	handle  uintptr
	path    string // real path
	missing []string
}

// openLibrary opens path after checkFile, with RTLD_LOCAL so that its symbols stay its own.
func openLibrary(path string) (*library, error) {
	real, err := checkFile(path)
	if err != nil {
		return nil, err
	}
	h, err := purego.Dlopen(real, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("library %s cannot be loaded: %w", real, err)
	}
	return &library{handle: h, path: real}, nil
}

// need returns a symbol that the program cannot do without; missing ones are collected for err.
func (l *library) need(name string) uintptr {
	p := l.want(name)
	if p == 0 {
		l.missing = append(l.missing, name)
	}
	return p
}

// want returns a symbol or 0.
func (l *library) want(name string) uintptr {
	p, err := purego.Dlsym(l.handle, name)
	if err != nil {
		return 0
	}
	return p
}

// err reports all missing symbols at once.
func (l *library) err() error {
	if len(l.missing) == 0 {
		return nil
	}
	sort.Strings(l.missing)
	return fmt.Errorf("library %s lacks %s: too old, or not the library it claims to be", l.path, strings.Join(l.missing, ", "))
}

// cells hands out 8-byte out-parameters in memory outside Go's heap: NCCL writes a new communicator's address from a
// thread of its own, after the call has returned, so the place must stay put and mapped.
type cells struct {
	mu   sync.Mutex
	page []byte
	next int
}

var outCells cells

// cell is one out-parameter.
type cell struct{ p *uint64 }

func (c cell) ptr() uintptr { return uintptr(unsafe.Pointer(c.p)) }
func (c cell) set(v uint64) { *c.p = v }
func (c cell) u64() uint64  { return *c.p }
func (c cell) i32() int32   { return int32(uint32(*c.p)) } // little-endian hosts only, as CUDA's are
func (c cell) f32() float32 { return *(*float32)(unsafe.Pointer(c.p)) }

func (cs *cells) get() (cell, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.next+8 > len(cs.page) {
		page, err := syscall.Mmap(-1, 0, 1<<16, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
		if err != nil {
			return cell{}, errors.Join(errors.New("no memory for out-parameters"), err)
		}
		cs.page, cs.next = page, 0
	}
	c := cell{(*uint64)(unsafe.Pointer(&cs.page[cs.next]))}
	cs.next += 8
	return c, nil
}

// setenv changes the environment that C code sees; os.Setenv alone changes only Go's copy in a binary without cgo.
// It reports false where libc cannot be reached.
func setenv(name, value string) bool {
	p, err := purego.Dlsym(purego.RTLD_DEFAULT, "setenv")
	if err != nil {
		return false
	}
	var f func(name, value string, overwrite int32) int32
	purego.RegisterFunc(&f, p)
	return f(name, value, 1) == 0
}
