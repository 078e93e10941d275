package nccl

// sum is ncclSum.
const sum = 0

// Buffer is what one collective works on. Count is elements in the sense of each function of nccl.h.
type Buffer struct {
	Send, Recv Ptr
	Count      int64
	Type       DType
}

// AllReduce sums Count elements of every member into every member's Recv.
func (c *Comm) AllReduce(b Buffer, s Stream) error {
	return c.done("ncclAllReduce", c.n.call(c.n.allReduce, uintptr(b.Send), uintptr(b.Recv), uintptr(b.Count), uintptr(b.Type), sum, c.handle(), uintptr(s)))
}

// AllGather collects Count elements of each member, in member order.
func (c *Comm) AllGather(b Buffer, s Stream) error {
	return c.done("ncclAllGather", c.n.call(c.n.allGather, uintptr(b.Send), uintptr(b.Recv), uintptr(b.Count), uintptr(b.Type), c.handle(), uintptr(s)))
}

// ReduceScatter sums members x Count elements and leaves the i-th block of Count with member i.
func (c *Comm) ReduceScatter(b Buffer, s Stream) error {
	return c.done("ncclReduceScatter", c.n.call(c.n.reduceScatter, uintptr(b.Send), uintptr(b.Recv), uintptr(b.Count), uintptr(b.Type), sum, c.handle(), uintptr(s)))
}

// Broadcast copies Count elements of root to all.
func (c *Comm) Broadcast(b Buffer, root int, s Stream) error {
	return c.done("ncclBroadcast", c.n.call(c.n.broadcast, uintptr(b.Send), uintptr(b.Recv), uintptr(b.Count), uintptr(b.Type), uintptr(root), c.handle(), uintptr(s)))
}

// Reduce sums Count elements into root's Recv.
func (c *Comm) Reduce(b Buffer, root int, s Stream) error {
	return c.done("ncclReduce", c.n.call(c.n.reduce, uintptr(b.Send), uintptr(b.Recv), uintptr(b.Count), uintptr(b.Type), sum, uintptr(root), c.handle(), uintptr(s)))
}

// AllToAll exchanges Count elements with each of the size members, itself included. It uses ncclAlltoAll where the
// library has it and native is set, else one group of sends and receives.
func (c *Comm) AllToAll(b Buffer, size int, native bool, s Stream) error {
	if native && c.n.alltoall != 0 {
		return c.done("ncclAlltoAll", c.n.call(c.n.alltoall, uintptr(b.Send), uintptr(b.Recv), uintptr(b.Count), uintptr(b.Type), c.handle(), uintptr(s)))
	}
	step := Ptr(b.Count * int64(b.Type.Size()))
	return c.Group(func() error {
		for p := range size {
			at := Ptr(p) * step
			if err := c.Send(b.Send+at, b.Count, b.Type, p, s); err != nil {
				return err
			}
			if err := c.Recv(b.Recv+at, b.Count, b.Type, p, s); err != nil {
				return err
			}
		}
		return nil
	})
}

// Send sends to a member. Call it inside Group when the peer sends too.
func (c *Comm) Send(p Ptr, count int64, t DType, peer int, s Stream) error {
	return c.enqueued("ncclSend", c.n.call(c.n.send, uintptr(p), uintptr(count), uintptr(t), uintptr(peer), c.handle(), uintptr(s)))
}

// Recv receives from a member.
func (c *Comm) Recv(p Ptr, count int64, t DType, peer int, s Stream) error {
	return c.enqueued("ncclRecv", c.n.call(c.n.recv, uintptr(p), uintptr(count), uintptr(t), uintptr(peer), c.handle(), uintptr(s)))
}

// Group fuses the calls of body into one operation. An error of body still ends the group.
func (c *Comm) Group(body func() error) error {
	if err := c.n.check("ncclGroupStart", c.n.call(c.n.groupStart), c); err != nil {
		return err
	}
	inner := body()
	err := c.done("ncclGroupEnd", c.n.call(c.n.groupEnd))
	if inner != nil {
		return inner
	}
	return err
}

// enqueued accepts InProgress: inside a group nothing has started yet.
func (c *Comm) enqueued(name string, r Result) error {
	if r == Success || r == InProgress {
		return nil
	}
	return c.n.check(name, r, c)
}

// Pending is the error of a call that a non-blocking communicator has not finished: connections are being made. The
// caller waits with Ready before it touches the stream.
type Pending struct{ Func string }

func (p *Pending) Error() string { return p.Func + ": still in progress" }

func (c *Comm) done(name string, r Result) error {
	switch r {
	case Success:
		return nil
	case InProgress:
		return &Pending{name}
	}
	return c.n.check(name, r, c)
}
