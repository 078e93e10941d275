package validate

import (
	"rankmap/internal/parallel"
	"rankmap/validate/nccl"
)

// time measures the calls of a step: Batches batches of Inner passes each. The batches are enqueued back to back with an
// event between them, so that neither the launch from the host nor the wait for the end is in any of them; each batch
// gives one average. The first batch is not counted.
//
// With graphs a batch is one graph of Inner passes; eagerly it is Inner passes of plain calls, which for small messages
// measures how fast the host can launch, as it does for an engine without graphs.
func (w *worker) time(s step) (result, error) {
	calls := expand(s.Calls)
	if err := w.reserve(calls); err != nil {
		return result{}, err
	}
	pass := func() error {
		for _, c := range calls {
			if err := w.enqueue(c, true); err != nil {
				return err
			}
		}
		return nil
	}
	main, _, err := w.place(calls[0])
	if err != nil {
		return result{}, err
	}
	// Calls outside a graph come first: connections are made on the first call of a size, and a capture forbids that.
	for range s.Warm {
		if err := pass(); err != nil {
			return result{}, err
		}
	}
	if err := w.wait(main.comm); err != nil {
		return result{}, err
	}
	inner := func() error {
		for range s.Inner {
			if err := pass(); err != nil {
				return err
			}
		}
		return nil
	}
	batch := inner
	cuda, stream := w.dev.cuda, w.dev.stream
	if !s.Eager {
		g, err := cuda.Capture(stream, inner)
		if err != nil {
			return result{}, err
		}
		defer cuda.DestroyGraph(g)
		batch = func() error { return cuda.Launch(g, stream) }
	}
	events, err := w.events(s.Batches + 2)
	if err != nil {
		return result{}, err
	}
	for i := range s.Batches + 2 {
		if err := cuda.Record(events[i], stream); err != nil {
			return result{}, err
		}
		if i > s.Batches {
			break
		}
		if err := batch(); err != nil {
			return result{}, err
		}
	}
	if err := w.wait(main.comm); err != nil {
		return result{}, err
	}
	r := result{InPlace: inPlace(calls[0].Op)}
	for i := 1; i <= s.Batches; i++ {
		us, err := cuda.Elapsed(events[i], events[i+1])
		if err != nil {
			return result{}, err
		}
		r.BatchUs = append(r.BatchUs, us/float64(s.Inner))
	}
	return r, nil
}

// expand writes out repeated calls.
func expand(calls []call) []call {
	var all []call
	for _, c := range calls {
		for range max(1, c.Times) {
			all = append(all, c)
		}
	}
	return all
}

// pair times one-way transfers over the world communicator.
func (w *worker) pair(s step) (result, error) {
	c := s.Calls[0]
	t, err := nccl.ParseDType(c.DType)
	if err != nil {
		return result{}, err
	}
	count, n, _ := elements(parallel.SendRecv, c.Bytes, t, 2)
	if err := w.dev.reserve(n, n); err != nil {
		return result{}, err
	}
	once := func() error {
		var err error
		if w.orders.Rank == s.From {
			err = w.world.comm.Group(func() error { return w.world.comm.Send(w.dev.send.p, count, t, s.To, w.dev.stream) })
		} else {
			err = w.world.comm.Group(func() error { return w.world.comm.Recv(w.dev.recv.p, count, t, s.From, w.dev.stream) })
		}
		return w.settle(w.world.comm, err)
	}
	for range s.Warm {
		if err := once(); err != nil {
			return result{}, err
		}
	}
	events, err := w.events(s.Batches + 2)
	if err != nil {
		return result{}, err
	}
	for i := range s.Batches + 2 {
		if err := w.dev.cuda.Record(events[i], w.dev.stream); err != nil {
			return result{}, err
		}
		if i <= s.Batches {
			if err := once(); err != nil {
				return result{}, err
			}
		}
	}
	if err := w.wait(w.world.comm); err != nil {
		return result{}, err
	}
	var r result
	for i := 1; i <= s.Batches; i++ {
		us, err := w.dev.cuda.Elapsed(events[i], events[i+1])
		if err != nil {
			return result{}, err
		}
		r.BatchUs = append(r.BatchUs, us)
	}
	return r, nil
}

// events returns n events, made once.
func (w *worker) events(n int) ([]nccl.Event, error) {
	for len(w.pool) < n {
		e, err := w.dev.cuda.NewEvent()
		if err != nil {
			return nil, err
		}
		w.pool = append(w.pool, e)
	}
	return w.pool[:n], nil
}

// wait polls the stream until it is idle; the deadline of the step and an asynchronous error of the communicator end it.
func (w *worker) wait(c *nccl.Comm) error {
	return w.dev.cuda.Wait(w.dev.stream, func() error {
		if err := w.checkTime(); err != nil {
			return err
		}
		err := c.AsyncError()
		if r, ok := nccl.ResultOf(err); ok && r == nccl.InProgress {
			return nil
		}
		return err
	})
}
