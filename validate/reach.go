package validate

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"rankmap/internal/measured"
)

// Bounds of the test whether nodes reach each other.
const (
	reachFan   = 16              // connections that a node opens at once
	reachPeers = 63              // nodes that a node tries at most: its successors
	reachNodes = 512             // nodes of one round, so that their addresses fit into a message
	reachWait  = 3 * time.Second // for one connection
	clockSkew  = time.Second     // wall clocks further apart are reported
)

// target is a node that listens.
type target struct {
	Rank int    `json:"rank"` // its first
	Addr string `json:"addr"`
}

// unreached is an attempt that failed.
type unreached struct {
	Rank int    `json:"rank"`
	Why  string `json:"why"`
}

// wallNow is the wall clock that a rank tells; tests change it.
var wallNow = time.Now

// reachMAC proves the token to the other end and binds the answer to the node that was meant: two nodes with one address
// (docker0's 172.17.0.1) would otherwise look reachable.
func reachMAC(token []byte, role string, rank int, nonce []byte) []byte {
	m := hmac.New(sha256.New, token)
	m.Write([]byte("rankmap-reach-1 " + role))
	m.Write(binary.BigEndian.AppendUint64(nil, uint64(rank)))
	m.Write(nonce)
	return m.Sum(nil)
}

// reachListener answers those who know the token, on the interface that NCCL's bootstrap would take.
type reachListener struct {
	ln    net.Listener
	slots chan struct{}
}

func listenReach(addr string, token []byte, rank int) (*reachListener, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort(addr, "0"))
	if err != nil {
		return nil, err
	}
	l := &reachListener{ln: ln, slots: make(chan struct{}, 2*reachPeers)}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			select {
			case l.slots <- struct{}{}:
			default:
				c.Close()
				continue
			}
			go func() {
				defer func() { c.Close(); <-l.slots }()
				c.SetDeadline(time.Now().Add(reachWait))
				var ask [32 + sha256.Size]byte
				if _, err := io.ReadFull(c, ask[:]); err != nil {
					return
				}
				if hmac.Equal(ask[32:], reachMAC(token, "ask", rank, ask[:32])) {
					c.Write(reachMAC(token, "answer", rank, ask[:32]))
				}
			}()
		}
	}()
	return l, nil
}

// tryReach connects once and says why it did not work.
func tryReach(ctx context.Context, from string, to target, token []byte) error {
	ctx, cancel := context.WithTimeout(ctx, reachWait)
	defer cancel()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(ctx, "tcp", to.Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(reachWait))
	nonce := make([]byte, 32)
	rand.Read(nonce)
	if _, err := c.Write(append(nonce, reachMAC(token, "ask", to.Rank, nonce)...)); err != nil {
		return err
	}
	var answer [sha256.Size]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return fmt.Errorf("something else answers at this address: %w", err)
	}
	if !hmac.Equal(answer[:], reachMAC(token, "answer", to.Rank, nonce)) {
		return errors.New("another node answers at this address")
	}
	return nil
}

// whyNot puts a network error into words that tell a firewall from a missing program.
func whyNot(err error) string {
	var ne net.Error
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return fmt.Sprintf("the name cannot be resolved: %v", dns)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused: the host answers, but nothing listens there or a firewall rejects it"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to it: another subnet, or a firewall rejects it"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &ne) && ne.Timeout():
		return "no answer: a firewall drops it, or the route leads nowhere"
	}
	return err.Error()
}

// listen opens the listener of this rank's node.
func (w *worker) listenStep() (result, error) {
	r := result{WallNs: wallNow().UnixNano()}
	p, err := netip.ParsePrefix(w.orders.Net.Socket.Addr)
	if err != nil {
		return r, nil // no interface: the coordinator names it
	}
	w.reach, err = listenReach(p.Addr().String(), w.orders.Token, w.orders.Rank)
	if err != nil {
		return r, &problemError{"reach-listen", err}
	}
	r.Addr = w.reach.ln.Addr().String()
	return r, nil
}

// reachStep tries the nodes that follow this one.
func (w *worker) reachStep(s step) result {
	at := slices.IndexFunc(s.Targets, func(t target) bool { return t.Rank == w.orders.Rank })
	if at < 0 {
		return result{}
	}
	from, _, _ := net.SplitHostPort(s.Targets[at].Addr)
	n := len(s.Targets)
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		out  result
		slot = make(chan struct{}, reachFan)
	)
	for k := 1; k < n && k <= reachPeers; k++ {
		t := s.Targets[(at+k)%n]
		slot <- struct{}{}
		wg.Go(func() {
			defer func() { <-slot }()
			if err := tryReach(w.stop, from, t, w.orders.Token); err != nil {
				mu.Lock()
				out.Unreached = append(out.Unreached, unreached{t.Rank, clip(whyNot(err), 300)})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.SortFunc(out.Unreached, func(a, b unreached) int { return a.Rank - b.Rank })
	return out
}

// reach lets every node connect to the others over the interface that NCCL would take, and compares clocks on the way. Nodes
// are represented by their first rank.
func (s *session) reach(ctx context.Context) ([]measured.Finding, error) {
	hosts, lead := nodesOf(s.job.World(), s.facts)
	if len(hosts) < 2 {
		return nil, nil
	}
	var out []measured.Finding
	at := func(h string) NetFacts { return s.facts[lead[h]].Net }
	for from := 0; from < len(hosts); from += reachNodes {
		part := hosts[from:min(from+reachNodes, len(hosts))]
		var leads []int
		for _, h := range part {
			leads = append(leads, lead[h])
		}
		asked := wallNow()
		s.talk("reaching %d nodes over %s", len(part), at(part[0]).Socket.Name)
		res, err := s.do(ctx, leads, step{Do: doListen}, reachWait, "opening ports")
		if err != nil {
			return out, err
		}
		out = append(out, clocks(part, lead, res, asked, wallNow())...)
		var targets []target
		for _, h := range part {
			if a := res[lead[h]].Addr; a != "" {
				targets = append(targets, target{lead[h], a})
			} else {
				out = append(out, newFinding("unreachable", "%s has no interface that NCCL could take", h))
			}
		}
		rounds := time.Duration(min(len(targets), reachPeers)/reachFan + 1)
		res, err = s.do(ctx, leads, step{Do: doReach, Targets: targets}, rounds*2*reachWait, "reaching the other nodes")
		if err != nil {
			return out, err
		}
		hint := ""
		if name := commonIface(part, at); name != "" {
			hint = fmt.Sprintf("; all nodes have %s in one subnet: NCCL_SOCKET_IFNAME==%s", name, name)
		}
		for _, h := range part {
			for _, u := range res[lead[h]].Unreached {
				to := s.facts[u.Rank].Host
				out = append(out, newFinding("unreachable", "%s (%s %s) to %s (%s %s): %s%s", h, at(h).Socket.Name, at(h).Socket.Addr,
					to, at(to).Socket.Name, at(to).Socket.Addr, u.Why, hint))
			}
		}
	}
	return out[:min(len(out), 20)], nil
}

// clocks reports nodes whose wall clock is not the coordinator's. Nothing is measured by wall clocks; logs are harder to read.
func clocks(hosts []string, lead map[string]int, res map[int]result, asked, done time.Time) []measured.Finding {
	var off []string
	for _, h := range hosts {
		ns := res[lead[h]].WallNs
		if ns == 0 {
			continue
		}
		t := time.Unix(0, ns)
		var d time.Duration
		switch {
		case t.Before(asked.Add(-clockSkew)):
			d = t.Sub(asked.Round(0))
		case t.After(done.Add(clockSkew)):
			d = t.Sub(done.Round(0))
		default:
			continue
		}
		off = append(off, fmt.Sprintf("%s by %+.0f s", h, d.Seconds()))
	}
	if len(off) == 0 {
		return nil
	}
	return []measured.Finding{newFinding("clocks-differ", "%s", list(off))}
}
