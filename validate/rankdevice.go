package validate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"rankmap/validate/nccl"
)

// device is the GPU of a rank with the libraries that drive it. All its methods run on one locked thread.
type device struct {
	cuda   *nccl.CUDA
	lib    *nccl.NCCL
	index  int
	stream nccl.Stream
	send   buffer
	recv   buffer
}

// buffer is device memory that grows.
type buffer struct {
	p nccl.Ptr
	n int64
}

// openLibraries opens the first libcudart that the driver supports and the first libnccl.
func openLibraries(o *Orders, f *facts) (*device, error) {
	search := nccl.Search{Explicit: o.NCCLLib}
	paths, err := search.CUDARTCandidates()
	if err != nil {
		return nil, &problemError{"cuda-missing", err}
	}
	d := &device{}
	var errs []error
	for _, p := range paths {
		c, err := nccl.OpenCUDA(p)
		switch {
		case err != nil:
			errs = append(errs, err)
			continue
		case c.Driver == 0:
			return nil, &problemError{"driver-missing", fmt.Errorf("%s finds no driver (libcuda.so.1)", c.Path)}
		case c.Runtime/1000 > c.Driver/1000:
			errs = append(errs, fmt.Errorf("%s is CUDA %s, the driver supports %s", c.Path, nccl.CUDAVersionString(c.Runtime), nccl.CUDAVersionString(c.Driver)))
			continue
		}
		d.cuda = c
		break
	}
	if d.cuda == nil {
		return nil, &problemError{"cuda-unusable", errors.Join(errs...)}
	}
	f.CUDA, f.Driver, f.CUDAPath = d.cuda.Runtime, d.cuda.Driver, d.cuda.Path
	paths, err = search.NCCLCandidates()
	if err != nil {
		return nil, &problemError{"nccl-missing", err}
	}
	// Only the best candidate counts: falling back to another library would hide a broken installation.
	d.lib, err = nccl.OpenNCCL(paths[0])
	if err != nil {
		return nil, &problemError{"nccl-unusable", err}
	}
	f.NCCL, f.NCCLPath, f.OtherNCCL = d.lib.Version, d.lib.Path, paths[1:min(len(paths), 9)]
	f.AllToAll = d.lib.HasAllToAll()
	return d, nil
}

// choose finds the rank's GPU by UUID, else by PCI id, else by index, and makes it current.
func (d *device) choose(r JobRank, f *facts) error {
	n, err := d.cuda.DeviceCount()
	if err != nil {
		return &problemError{"cuda-failed", err}
	}
	f.Devices = n
	var seen []nccl.Device
	for i := range n {
		dev, err := d.cuda.Device(i)
		if err != nil {
			return &problemError{"cuda-failed", err}
		}
		seen = append(seen, dev)
	}
	d.index = slices.IndexFunc(seen, func(v nccl.Device) bool {
		switch {
		case r.UUID != "":
			return strings.EqualFold(v.UUID, r.UUID)
		case r.PCI != "":
			return samePCI(v.PCI, r.PCI)
		}
		return false
	})
	if r.UUID == "" && r.PCI == "" && r.GPU < n {
		d.index = r.GPU
	}
	if d.index < 0 || d.index >= n {
		var have []string
		for i, v := range seen {
			have = append(have, fmt.Sprintf("%d: %s %s", i, v.PCI, v.UUID))
		}
		return &problemError{"gpu-missing", fmt.Errorf("rank %d wants %s; here are %d: %s", r.Rank,
			r.wanted(), n, cmp.Or(strings.Join(have, "; "), "none"))}
	}
	v := seen[d.index]
	f.Device, f.UUID, f.PCI, f.Name = d.index, v.UUID, v.PCI, v.Name
	for i, o := range seen {
		if i == d.index {
			continue
		}
		if ok, err := d.cuda.CanAccessPeer(d.index, i); err == nil && !ok {
			f.NoPeer = append(f.NoPeer, o.PCI)
		}
	}
	if err := d.cuda.SetDevice(d.index); err != nil {
		return &problemError{"cuda-failed", err}
	}
	if d.stream, err = d.cuda.NewStream(); err != nil {
		return &problemError{"cuda-failed", err}
	}
	if f.Free, f.Total, err = d.cuda.MemInfo(); err != nil {
		return &problemError{"cuda-failed", err}
	}
	return nil
}

// samePCI compares bus ids whose domain has 4 or 8 digits.
func samePCI(a, b string) bool { return normPCI(a) == normPCI(b) }

func normPCI(s string) string {
	s = strings.ToLower(s)
	domain, rest, ok := strings.Cut(s, ":")
	if !ok || strings.Count(rest, ":") != 1 || len(domain) > 8 {
		return s
	}
	return strings.Repeat("0", 8-len(domain)) + s
}

// reserve makes both buffers hold at least n bytes.
func (d *device) reserve(send, recv int64) error {
	for _, b := range []struct {
		b *buffer
		n int64
	}{{&d.send, send}, {&d.recv, recv}} {
		if b.b.n >= b.n {
			continue
		}
		if b.b.p != 0 {
			if err := d.cuda.Free(b.b.p); err != nil {
				return err
			}
			*b.b = buffer{}
		}
		p, err := d.cuda.Malloc(b.n)
		if err != nil {
			return err
		}
		*b.b = buffer{p, b.n}
		if err := d.zero(p, b.n); err != nil {
			return err
		}
	}
	return nil
}

// defaultStream is where copies and memsets without a stream go. Collectives run in a stream that does not wait for it, so
// it must be empty before they start: a memset and the last part of a copy may still be under way when the call returns.
const defaultStream nccl.Stream = 0

func (d *device) zero(p nccl.Ptr, n int64) error { return d.set(p, 0, n) }

// set fills device memory with a byte and waits until it is there.
func (d *device) set(p nccl.Ptr, v byte, n int64) error {
	if err := d.cuda.Memset(p, v, n); err != nil {
		return err
	}
	return d.cuda.Sync(defaultStream)
}

// staging is how much host memory moves test data at a time.
const staging = 16 << 20

// fill writes n bytes of the repeated period to the device.
func (d *device) fill(p nccl.Ptr, n int64, one []byte) error {
	chunk := staging / len(one) * len(one)
	buf := make([]byte, min(int64(chunk), n))
	repeatInto(buf, one)
	for at := int64(0); at < n; at += int64(len(buf)) {
		if err := d.cuda.Upload(p+nccl.Ptr(at), buf[:min(int64(len(buf)), n-at)]); err != nil {
			return err
		}
	}
	return d.cuda.Sync(defaultStream)
}

// compare reads n bytes back and counts the elements that differ from the repeated period.
func (d *device) compare(p nccl.Ptr, n int64, one []byte, size int) (wrong, first int64, err error) {
	chunk := staging / len(one) * len(one)
	buf := make([]byte, min(int64(chunk), n))
	first = -1
	for at := int64(0); at < n; at += int64(len(buf)) {
		part := buf[:min(int64(len(buf)), n-at)]
		if err := d.cuda.Download(part, p+nccl.Ptr(at)); err != nil {
			return wrong, first, err
		}
		w, f := countWrong(part, one, size)
		if wrong += w; f >= 0 && first < 0 {
			first = f + at/int64(size)
		}
	}
	return wrong, first, nil
}
