package rendezvous

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

var token = []byte("0123456789abcdef0123456789abcdef")

func config(world int) Config {
	return Config{Job: "job-a", Token: token, World: world, Timing: Timing{Handshake: time.Second, Beat: 50 * time.Millisecond, Silence: 400 * time.Millisecond}}
}

func start(t testing.TB, cfg Config) *Server {
	t.Helper()
	ln, err := Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(ln, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func dial(t testing.TB, s *Server, cfg Config, rank int) (*Client, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c, err := Dial(ctx, s.Addr(), cfg, rank)
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

func next(t testing.TB, s *Server) Event {
	t.Helper()
	select {
	case e := <-s.Events():
		return e
	case <-time.After(3 * time.Second):
		t.Fatal("no event within 3 s")
		panic("unreachable")
	}
}

func TestJoinTalkLeave(t *testing.T) {
	s := start(t, config(2))
	var clients []*Client
	for r := range 2 {
		c, err := dial(t, s, config(2), r)
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
		if e := next(t, s); e.Kind != Joined || e.Rank != r {
			t.Fatalf("event %+v, want rank %d joined", e, r)
		}
	}
	type body struct {
		X int `json:"x"`
	}
	up, err := New(TypeResult, 7, body{42})
	if err != nil {
		t.Fatal(err)
	}
	if err := clients[1].Send(up); err != nil {
		t.Fatal(err)
	}
	e := next(t, s)
	var got body
	if err := e.Message.Into(&got); err != nil || e.Kind != Received || e.Rank != 1 || e.Message.Seq != 7 || got.X != 42 {
		t.Fatalf("event %+v, body %+v, %v", e, got, err)
	}
	down, _ := New(TypeBye, 0, nil)
	if err := s.Broadcast([]int{0, 1}, down); err != nil {
		t.Fatal(err)
	}
	for _, c := range clients {
		if m, err := c.Recv(); err != nil || m.Type != TypeBye {
			t.Fatalf("message %+v, %v", m, err)
		}
	}
	// Heartbeats keep a silent but living rank joined, past the silence limit.
	time.Sleep(600 * time.Millisecond)
	clients[0].Close()
	if e := next(t, s); e.Kind != Lost || e.Rank != 0 {
		t.Fatalf("event %+v, want rank 0 lost", e)
	}
	if r, _ := s.Rejected(); r.Total() != 0 {
		t.Errorf("rejected %+v", r)
	}
}

// T49: who knows the token but does not belong is told why; the job goes on.
func TestMisfits(t *testing.T) {
	s := start(t, config(2))
	if _, err := dial(t, s, config(2), 0); err != nil {
		t.Fatal(err)
	}
	next(t, s)
	foreign, world := config(2), config(3)
	foreign.Job = "job-b"
	for _, c := range []struct {
		name string
		cfg  Config
		rank int
		want string
	}{
		{"same rank twice", config(2), 0, "joined already"},
		{"extra rank", config(2), 2, "outside 0..1"},
		{"negative rank", config(2), -1, "outside"},
		{"foreign job", foreign, 1, "this is job job-a, the rank belongs to job job-b"},
		{"wrong world size", world, 1, "the job has 2 ranks"},
	} {
		_, err := dial(t, s, c.cfg, c.rank)
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := dial(t, s, config(2), 1); err != nil {
		t.Fatalf("the rank that belongs: %v", err)
	}
	if e := next(t, s); e.Kind != Joined || e.Rank != 1 {
		t.Errorf("event %+v", e)
	}
	r, jobs := s.Rejected()
	if r.Duplicate != 1 || r.BadRank != 2 || r.ForeignJob != 1 || r.WrongWorld != 1 || r.Total() != 5 || !slices.Equal(jobs, []string{"job-b"}) {
		t.Errorf("rejected %+v, jobs %v", r, jobs)
	}
}

// raw opens a plain connection and hands back what the server sends until it closes.
func raw(t *testing.T, s *Server, send []byte) (got []byte, took time.Duration) {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	c.Write(send)
	c.SetReadDeadline(time.Now().Add(4 * time.Second))
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		got = append(got, buf[:n]...)
		if err != nil {
			return got, time.Since(began)
		}
	}
}

func frame(v any) []byte {
	b, _ := json.Marshal(v)
	return append([]byte{byte(len(b) >> 24), byte(len(b) >> 16), byte(len(b) >> 8), byte(len(b))}, b...)
}

// T50: strangers learn nothing, are closed in time, and leave the job alone.
func TestStrangers(t *testing.T) {
	s := start(t, config(2))
	good := hello{Job: "job-a", Rank: 1, World: 2, Nonce: newNonce()}
	for _, c := range []struct {
		name   string
		send   []byte
		silent bool // not even a nonce comes back
	}{
		{"nothing", nil, true},
		{"HTTP", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), true},
		{"TLS hello", []byte{0x16, 3, 1, 0, 0xa5, 1, 0, 0, 0xa1, 3, 3}, true},
		{"1 GiB frame", []byte{0x40, 0, 0, 0, '{'}, true},
		{"empty frame", []byte{0, 0, 0, 0}, true},
		{"truncated frame", frame(good)[:20], true},
		{"not JSON", append([]byte{0, 0, 0, 4}, "abcd"...), true},
		{"unknown field", frame(map[string]any{"job": "job-a", "rank": 1, "world": 2, "nonce": newNonce(), "more": 1}), true},
		{"short nonce", frame(hello{Job: "job-a", Rank: 1, World: 2, Nonce: []byte("x")}), true},
		{"two values", append([]byte{0, 0, 0, 4}, "{}{}"...), true},
		{"hello and silence", frame(good), false},
		{"wrong proof", append(frame(good), frame(proof{MAC: make([]byte, 32)})...), false},
		{"empty proof", append(frame(good), frame(proof{})...), false},
	} {
		got, took := raw(t, s, c.send)
		if c.silent && len(got) > 0 {
			t.Errorf("%s: got %q, want nothing", c.name, got)
		}
		if !c.silent && (len(got) == 0 || strings.Contains(string(got), "mac") || len(got) > 100) {
			t.Errorf("%s: got %q, want one nonce", c.name, got)
		}
		if took > 2*time.Second {
			t.Errorf("%s: closed after %v", c.name, took)
		}
	}
	r, _ := s.Rejected()
	if r.WrongToken != 2 || r.Malformed+r.TooSlow != 11 || r.TooSlow < 2 {
		t.Errorf("rejected %+v", r)
	}
	if _, err := dial(t, s, config(2), 1); err != nil {
		t.Fatalf("the job does not go on: %v", err)
	}
}

// A wrong token is refused without a word, and a recorded handshake is worth nothing.
func TestWrongTokenAndReplay(t *testing.T) {
	s := start(t, config(2))
	bad := config(2)
	bad.Token = []byte("ffffffffffffffffffffffffffffffff")
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, s.Addr(), bad, 0); err == nil || !strings.Contains(err.Error(), "did not accept the token") {
		t.Errorf("error %v", err)
	}
	// A stranger in the middle records a good hello and proof ...
	h := hello{Job: "job-a", Rank: 0, World: 2, Nonce: newNonce()}
	recorded := proof{MAC: mac(token, "rank", h, newNonce())}
	// ... and plays them back: the coordinator's nonce is another one.
	raw(t, s, append(frame(h), frame(recorded)...))
	r, _ := s.Rejected()
	if r.WrongToken < 2 {
		t.Errorf("rejected %+v", r)
	}
}

// A false coordinator that does not know the token is noticed by the rank.
func TestFalseCoordinator(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			var h hello
			var p proof
			readFrame(c, &h, maxHandshake)
			writeFrame(c, challenge{newNonce()}, maxHandshake)
			readFrame(c, &p, maxHandshake)
			writeFrame(c, proof{MAC: p.MAC}, maxHandshake) // reflects the rank's own proof
			c.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, ln.Addr().String(), config(2), 0); err == nil || !strings.Contains(err.Error(), "does not know the token") {
		t.Errorf("error %v", err)
	}
}

// One byte a second does not keep a socket beyond the handshake's limit.
func TestSlowloris(t *testing.T) {
	s := start(t, config(2))
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	for _, b := range frame(hello{Job: "job-a", Nonce: newNonce()}) {
		if _, err := c.Write([]byte{b}); err != nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
		if time.Since(began) > 3*time.Second {
			t.Fatal("still open after 3 s")
		}
	}
	if r, _ := s.Rejected(); r.TooSlow != 1 {
		t.Errorf("rejected %+v", r)
	}
}

// Ten thousand connections: at most 2 x world are open, memory stays flat, the rank that belongs gets in.
func TestManyConnections(t *testing.T) {
	cfg := config(2)
	s := start(t, cfg)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n := 10000
	if testing.Short() {
		n = 500
	}
	open := make([]net.Conn, 0, 64)
	for i := range n {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			continue
		}
		if i%400 == 0 { // some stay and say nothing
			open = append(open, c)
			continue
		}
		c.Close()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	r, _ := s.Rejected()
	if r.TooMany == 0 || r.Total() < n/2 {
		t.Errorf("rejected %+v", r)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := Dial(ctx, s.Addr(), cfg, 0)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	for _, c := range open {
		c.Close()
	}
}

// A stopped rank sends no heartbeat and is lost; a dead coordinator is noticed by the rank.
func TestSilence(t *testing.T) {
	cfg := config(1)
	s := start(t, cfg)
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := join(conn, cfg, 0); err != nil { // joins, then never says a word
		t.Fatal(err)
	}
	next(t, s)
	began := time.Now()
	e := next(t, s)
	if e.Kind != Lost || !strings.Contains(e.Err.Error(), "no heartbeat") || time.Since(began) > 2*cfg.Timing.Silence {
		t.Errorf("event %+v after %v", e, time.Since(began))
	}

	s2 := start(t, cfg)
	c, err := dial(t, s2, cfg, 0)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, s2.Close)
	if _, err := c.Recv(); err == nil || !strings.Contains(err.Error(), "the coordinator is gone") {
		t.Errorf("error %v", err)
	}
}

// A joined rank that sends rubbish is lost, not believed.
func TestRubbishAfterJoining(t *testing.T) {
	for _, send := range [][]byte{
		frame(map[string]any{"type": "launch-missiles"}),
		{0xff, 0xff, 0xff, 0xff},
		frame(map[string]any{"type": "note", "shell": "rm"}),
	} {
		cfg := config(1)
		s := start(t, cfg)
		conn, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if err := join(conn, cfg, 0); err != nil {
			t.Fatal(err)
		}
		next(t, s)
		conn.Write(send)
		if e := next(t, s); e.Kind != Lost || !errors.Is(e.Err, ErrFrame) {
			t.Errorf("%q: event %+v", send, e)
		}
		conn.Close()
	}
}

func TestListenBindsExactly(t *testing.T) {
	for addr, want := range map[string]string{
		"0.0.0.0:0": "listens everywhere", "[::]:0": "listens everywhere", ":0": "numeric address", "localhost:0": "numeric address",
		"127.0.0.1": "missing port", "203.0.113.9:0": "cannot listen",
	} {
		if ln, err := Listen(context.Background(), addr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", addr, err, want)
			if ln != nil {
				ln.Close()
			}
		}
	}
	ln, err := Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if _, err := Listen(context.Background(), ln.Addr().String()); err == nil || !strings.Contains(err.Error(), ln.Addr().String()) {
		t.Errorf("a port taken twice: %v", err)
	}
}

func TestConfigCheck(t *testing.T) {
	ln, err := Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, c := range []Config{
		{Job: "j", Token: []byte("short"), World: 1}, {Job: "j", Token: token}, {Job: "../x", Token: token, World: 1}, {Job: "", Token: token, World: 1},
	} {
		if _, err := NewServer(ln, c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
		if _, err := Dial(context.Background(), ln.Addr().String(), c, 0); err == nil {
			t.Errorf("%+v was accepted by a rank", c)
		}
	}
}

// The MAC covers everything that is said: any change gives another one.
func TestMACBindsAllFields(t *testing.T) {
	h := hello{Job: "job-a", Rank: 1, World: 2, Nonce: make([]byte, nonceLen)}
	nonce := make([]byte, nonceLen)
	base := fmt.Sprintf("%x", mac(token, "rank", h, nonce))
	other := slices.Clone(nonce)
	other[0] = 1
	h2, h3, h4, h5 := h, h, h, h
	h2.Job, h3.Rank, h4.World, h5.Nonce = "job-b", 2, 3, other
	seen := map[string]bool{base: true}
	for i, m := range [][]byte{
		mac(token, "coordinator", h, nonce), mac(append(slices.Clone(token), 'x'), "rank", h, nonce), mac(token, "rank", h2, nonce),
		mac(token, "rank", h3, nonce), mac(token, "rank", h4, nonce), mac(token, "rank", h5, nonce), mac(token, "rank", h, other),
	} {
		k := fmt.Sprintf("%x", m)
		if seen[k] {
			t.Errorf("change %d gives the same MAC", i)
		}
		seen[k] = true
	}
	if len(NewToken()) != 32 {
		t.Error("token length")
	}
}

func TestFrameLimits(t *testing.T) {
	var b strings.Builder
	big, _ := New(TypeNote, 0, strings.Repeat("x", MaxFrame))
	if err := writeFrame(&b, big, MaxFrame); !errors.Is(err, ErrFrame) || b.Len() != 0 {
		t.Errorf("error %v, %d bytes written", err, b.Len())
	}
	if err := (Message{Type: "other"}).check(); !errors.Is(err, ErrFrame) {
		t.Errorf("error %v", err)
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add(frame(hello{Job: "job-a", Rank: 1, World: 2, Nonce: newNonce()}))
	f.Add(frame(Message{Type: TypeNote}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h hello
		r := strings.NewReader(string(b))
		if readFrame(r, &h, maxHandshake); len(b)-r.Len() > 4+maxHandshake {
			t.Error("read more than the limit")
		}
		var m Message
		if err := readFrame(strings.NewReader(string(b)), &m, MaxFrame); err == nil {
			var out strings.Builder
			if err := writeFrame(&out, m, MaxFrame*8); err != nil {
				t.Errorf("a message that was read cannot be written: %v", err)
			}
		}
	})
}
