package validate

import (
	"errors"
	"slices"

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
	calls := w.mine(expand(s.Calls))
	if len(calls) == 0 {
		return result{}, errors.New("no call of the step is for this rank")
	}
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

// mine leaves out the calls of families that the rank is not part of; the members of each group still agree on theirs.
func (w *worker) mine(calls []call) []call {
	return slices.DeleteFunc(calls, func(c call) bool {
		return c.Family >= 0 && c.Family < len(w.families) && w.families[c.Family].comm == nil
	})
}

// pair times one-way transfers: batches of Inner transfers, back to back, as time does.
func (w *worker) pair(s step) (result, error) {
	c := s.Calls[0]
	t, err := nccl.ParseDType(c.DType)
	if err != nil {
		return result{}, err
	}
	if w.pairs.comm == nil || s.Inner < 1 || s.Batches < 1 {
		return result{}, errors.New("pair test before its communicator")
	}
	count, n, _ := elements(parallel.SendRecv, c.Bytes, t, 2)
	if err := w.dev.reserve(n, n); err != nil {
		return result{}, err
	}
	for _, p := range s.Pairs {
		if p[0] == w.orders.Rank || p[1] == w.orders.Rank {
			s.From, s.To = p[0], p[1]
		}
	}
	comm, stream := w.pairs.comm, w.dev.stream
	once := func() error {
		if w.orders.Rank == s.From {
			return comm.Group(func() error { return comm.Send(w.dev.send.p, count, t, s.To, stream) })
		}
		return comm.Group(func() error { return comm.Recv(w.dev.recv.p, count, t, s.From, stream) })
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
		if err := w.dev.cuda.Record(events[i], stream); err != nil {
			return result{}, err
		}
		for k := 0; k < s.Inner && i <= s.Batches; k++ {
			if err := once(); err != nil {
				return result{}, err
			}
		}
	}
	if err := w.wait(comm); err != nil {
		return result{}, err
	}
	var r result
	for i := 1; i <= s.Batches; i++ {
		us, err := w.dev.cuda.Elapsed(events[i], events[i+1])
		if err != nil {
			return result{}, err
		}
		r.BatchUs = append(r.BatchUs, us/float64(s.Inner))
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
