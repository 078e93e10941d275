package rendezvous

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// Timing holds the waits of both sides; zero values mean the defaults.
type Timing struct {
	Handshake time.Duration // the whole handshake; 5 s
	Beat      time.Duration // between heartbeats; 1 s
	Silence   time.Duration // without any byte a peer is lost; 5 s
}

func (t Timing) orDefault() Timing {
	if t.Handshake == 0 {
		t.Handshake = 5 * time.Second
	}
	if t.Beat == 0 {
		t.Beat = time.Second
	}
	if t.Silence == 0 {
		t.Silence = 5 * time.Second
	}
	return t
}

// Config describes one job.
type Config struct {
	Job    string
	Token  []byte
	World  int
	Timing Timing
}

func (c Config) check() error {
	if len(c.Token) < MinToken {
		return fmt.Errorf("token of %d bytes, want at least %d", len(c.Token), MinToken)
	}
	if c.World < 1 {
		return fmt.Errorf("world size %d, want at least 1", c.World)
	}
	return CheckJob(c.Job)
}

// Rejected counts those who were turned away, by reason.
type Rejected struct {
	Malformed  int `json:"malformed"`  // not our protocol, truncated, too long
	TooSlow    int `json:"tooSlow"`    // handshake not finished in time
	WrongToken int `json:"wrongToken"` // or a replayed proof
	ForeignJob int `json:"foreignJob"` // another job's rank
	WrongWorld int `json:"wrongWorld"` // another world size
	BadRank    int `json:"badRank"`    // outside the world
	Duplicate  int `json:"duplicate"`  // the rank has joined already
	TooMany    int `json:"tooMany"`    // over 2 x world open sockets
}

// Total is the sum.
func (r Rejected) Total() int {
	return r.Malformed + r.TooSlow + r.WrongToken + r.ForeignJob + r.WrongWorld + r.BadRank + r.Duplicate + r.TooMany
}

// EventKind says what happened.
type EventKind uint8

// The kinds of event.
const (
	Joined EventKind = iota
	Received
	Lost
)

// Event is one thing that a rank did.
type Event struct {
	Kind    EventKind
	Rank    int
	Message Message // of Received
	Err     error   // of Lost
}

// Server is the coordinator's side.
type Server struct {
	cfg    Config
	ln     net.Listener
	slots  chan struct{}
	events chan Event
	done   chan struct{}

	mu       sync.Mutex
	peers    map[int]*peer
	rejected Rejected
	foreign  []string
	closed   bool
	wg       sync.WaitGroup
}

type peer struct {
	conn net.Conn
	mu   sync.Mutex // one writer at a time
}

// Listen binds exactly addr ("127.0.0.1:0"). Names and wildcard addresses are refused: the caller says where.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("rendezvous address %q: %w", addr, err)
	}
	ip := net.ParseIP(host)
	if ip == nil {
		return nil, fmt.Errorf("rendezvous address %q: want a numeric address of this host and a port", addr)
	}
	if ip.IsUnspecified() {
		return nil, fmt.Errorf("rendezvous address %q listens everywhere, refused: name one address", addr)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("rendezvous cannot listen on %s: %w", addr, err)
	}
	return ln, nil
}

// NewServer starts to accept ranks on ln. The caller reads Events until Close.
func NewServer(ln net.Listener, cfg Config) (*Server, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.Timing = cfg.Timing.orDefault()
	s := &Server{
		cfg: cfg, ln: ln, slots: make(chan struct{}, 2*cfg.World), events: make(chan Event, 4*cfg.World+16),
		done: make(chan struct{}), peers: map[int]*peer{},
	}
	s.wg.Add(1)
	go s.accept()
	return s, nil
}

// Addr is the address that ranks dial.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// Events delivers what ranks do. It is never closed; stop reading after Close.
func (s *Server) Events() <-chan Event { return s.events }

// Rejected returns the counts so far and the first job ids of foreigners that proved the token.
func (s *Server) Rejected() (Rejected, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rejected, slices.Clone(s.foreign)
}

// Close ends all connections and frees the port.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
		s.ln.Close()
		for _, p := range s.peers {
			p.conn.Close()
		}
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *Server) accept() {
	defer s.wg.Done()
	for {
		conn, err := s.ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			select { // out of file descriptors, most likely: try again soon
			case <-s.done:
				return
			case <-time.After(50 * time.Millisecond):
			}
			continue
		}
		select {
		case s.slots <- struct{}{}:
			s.wg.Add(1)
			go s.serve(conn)
		default:
			s.count(func(r *Rejected) { r.TooMany++ })
			conn.Close()
		}
	}
}

func (s *Server) count(f func(*Rejected)) {
	s.mu.Lock()
	f(&s.rejected)
	s.mu.Unlock()
}

// serve runs one connection: handshake, then messages until it ends.
func (s *Server) serve(conn net.Conn) {
	defer s.wg.Done()
	defer func() { <-s.slots }()
	defer conn.Close()
	stop := context.AfterFunc(s.context(), func() { conn.Close() })
	defer stop()

	rank, p := s.handshake(conn)
	if p == nil {
		return
	}
	s.emit(Event{Kind: Joined, Rank: rank})
	go s.beat(p)
	for {
		conn.SetReadDeadline(time.Now().Add(s.cfg.Timing.Silence))
		var m Message
		err := readFrame(conn, &m, MaxFrame)
		if err == nil {
			err = m.check()
		}
		if err != nil {
			var ne net.Error
			if errors.As(err, &ne) && ne.Timeout() {
				err = fmt.Errorf("no heartbeat for %v", s.cfg.Timing.Silence)
			}
			s.emit(Event{Kind: Lost, Rank: rank, Err: err})
			return
		}
		if m.Type != typeBeat {
			s.emit(Event{Kind: Received, Rank: rank, Message: m})
		}
	}
}

// context ends with the server.
func (s *Server) context() context.Context { return doneContext{s.done} }

// doneContext is a context that a channel ends.
type doneContext struct{ done chan struct{} }

func (doneContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (d doneContext) Done() <-chan struct{}     { return d.done }
func (doneContext) Value(any) any               { return nil }
func (d doneContext) Err() error {
	select {
	case <-d.done:
		return context.Canceled
	default:
		return nil
	}
}

func (s *Server) emit(e Event) {
	select {
	case s.events <- e:
	case <-s.done:
	}
}

// handshake returns the joined peer, or nil after it has counted why not. Its deadline is for all of it, so that one
// byte a second does not keep a socket.
func (s *Server) handshake(conn net.Conn) (int, *peer) {
	conn.SetDeadline(time.Now().Add(s.cfg.Timing.Handshake))
	fail := func(err error) (int, *peer) {
		var ne net.Error
		slow := errors.As(err, &ne) && ne.Timeout()
		s.count(func(r *Rejected) {
			if slow {
				r.TooSlow++
			} else {
				r.Malformed++
			}
		})
		return 0, nil
	}
	var h hello
	if err := readFrame(conn, &h, maxHandshake); err != nil {
		return fail(err)
	}
	if len(h.Nonce) != nonceLen || len(h.Job) > 64 {
		return fail(ErrFrame)
	}
	nonce := newNonce()
	if err := writeFrame(conn, challenge{nonce}, maxHandshake); err != nil {
		return fail(err)
	}
	var p proof
	if err := readFrame(conn, &p, maxHandshake); err != nil {
		return fail(err)
	}
	if !hmac.Equal(p.MAC, mac(s.cfg.Token, "rank", h, nonce)) {
		s.count(func(r *Rejected) { r.WrongToken++ })
		return 0, nil
	}
	// From here on the peer knows the token, so it may hear the reason.
	me, why := s.admit(h, conn)
	writeFrame(conn, proof{MAC: mac(s.cfg.Token, "coordinator", h, nonce), Refuse: why}, maxHandshake)
	conn.SetDeadline(time.Time{})
	return h.Rank, me
}

// admit registers the rank, or says why it may not join.
func (s *Server) admit(h hello, conn net.Conn) (*peer, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case h.Job != s.cfg.Job:
		s.rejected.ForeignJob++
		if CheckJob(h.Job) == nil && len(s.foreign) < 8 && !slices.Contains(s.foreign, h.Job) {
			s.foreign = append(s.foreign, h.Job)
		}
		return nil, fmt.Sprintf("this is job %s, the rank belongs to job %s", s.cfg.Job, h.Job)
	case h.World != s.cfg.World:
		s.rejected.WrongWorld++
		return nil, fmt.Sprintf("the job has %d ranks, the rank expects %d", s.cfg.World, h.World)
	case h.Rank < 0 || h.Rank >= s.cfg.World:
		s.rejected.BadRank++
		return nil, fmt.Sprintf("rank %d is outside 0..%d", h.Rank, s.cfg.World-1)
	case s.peers[h.Rank] != nil:
		s.rejected.Duplicate++
		return nil, fmt.Sprintf("rank %d has joined already", h.Rank)
	}
	p := &peer{conn: conn}
	s.peers[h.Rank] = p
	return p, ""
}

// beat tells the rank once a second that the coordinator lives.
func (s *Server) beat(p *peer) {
	t := time.NewTicker(s.cfg.Timing.Beat)
	defer t.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-t.C:
			if s.write(p, Message{Type: typeBeat}) != nil {
				return
			}
		}
	}
}

func (s *Server) write(p *peer, m Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn.SetWriteDeadline(time.Now().Add(s.cfg.Timing.Silence))
	return writeFrame(p.conn, m, MaxFrame)
}

// Send sends a message to one rank.
func (s *Server) Send(rank int, m Message) error {
	s.mu.Lock()
	p := s.peers[rank]
	s.mu.Unlock()
	if p == nil {
		return fmt.Errorf("rank %d has not joined", rank)
	}
	return s.write(p, m)
}

// Broadcast sends a message to several ranks and returns the first error.
func (s *Server) Broadcast(ranks []int, m Message) error {
	var first error
	for _, r := range ranks {
		if err := s.Send(r, m); err != nil && first == nil {
			first = fmt.Errorf("rank %d: %w", r, err)
		}
	}
	return first
}
