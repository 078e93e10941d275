package rendezvous

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// ErrRefused is the coordinator's answer to a rank that proved the token but may not join.
var ErrRefused = errors.New("refused by the coordinator")

// Client is a rank's side.
type Client struct {
	conn   net.Conn
	timing Timing
	mu     sync.Mutex
	done   chan struct{}
	once   sync.Once
}

// Dial joins a job as one rank. It tries again while nobody listens or the connection is dropped unanswered, until ctx ends;
// a refusal is final.
func Dial(ctx context.Context, addr string, cfg Config, rank int) (*Client, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.Timing = cfg.Timing.orDefault()
	pause := 50 * time.Millisecond
	for {
		c, err := dialOnce(ctx, addr, cfg, rank)
		if err == nil || errors.Is(err, ErrRefused) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("rank %d cannot join the job at %s: %w", rank, addr, err)
		case <-time.After(pause):
			pause = min(2*pause, time.Second)
		}
	}
}

func dialOnce(ctx context.Context, addr string, cfg Config, rank int) (*Client, error) {
	d := net.Dialer{Timeout: cfg.Timing.Handshake}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if err := join(conn, cfg, rank); err != nil {
		conn.Close()
		return nil, err
	}
	c := &Client{conn: conn, timing: cfg.Timing, done: make(chan struct{})}
	go c.beat()
	return c, nil
}

func join(conn net.Conn, cfg Config, rank int) error {
	conn.SetDeadline(time.Now().Add(cfg.Timing.Handshake))
	h := hello{Job: cfg.Job, Rank: rank, World: cfg.World, Nonce: newNonce()}
	if err := writeFrame(conn, h, maxHandshake); err != nil {
		return err
	}
	var ch challenge
	if err := readFrame(conn, &ch, maxHandshake); err != nil {
		return fmt.Errorf("the coordinator closed the connection (too many sockets, or another program listens there): %w", err)
	}
	if len(ch.Nonce) != nonceLen {
		return ErrFrame
	}
	if err := writeFrame(conn, proof{MAC: mac(cfg.Token, "rank", h, ch.Nonce)}, maxHandshake); err != nil {
		return err
	}
	var p proof
	if err := readFrame(conn, &p, maxHandshake); err != nil {
		return fmt.Errorf("the coordinator did not accept the token: %w", err)
	}
	if !hmac.Equal(p.MAC, mac(cfg.Token, "coordinator", h, ch.Nonce)) {
		return errors.New("the coordinator does not know the token: another program listens there")
	}
	if p.Refuse != "" {
		return fmt.Errorf("%w: %s", ErrRefused, p.Refuse)
	}
	conn.SetDeadline(time.Time{})
	return nil
}

func (c *Client) beat() {
	t := time.NewTicker(c.timing.Beat)
	defer t.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-t.C:
			if c.Send(Message{Type: typeBeat}) != nil {
				return
			}
		}
	}
}

// Send sends a message to the coordinator.
func (c *Client) Send(m Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn.SetWriteDeadline(time.Now().Add(c.timing.Silence))
	return writeFrame(c.conn, m, MaxFrame)
}

// Recv waits for the next message. An error means that the coordinator is gone: silent for too long, or closed.
func (c *Client) Recv() (Message, error) {
	for {
		c.conn.SetReadDeadline(time.Now().Add(c.timing.Silence))
		var m Message
		if err := readFrame(c.conn, &m, MaxFrame); err != nil {
			return m, fmt.Errorf("the coordinator is gone: %w", err)
		}
		if err := m.check(); err != nil {
			return m, err
		}
		if m.Type != typeBeat {
			return m, nil
		}
	}
}

// Close leaves the job.
func (c *Client) Close() {
	c.once.Do(func() { close(c.done); c.conn.Close() })
}
