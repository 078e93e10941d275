package nccl

import "time"

// cudaErrorNotReady is the answer of a query while work is pending (driver_types.h).
const cudaErrorNotReady = 600

const streamNonBlocking = 1 // cudaStreamNonBlocking

// captureThreadLocal: unsafe calls of other threads, NCCL's own among them, do not spoil a capture.
const captureThreadLocal = 1

// NewStream makes a stream that does not wait for the default stream.
func (c *CUDA) NewStream() (Stream, error) {
	c.out.set(0)
	err := c.call("cudaStreamCreateWithFlags", c.streamCreate, c.out.ptr(), streamNonBlocking)
	return Stream(c.out.u64()), err
}

// DestroyStream releases a stream.
func (c *CUDA) DestroyStream(s Stream) error {
	return c.call("cudaStreamDestroy", c.streamDestroy, uintptr(s))
}

// Done tells whether all work of the stream has finished.
func (c *CUDA) Done(s Stream) (bool, error) {
	switch err := c.call("cudaStreamQuery", c.streamQuery, uintptr(s)); e := err.(type) {
	case nil:
		return true, nil
	case *CallError:
		if e.Code == cudaErrorNotReady {
			return false, nil
		}
		return false, err
	default:
		return false, err
	}
}

// Sync blocks until the stream is idle. Wait is the form that can give up.
func (c *CUDA) Sync(s Stream) error { return c.call("cudaStreamSynchronize", c.streamSync, uintptr(s)) }

// Wait polls the stream until it is idle. Between polls it calls check, which ends the wait with an error: a deadline,
// an asynchronous error of the communicator, a stop from outside. The first polls are back to back, so that short work
// is not slowed; later ones sleep.
func (c *CUDA) Wait(s Stream, check func() error) error {
	for i := 0; ; i++ {
		done, err := c.Done(s)
		if done || err != nil {
			return err
		}
		if i%64 == 63 || i > 2000 {
			if err := check(); err != nil {
				return err
			}
		}
		if i > 2000 {
			time.Sleep(20 * time.Microsecond)
		}
	}
}

// NewEvent makes an event that records time.
func (c *CUDA) NewEvent() (Event, error) {
	c.out.set(0)
	err := c.call("cudaEventCreate", c.eventCreate, c.out.ptr())
	return Event(c.out.u64()), err
}

// DestroyEvent releases an event.
func (c *CUDA) DestroyEvent(e Event) error {
	return c.call("cudaEventDestroy", c.eventDestroy, uintptr(e))
}

// Record puts the event into the stream.
func (c *CUDA) Record(e Event, s Stream) error {
	return c.call("cudaEventRecord", c.eventRecord, uintptr(e), uintptr(s))
}

// Elapsed returns the microseconds between two events that have passed. The runtime's resolution is about 0.5 us.
func (c *CUDA) Elapsed(from, to Event) (float64, error) {
	c.out.set(0)
	err := c.call("cudaEventElapsedTime", c.eventElapsed, c.out.ptr(), uintptr(from), uintptr(to))
	return float64(c.out.f32()) * 1e3, err
}

// Capture records what enqueue puts into s as a graph and makes it executable.
func (c *CUDA) Capture(s Stream, enqueue func() error) (GraphExec, error) {
	if err := c.call("cudaStreamBeginCapture", c.beginCapture, uintptr(s), captureThreadLocal); err != nil {
		return 0, err
	}
	inner := enqueue()
	c.out.set(0)
	err := c.call("cudaStreamEndCapture", c.endCapture, uintptr(s), c.out.ptr())
	graph := uintptr(c.out.u64())
	if inner != nil {
		err = inner
	}
	if err != nil {
		if graph != 0 {
			c.call("cudaGraphDestroy", c.graphDestroy, graph)
		}
		return 0, err
	}
	// CUDA 12 and later take (exec, graph, flags); CUDA 11 takes (exec, graph, errorNode, log, size). With zeros both
	// read the same.
	c.out.set(0)
	err = c.call("cudaGraphInstantiate", c.instantiate, c.out.ptr(), graph, 0, 0, 0)
	exec := GraphExec(c.out.u64())
	if e := c.call("cudaGraphDestroy", c.graphDestroy, graph); err == nil {
		err = e
	}
	return exec, err
}

// Launch starts a graph in a stream.
func (c *CUDA) Launch(g GraphExec, s Stream) error {
	return c.call("cudaGraphLaunch", c.launch, uintptr(g), uintptr(s))
}

// DestroyGraph releases an executable graph.
func (c *CUDA) DestroyGraph(g GraphExec) error {
	return c.call("cudaGraphExecDestroy", c.execDestroy, uintptr(g))
}
