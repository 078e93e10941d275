package validate

import (
	"errors"
	"fmt"

	"rankmap/internal/parallel"
	"rankmap/validate/nccl"
)

// member is a rank's place in one communicator.
type member struct {
	comm *nccl.Comm
	me   int
	n    int
}

// elements returns the count that NCCL's function takes and the bytes of both buffers for a call of the given size (in
// nccl-tests' meaning). Sizes that the members do not divide are rounded down, to one element at least.
func elements(op parallel.Op, bytes int64, t nccl.DType, n int) (count, send, recv int64) {
	size := int64(t.Size())
	switch op {
	case parallel.AllGather:
		count = max(1, bytes/size/int64(n))
		return count, count * size, count * size * int64(n)
	case parallel.ReduceScatter:
		count = max(1, bytes/size/int64(n))
		return count, count * size * int64(n), count * size
	case parallel.AllToAll:
		count = max(1, bytes/size/int64(n))
		return count, count * size * int64(n), count * size * int64(n)
	}
	count = max(1, bytes/size)
	return count, count * size, count * size
}

// inPlace tells which operations are timed in place, as the measured tables are; all-to-all and send/recv have no such
// form.
func inPlace(op parallel.Op) bool { return op != parallel.AllToAll && op != parallel.SendRecv }

// enqueue puts one call into the stream.
func (w *worker) enqueue(c call, place bool) error {
	m, t, err := w.place(c)
	if err != nil {
		return err
	}
	count, _, _ := elements(c.Op, c.Bytes, t, m.n)
	b := nccl.Buffer{Send: w.dev.send.p, Recv: w.dev.recv.p, Count: count, Type: t}
	s := w.dev.stream
	block := nccl.Ptr(count * int64(t.Size()))
	if place && inPlace(c.Op) {
		switch c.Op {
		case parallel.AllGather:
			b.Send = b.Recv + nccl.Ptr(m.me)*block
		case parallel.ReduceScatter:
			b.Recv = b.Send + nccl.Ptr(m.me)*block
		default:
			b.Recv = b.Send
		}
	}
	switch c.Op {
	case parallel.AllReduce:
		err = m.comm.AllReduce(b, s)
	case parallel.AllGather:
		err = m.comm.AllGather(b, s)
	case parallel.ReduceScatter:
		err = m.comm.ReduceScatter(b, s)
	case parallel.Broadcast:
		err = m.comm.Broadcast(b, 0, s)
	case parallel.Reduce:
		err = m.comm.Reduce(b, 0, s)
	case parallel.AllToAll:
		err = m.comm.AllToAll(b, m.n, w.native, s)
	case parallel.SendRecv:
		to, from := neighbours(c, m)
		err = m.comm.Group(func() error {
			if to >= 0 {
				if err := m.comm.Send(b.Send, count, t, to, s); err != nil {
					return err
				}
			}
			if from >= 0 {
				return m.comm.Recv(b.Recv, count, t, from, s)
			}
			return nil
		})
	default:
		err = fmt.Errorf("no way to run %s", c.Op)
	}
	return w.settle(m.comm, err)
}

// neighbours returns whom a member sends to and receives from, -1 for nobody: both directions inside a pair, or a chain
// from the first member to the last.
func neighbours(c call, m member) (to, from int) {
	a, b := c.Pair[0], c.Pair[1]
	if a == b {
		to, from = m.me+1, m.me-1
		if to == m.n {
			to = -1
		}
		return to, from
	}
	switch m.me {
	case a:
		return b, b
	case b:
		return a, a
	}
	return -1, -1
}

// settle waits out a call that a non-blocking communicator has not finished.
func (w *worker) settle(c *nccl.Comm, err error) error {
	var p *nccl.Pending
	if errors.As(err, &p) {
		return c.Ready(w.checkTime)
	}
	return err
}

// place finds the communicator of a call.
func (w *worker) place(c call) (member, nccl.DType, error) {
	t, err := nccl.ParseDType(c.DType)
	if err != nil {
		return member{}, 0, err
	}
	if c.Family == -1 {
		return w.world, t, nil
	}
	if c.Family < 0 || c.Family >= len(w.families) || w.families[c.Family].comm == nil {
		return member{}, 0, fmt.Errorf("rank %d is in no group of family %d", w.orders.Rank, c.Family)
	}
	return w.families[c.Family], t, nil
}

// reserve makes the buffers large enough for all calls of a step.
func (w *worker) reserve(calls []call) error {
	var send, recv int64
	for _, c := range calls {
		m, t, err := w.place(c)
		if err != nil {
			return err
		}
		_, s, r := elements(c.Op, c.Bytes, t, m.n)
		if inPlace(c.Op) {
			s, r = max(s, r), max(s, r)
		}
		send, recv = max(send, s), max(recv, r)
	}
	return w.dev.reserve(send, recv)
}

// verify runs a call once, out of place, on fresh data and counts wrong elements.
func (w *worker) verify(c call) (wrong, first int64, err error) {
	if err := w.reserve([]call{c}); err != nil {
		return 0, -1, err
	}
	m, t, err := w.place(c)
	if err != nil {
		return 0, -1, err
	}
	count, sendBytes, recvBytes := elements(c.Op, c.Bytes, t, m.n)
	d := w.dev
	mine := func(i int) int { return contribution(m.me, i, t, m.n) }
	if err := d.fill(d.send.p, sendBytes, encodePeriod(t, 0, mine)); err != nil {
		return 0, -1, err
	}
	if err := d.set(d.recv.p, 0xff, recvBytes); err != nil {
		return 0, -1, err
	}
	if err := w.enqueue(c, false); err != nil {
		return 0, -1, err
	}
	if err := w.wait(m.comm); err != nil {
		return 0, -1, err
	}
	first = -1
	check := func(block int, start int64, value func(i int) int) error {
		size := int64(t.Size())
		at := nccl.Ptr(int64(block) * count * size)
		wr, f, err := d.compare(d.recv.p+at, count*size, encodePeriod(t, start, value), t.Size())
		if f >= 0 && first < 0 {
			first = f + int64(block)*count
		}
		wrong += wr
		return err
	}
	of := func(member int) func(int) int { return func(i int) int { return contribution(member, i, t, m.n) } }
	sum := func(i int) int { return sumOf(i, t, m.n) }
	switch c.Op {
	case parallel.AllReduce:
		err = check(0, 0, sum)
	case parallel.Reduce:
		if m.me == 0 {
			err = check(0, 0, sum)
		}
	case parallel.ReduceScatter:
		err = check(0, int64(m.me)*count, sum)
	case parallel.Broadcast:
		err = check(0, 0, of(0))
	case parallel.AllGather:
		for b := range m.n {
			err = errors.Join(err, check(b, 0, of(b)))
		}
	case parallel.AllToAll:
		for b := range m.n {
			err = errors.Join(err, check(b, int64(m.me)*count, of(b)))
		}
	case parallel.SendRecv:
		if _, from := neighbours(c, m); from >= 0 {
			err = check(0, 0, of(from))
		}
	}
	// Later timing in place sums the buffer over and over: zeros stay zeros.
	if e := d.zero(d.send.p, d.send.n); err == nil {
		err = e
	}
	if e := d.zero(d.recv.p, d.recv.n); err == nil {
		err = e
	}
	return wrong, first, err
}
