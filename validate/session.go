package validate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"rankmap/validate/rendezvous"
)

// failure ends a run early. It is the first cause; what follows from it is not reported as a cause.
type failure struct {
	finding string // id in the table
	detail  string
	rank    int // -1 when no single rank
	exit    int // overrides the table's exit code when not 0
}

func (f *failure) Error() string { return f.detail }

// exited is a child that ended.
type exited struct {
	rank int
	how  string // "killed by signal 9", "exit status 1: text"
}

// session is the coordinator's conversation with the ranks.
type session struct {
	job    *Job
	d      Deadlines
	server *rendezvous.Server
	exits  <-chan exited
	talk   func(format string, args ...any)

	seq    int
	phase  map[int]string // what a rank said last
	gone   map[int]string // ranks that ended
	joined map[int]bool
	facts  map[int]facts
}

func newSession(job *Job, d Deadlines, server *rendezvous.Server, exits <-chan exited, talk func(string, ...any)) *session {
	return &session{
		job: job, d: d, server: server, exits: exits, talk: talk,
		phase: map[int]string{}, gone: map[int]string{}, joined: map[int]bool{}, facts: map[int]facts{},
	}
}

// all lists every rank.
func (s *session) all() []int {
	r := make([]int, s.job.World())
	for i := range r {
		r[i] = i
	}
	return r
}

// wait reads events until done says that enough has come, or the first of: a rank ends or falls silent, the deadline, ctx.
// missing names who is waited for, for messages.
func (s *session) wait(ctx context.Context, limit time.Duration, lateID, what string, missing func() []int, on func(rendezvous.Event) error) error {
	late := time.NewTimer(limit)
	defer late.Stop()
	every := time.NewTicker(s.d.JoinReport)
	defer every.Stop()
	began := time.Now()
	for len(missing()) > 0 {
		select {
		case <-ctx.Done():
			return s.ended(ctx)
		case e := <-s.exits:
			if err := s.onExit(e, what); err != nil {
				return err
			}
		case e := <-s.server.Events():
			if e.Kind == rendezvous.Lost {
				if err := s.onLost(ctx, e, what); err != nil {
					return err
				}
				continue
			}
			if e.Kind == rendezvous.Received && e.Message.Type == rendezvous.TypeNote {
				var n note
				if e.Message.Into(&n) == nil {
					s.phase[e.Rank] = n.Phase
				}
				continue
			}
			if err := on(e); err != nil {
				return err
			}
		case <-every.C:
			m := missing()
			s.talk("%s: waiting for %s (%d of %d, %.0f s)", what, s.names(m), s.job.World()-len(m), s.job.World(), time.Since(began).Seconds())
		case <-late.C:
			m := missing()
			rank := -1
			if len(m) == 1 {
				rank = m[0]
			}
			return &failure{finding: lateID, rank: rank, detail: fmt.Sprintf("%s: no answer from %s within %v", what, s.names(m), limit)}
		}
	}
	return nil
}

// names prints ranks with host and what they last did: "rank 3 (node1, communicator init)".
func (s *session) names(ranks []int) string {
	var b []string
	for _, r := range ranks {
		n := fmt.Sprintf("rank %d", r)
		where := s.facts[r].Host
		if where == "" && len(s.job.Hosts()) > 1 {
			where = s.job.Ranks[r].Host
		}
		if p := s.phase[r]; p != "" && where != "" && len(s.job.Hosts()) > 1 {
			n += " (" + where + ", " + p + ")"
		} else if p != "" {
			n += " (" + p + ")"
		} else if where != "" && len(s.job.Hosts()) > 1 {
			n += " (" + where + ")"
		}
		b = append(b, n)
		if len(b) == 8 && len(ranks) > 9 {
			b = append(b, fmt.Sprintf("%d more", len(ranks)-8))
			break
		}
	}
	return strings.Join(b, ", ")
}

func (s *session) ended(ctx context.Context) error {
	if f, ok := context.Cause(ctx).(*failure); ok {
		return f
	}
	return &failure{finding: "interrupted", detail: context.Cause(ctx).Error(), rank: -1, exit: exitInterrupted}
}

// onExit notes a child's end. An end before the work is done is a failure.
func (s *session) onExit(e exited, what string) error {
	s.gone[e.rank] = e.how
	return &failure{finding: "rank-died", rank: e.rank, detail: fmt.Sprintf("rank %d during %s: %s", e.rank, what, e.how)}
}

// onLost handles a broken connection. The process behind it is about to be reaped, or it is stopped and silent; its exit
// status tells more than the socket, so it gets a moment to arrive.
func (s *session) onLost(ctx context.Context, e rendezvous.Event, what string) error {
	moment := time.NewTimer(time.Second)
	defer moment.Stop()
	for {
		select {
		case x := <-s.exits:
			if x.rank == e.Rank {
				return s.onExit(x, what)
			}
			s.gone[x.rank] = x.how
			continue
		case <-moment.C:
		case <-ctx.Done():
		}
		break
	}
	if errors.Is(e.Err, io.EOF) || errors.Is(e.Err, syscall.ECONNRESET) {
		return &failure{finding: "rank-died", rank: e.Rank, detail: fmt.Sprintf("rank %d during %s: its connection was closed", e.Rank, what)}
	}
	return &failure{finding: "rank-silent", rank: e.Rank, detail: fmt.Sprintf("rank %d during %s: %v", e.Rank, what, e.Err)}
}

// join waits until every rank has joined and told its facts.
func (s *session) join(ctx context.Context) error {
	missing := func() []int {
		return slices.DeleteFunc(s.all(), func(r int) bool { return s.joined[r] })
	}
	unfactual := func() []int {
		return slices.DeleteFunc(s.all(), func(r int) bool { _, ok := s.facts[r]; return ok })
	}
	on := func(e rendezvous.Event) error {
		switch {
		case e.Kind == rendezvous.Joined:
			s.joined[e.Rank] = true
		case e.Message.Type == rendezvous.TypeFacts:
			var f facts
			if err := e.Message.Into(&f); err != nil {
				return &failure{finding: "rank-failed", rank: e.Rank, detail: fmt.Sprintf("rank %d: %v", e.Rank, err)}
			}
			s.facts[e.Rank] = f
		}
		return nil
	}
	if err := s.wait(ctx, s.d.Join, "join-deadline", "joining", missing, on); err != nil {
		return err
	}
	return s.wait(ctx, s.d.Facts, "facts-deadline", "opening libraries and GPUs", unfactual, on)
}

// shareID has rank 0 make the communicator's id and gives it to the others. It is called after all checks.
func (s *session) shareID(ctx context.Context) error {
	s.seq++
	ask, err := rendezvous.New(rendezvous.TypeMakeID, s.seq, nil)
	if err != nil {
		return err
	}
	if err := s.server.Send(0, ask); err != nil {
		return s.sendFailed(0, err)
	}
	var id idBody
	missing := func() []int {
		if id.ID == nil {
			return []int{0}
		}
		return nil
	}
	err = s.wait(ctx, s.d.Facts, "init-deadline", "making the communicator's id", missing, func(e rendezvous.Event) error {
		if e.Rank != 0 || e.Message.Seq != s.seq {
			return nil
		}
		if e.Message.Type == rendezvous.TypeResult {
			var r result
			if err := e.Message.Into(&r); err == nil && r.Problem != nil {
				return &failure{finding: r.Problem.ID, rank: 0, detail: "rank 0: " + r.Problem.Detail}
			}
		}
		return e.Message.Into(&id)
	})
	if err != nil {
		return err
	}
	m, err := rendezvous.New(rendezvous.TypeID, s.seq, id)
	if err != nil {
		return err
	}
	for _, r := range s.all() {
		if err := s.server.Send(r, m); err != nil {
			return s.sendFailed(r, err)
		}
	}
	return nil
}

func (s *session) sendFailed(rank int, err error) error {
	return &failure{finding: "rank-silent", rank: rank, detail: fmt.Sprintf("rank %d does not take messages: %v", rank, err)}
}

// do sends a step to the ranks and collects their results. limit bounds the work on a rank; the coordinator waits a little
// longer, so that a rank that still can say what happened does.
func (s *session) do(ctx context.Context, ranks []int, st step, limit time.Duration, what string) (map[int]result, error) {
	s.seq++
	st.LimitMs = limit.Milliseconds()
	m, err := rendezvous.New(rendezvous.TypeStep, s.seq, st)
	if err != nil {
		return nil, err
	}
	for _, r := range ranks {
		s.phase[r] = st.Do
		if err := s.server.Send(r, m); err != nil {
			return nil, s.sendFailed(r, err)
		}
	}
	got := map[int]result{}
	var first *failure
	var waited []int // ranks that only saw the end of their patience
	missing := func() []int {
		return slices.DeleteFunc(slices.Clone(ranks), func(r int) bool { _, ok := got[r]; return ok })
	}
	lateID := "step-deadline"
	if st.Do == doInit {
		lateID = "init-deadline"
	}
	err = s.wait(ctx, limit+2*time.Second, lateID, what, missing, func(e rendezvous.Event) error {
		if e.Kind != rendezvous.Received || e.Message.Type != rendezvous.TypeResult || e.Message.Seq != s.seq {
			return nil
		}
		var r result
		if err := e.Message.Into(&r); err != nil {
			return &failure{finding: "rank-failed", rank: e.Rank, detail: fmt.Sprintf("rank %d: %v", e.Rank, err)}
		}
		got[e.Rank] = r
		if r.Problem == nil {
			return nil
		}
		f := &failure{finding: r.Problem.ID, rank: e.Rank, detail: fmt.Sprintf("rank %d during %s: %s", e.Rank, what, r.Problem.Detail)}
		if f.finding == "step-deadline" && st.Do == doInit {
			f.finding = "init-deadline"
		}
		if first == nil {
			first = f
		}
		// A lost peer or a timeout is what the others see of somebody's failure: the real one comes within moments.
		if consequence(f.finding) {
			waited = append(waited, e.Rank)
			if consequence(first.finding) {
				return nil
			}
			return first
		}
		first = f
		return f
	})
	if first != nil {
		if f, ok := err.(*failure); ok && !consequence(f.finding) {
			return got, f
		}
		if f, ok := err.(*failure); ok && f.finding == lateID && consequence(first.finding) {
			return got, f // who did not answer at all is nearer to the cause than who waited in vain
		}
		if len(waited) > 1 {
			slices.Sort(waited)
			first.rank = -1
			first.detail = fmt.Sprintf("ranks %s during %s: all waited in vain (rank %d: %s)", rankList(waited), what, waited[0], got[waited[0]].Problem.Detail)
		}
		return got, first
	}
	return got, err
}

// consequence tells findings that usually follow from another rank's failure.
func consequence(id string) bool {
	return id == "nccl-remote" || id == "step-deadline" || id == "init-deadline" || id == "nccl-timeout"
}

// bye lets the ranks leave in good order.
func (s *session) bye() {
	m, _ := rendezvous.New(rendezvous.TypeBye, 0, nil)
	for _, r := range s.all() {
		s.server.Send(r, m)
	}
}

// allLeft waits until every rank has closed its connection after "bye".
func (s *session) allLeft(limit time.Duration) bool {
	late := time.NewTimer(limit)
	defer late.Stop()
	left := map[int]bool{}
	for len(left) < s.job.World() {
		select {
		case e := <-s.server.Events():
			if e.Kind == rendezvous.Lost {
				left[e.Rank] = true
			}
		case <-late.C:
			return false
		}
	}
	return true
}

// stopAll tells the ranks to leave, and how the run ends; they may not listen.
func (s *session) stopAll(exit int) {
	m, _ := rendezvous.New(rendezvous.TypeStop, 0, stopBody{exit})
	for _, r := range s.all() {
		if s.gone[r] == "" && s.joined[r] {
			s.server.Send(r, m)
		}
	}
}

func hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return h
}
