package validate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"rankmap/validate/nccl"
	"rankmap/validate/rendezvous"
)

// maxOrders bounds what a child reads on its standard input.
const maxOrders = 1 << 20

// ReadOrders reads the parent's orders.
func ReadOrders(r io.Reader) (*Orders, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxOrders+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxOrders {
		return nil, errors.New("orders of more than 1 MiB")
	}
	o := new(Orders)
	return o, rendezvous.Decode(data, o)
}

// worker is the state of one rank.
type worker struct {
	orders   *Orders
	client   *rendezvous.Client
	dev      *device
	world    member
	families []member
	pairs    member // all ranks, blocking; made when a pair test comes
	native   bool
	pool     []nccl.Event
	limit    time.Time // of the step in progress
	stop     context.Context
	log      *logTail
	id       nccl.UniqueID
	reach    *reachListener
}

// RunRank is the life of a child: join, report facts, carry out steps until told to leave. It must own the process: NCCL
// and CUDA are called from the calling goroutine, which stays on its thread, and a watchdog ends the process when the
// coordinator is gone and a library call does not come back.
func RunRank(ctx context.Context, o *Orders) error {
	runtime.LockOSThread()
	cfg := rendezvous.Config{Job: o.JobID, Token: o.Token, World: o.World, Timing: rendezvous.Timing{Silence: o.Deadlines.Silence}}
	join, cancelJoin := context.WithTimeout(ctx, o.Deadlines.Join)
	client, err := rendezvous.Dial(join, o.Address, cfg, o.Rank)
	cancelJoin()
	if errors.Is(err, rendezvous.ErrRefused) {
		return &joinError{err}
	}
	if err != nil {
		return &joinError{fmt.Errorf("rank %d cannot join at %s: %s (%w)", o.Rank, o.Address, whyNot(err), err)}
	}
	defer client.Close()
	stop, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &worker{orders: o, client: client, stop: stop}

	// The receiver runs beside the worker, so that "stop" is heard while a library call is under way.
	inbox := make(chan rendezvous.Message, 16)
	done := make(chan struct{})
	defer close(done)
	go func() {
		patience := o.Deadlines.Grace
		for {
			m, err := client.Recv()
			if err != nil {
				cancel(err)
				break
			}
			if m.Type == rendezvous.TypeStop {
				var b stopBody
				if m.Into(&b) == nil && b.Exit != 0 {
					fmt.Fprintf(os.Stderr, stopWord+"%d\n", b.Exit)
				}
				cancel(errStopped)
				break
			}
			inbox <- m
			if m.Type == rendezvous.TypeBye { // what comes after it, the end of the connection too, is no news
				patience *= 2
				break
			}
		}
		// A call that hangs in a library cannot be ended from inside the process.
		select {
		case <-done:
		case <-time.After(patience):
			os.Exit(exitStopped)
		}
	}()
	return w.run(inbox)
}

// stopWord is how a child tells its parent what the coordinator said.
const stopWord = "the run ends with exit code "

// errStopped is the coordinator's order to leave.
var errStopped = errors.New("stopped by the coordinator")

// joinError is why a rank did not get in.
type joinError struct{ error }

func (e *joinError) Unwrap() error { return e.error }

// exitNoJoin is the exit code of a child that did not get in.
const exitNoJoin = 76

// exitStopped is a child's exit code after "stop" or a lost coordinator; the parent does not take it for a cause.
const exitStopped = 75

func (w *worker) run(inbox <-chan rendezvous.Message) error {
	w.note("facts")
	f := w.facts()
	if err := w.send(rendezvous.TypeFacts, 0, f); err != nil {
		return err
	}
	for {
		select {
		case <-w.stop.Done():
			return w.leave(context.Cause(w.stop))
		case m := <-inbox:
			switch m.Type {
			case rendezvous.TypeMakeID:
				id, err := w.dev.lib.NewUniqueID()
				if err != nil {
					w.send(rendezvous.TypeResult, m.Seq, result{Problem: toProblem(err)})
					continue
				}
				if err := w.send(rendezvous.TypeID, m.Seq, idBody{id[:]}); err != nil {
					return err
				}
			case rendezvous.TypeID:
				var b idBody
				if err := m.Into(&b); err != nil {
					return err
				}
				if len(b.ID) != len(w.id) {
					return fmt.Errorf("communicator id of %d bytes", len(b.ID))
				}
				copy(w.id[:], b.ID)
			case rendezvous.TypeStep:
				var s step
				if err := m.Into(&s); err != nil {
					return err
				}
				r := w.carryOut(s)
				if w.stop.Err() != nil {
					return w.leave(context.Cause(w.stop))
				}
				if err := w.send(rendezvous.TypeResult, m.Seq, r); err != nil {
					return err
				}
			case rendezvous.TypeBye:
				return w.finish()
			}
		}
	}
}

func (w *worker) send(typ string, seq int, body any) error {
	m, err := rendezvous.New(typ, seq, body)
	if err != nil {
		return err
	}
	return w.client.Send(m)
}

func (w *worker) note(phase string) { w.send(rendezvous.TypeNote, 0, note{phase}) }

// facts opens the libraries and the GPU. Problems are reported, not returned: the coordinator decides.
func (w *worker) facts() facts {
	host, _ := os.Hostname()
	f := facts{Host: host, PID: os.Getpid(), Findings: w.orders.Findings[:min(len(w.orders.Findings), 20)], Net: w.orders.Net}
	d, err := openLibraries(w.orders, &f)
	if err == nil {
		w.dev = d
		err = d.choose(w.orders.Device, &f)
	}
	if err != nil {
		f.Problem = toProblem(err)
	}
	return f
}

// carryOut does one step and turns any error into a problem.
func (w *worker) carryOut(s step) result {
	w.limit = time.Now().Add(time.Duration(s.LimitMs) * time.Millisecond)
	w.native = s.Native
	if w.reach != nil && s.Do != doReach {
		w.reach.ln.Close()
		w.reach = nil
	}
	var r result
	var err error
	if w.dev == nil || w.dev.lib == nil {
		err = errors.New("step before the libraries are open")
	} else {
		switch s.Do {
		case doInit:
			r, err = w.init(s)
		case doVerify:
			r, err = w.verifyStep(s)
		case doTime:
			if len(s.Calls) == 0 || s.Inner < 1 || s.Batches < 1 {
				err = errors.New("step without calls")
				break
			}
			r, err = w.time(s)
		case doPair:
			if len(s.Calls) == 0 {
				err = errors.New("step without calls")
				break
			}
			r, err = w.pair(s)
		case doPairs:
			err = w.makePairs()
		case doListen:
			r, err = w.listenStep()
		case doReach:
			r = w.reachStep(s)
		case doQuiet:
			r.Net = w.log.net()
			r.Logging = !w.log.quiet(w.dev.lib)
		default:
			err = fmt.Errorf("unknown step %q", s.Do)
		}
	}
	if err != nil {
		return result{Problem: toProblem(err)}
	}
	return r
}

// checkTime ends waits: the step's deadline, or a stop.
func (w *worker) checkTime() error {
	if w.stop.Err() != nil {
		return context.Cause(w.stop)
	}
	if time.Now().After(w.limit) {
		return &problemError{"step-deadline", errors.New("the step did not end within its deadline")}
	}
	return nil
}

// init creates the world communicator, then one for each family of groups.
func (w *worker) init(s step) (result, error) {
	w.note("communicator init")
	w.log = openLog(w.orders.LogDir, w.orders.Rank)
	c, err := w.dev.lib.InitRank(w.id, w.orders.World, w.orders.Rank)
	if err != nil {
		return result{}, err
	}
	if err := c.Ready(w.checkTime); err != nil {
		return result{}, err
	}
	w.world = member{c, w.orders.Rank, w.orders.World}
	for _, groups := range s.Families {
		color, key, n := nccl.NoColor, 0, 0
		for g, members := range groups {
			for i, m := range members {
				if m == w.orders.Rank {
					color, key, n = g, i, len(members)
				}
			}
		}
		w.note("communicator split")
		sub, err := c.Split(color, key, s.Blocking)
		if err != nil {
			return result{}, err
		}
		if err := c.Ready(w.checkTime); err != nil {
			return result{}, err
		}
		if color == nccl.NoColor {
			w.families = append(w.families, member{})
			continue
		}
		if err := sub.Ready(w.checkTime); err != nil {
			return result{}, err
		}
		w.families = append(w.families, member{sub, key, n})
	}
	return result{}, nil
}

// makePairs creates the communicator of the pair tests. The world communicator would not do: on a non-blocking one every
// call waits for a thread of NCCL, which takes longer than the transfer that is to be timed.
func (w *worker) makePairs() error {
	if w.pairs.comm != nil {
		return nil
	}
	c, err := w.world.comm.Split(0, w.orders.Rank, true)
	if err != nil {
		return err
	}
	if err := w.world.comm.Ready(w.checkTime); err != nil {
		return err
	}
	w.pairs = member{c, w.orders.Rank, w.orders.World}
	return c.Ready(w.checkTime)
}

// verifyStep runs the one call of the step and reads what NCCL logged about it.
func (w *worker) verifyStep(s step) (result, error) {
	if len(s.Calls) != 1 {
		return result{}, errors.New("verification wants one call")
	}
	w.log.skip()
	wrong, first, err := w.verify(s.Calls[0])
	if err != nil {
		return result{}, err
	}
	return result{Wrong: wrong, FirstBad: first, Choice: w.log.choice()}, nil
}

// leave gives up: abort what can be aborted, then go. Abort may hang; the watchdog ends the process then.
func (w *worker) leave(cause error) error {
	for _, m := range append([]member{w.world, w.pairs}, w.families...) {
		if m.comm != nil {
			m.comm.Abort()
		}
	}
	return cause
}

// finish leaves in good order.
func (w *worker) finish() error {
	w.limit = time.Now().Add(w.orders.Deadlines.Grace)
	var errs []error
	for _, m := range append(w.families[:len(w.families):len(w.families)], w.pairs, w.world) {
		if m.comm == nil {
			continue
		}
		if err := m.comm.Finalize(); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := m.comm.Ready(w.checkTime); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, m.comm.Destroy())
	}
	if w.dev != nil && w.dev.cuda != nil {
		for _, b := range []buffer{w.dev.send, w.dev.recv} {
			if b.p != 0 {
				errs = append(errs, w.dev.cuda.Free(b.p))
			}
		}
	}
	return errors.Join(errs...)
}

// RankMain reads orders from r and runs them; it returns the exit code of the child.
func RankMain(ctx context.Context, r io.Reader, talk io.Writer) int {
	o, err := ReadOrders(r)
	if err == nil {
		err = RunRank(ctx, o)
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errStopped):
		return exitStopped
	}
	fmt.Fprintln(talk, err)
	if j := new(joinError); errors.As(err, &j) {
		return exitNoJoin
	}
	return 1
}
