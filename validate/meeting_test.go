package validate

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"rankmap/internal/parallel"
	"rankmap/validate/rendezvous"
)

// T47 on one host: a taken port, an address of another host, IPv6, an unknown name.
func TestRendezvousAddresses(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, c := range []struct {
		name, addr, finding string
		words               []string
	}{
		{"taken", ln.Addr().String(), "port-taken", []string{"address already in use", fmt.Sprintf("process %d", os.Getpid())}},
		{"another host's", "192.0.2.1:29481", "address-elsewhere", []string{"192.0.2.1"}},
		{"everywhere", "0.0.0.0:29481", "start-failed", []string{"listens everywhere"}},
		{"no such name", "no.such.host.invalid:29481", "name-unknown", []string{"no.such.host.invalid"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options(t, tpJob(2, 4096))
			o.Launched = &Launched{Place: Place{World: 2}, Address: c.addr, Token: []byte("0123456789abcdef"), JobID: "j"}
			rep := runFake(t, o)
			wantExit(t, rep, exitEnvironment)
			wantFinding(t, rep, c.finding, c.words...)
		})
	}
	t.Run("IPv6", func(t *testing.T) {
		six, err := net.Listen("tcp", "[::1]:0")
		if err != nil {
			t.Skip("no IPv6 on the loopback")
		}
		addr := six.Addr().String()
		six.Close()
		rep, _ := launch(t, 2, "VALIDATE_TEST_ADDR="+addr)
		wantExit(t, rep, exitOK)
	})
}

// T48: 31 of 32 join. The message repeats who is missing, the deadline ends it, the port is free afterwards.
func TestOneNeverJoins(t *testing.T) {
	ctx := context.Background()
	ln, err := rendezvous.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := rendezvous.Config{Job: "j", Token: []byte("0123456789abcdef"), World: 32}
	server, err := rendezvous.NewServer(ln, cfg)
	if err != nil {
		t.Fatal(err)
	}
	job := ranksJob(32)
	for r := range job.Ranks {
		job.Ranks[r].Host = fmt.Sprintf("n%d", r/8)
	}
	d := quick()
	d.Join, d.JoinReport = 1200*time.Millisecond, 300*time.Millisecond
	var said []string
	s := newSession(job, d, server, make(chan exited), func(f string, a ...any) { said = append(said, fmt.Sprintf(f, a...)) })
	for r := range 32 {
		if r == 29 {
			continue
		}
		go rendezvous.Dial(ctx, server.Addr(), cfg, r)
	}
	err = s.join(ctx)
	f, ok := err.(*failure)
	if !ok || f.finding != "join-deadline" || f.rank != 29 || !strings.Contains(f.detail, "rank 29 (n3)") || findings[f.finding].exit != exitDeadline {
		t.Errorf("error %+v", err)
	}
	if len(said) < 2 || !strings.Contains(said[0], "waiting for rank 29 (n3) (31 of 32") {
		t.Errorf("said %q", said)
	}
	server.Close()
	again, err := net.Listen("tcp", server.Addr())
	if err != nil {
		t.Fatalf("the port is still taken: %v", err)
	}
	again.Close()
}

// T49 with processes: a copy of another job, and a rank twice, are turned away; the run goes on.
func TestExtraCopies(t *testing.T) {
	o := options(t, tpJob(2, 4096, 8192))
	o.Talk = func(f string, a ...any) {
		var addr string
		if n, _ := fmt.Sscanf(fmt.Sprintf(f, a...), "starting 2 of 2 ranks, rendezvous at %s", &addr); n == 0 {
			return
		}
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			cfg := rendezvous.Config{Job: "other", Token: o.Launched.Token, World: 2}
			rendezvous.Dial(ctx, addr, cfg, 1)
			cfg.Job, cfg.World = o.Launched.JobID, 3
			rendezvous.Dial(ctx, addr, cfg, 2)
		}()
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	o.Launched = &Launched{Place: Place{World: 1}, PerNode: true, Address: ln.Addr().String(), Token: []byte("0123456789abcdef"), JobID: "mine"}
	rep := runFake(t, o)
	wantExit(t, rep, exitOK)
	if rep.Rejected == nil || rep.Rejected.ForeignJob != 1 || rep.Rejected.WrongWorld != 1 {
		t.Errorf("rejected %+v", rep.Rejected)
	}
	wantFinding(t, rep, "foreign-job", "other")
}

// T54: what a node lacks is found before anything starts.
func TestNodeLimits(t *testing.T) {
	ok := Host{Name: "here", ShmTotal: 8 << 30, ShmFree: 8 << 30, KnownSHM: true, NoFile: 1 << 20}
	for _, c := range []struct {
		finding string
		exit    int
		change  func(*Host)
	}{
		{"shm-small", exitOK, func(h *Host) { h.ShmTotal, h.ShmFree = 64<<20, 64<<20 }},
		{"shm-full", exitEnvironment, func(h *Host) { h.ShmTotal, h.ShmFree = 64<<20, 1<<20 }},
		{"memlock", exitEnvironment, func(h *Host) { h.KnownLock, h.Memlock, h.RDMA = true, 64<<10, true }},
		{"files-few", exitEnvironment, func(h *Host) { h.NoFile = 64 }},
		{"files-few-warning", exitOK, func(h *Host) { h.NoFile = 512 }},
		{"tmp-unwritable", exitEnvironment, func(h *Host) { h.TmpError = "read-only file system" }},
	} {
		h := ok
		c.change(&h)
		_, fs, _ := Preflight(context.Background(), fakeDriver{}, h, ranksJob(2).Ranks, "", false, false)
		if len(fs) != 1 || fs[0].ID != c.finding || exitOf(fs[0]) != c.exit {
			t.Errorf("%s: %+v", c.finding, fs)
		}
	}
	// The same with a real limit, in a process of its own.
	exe, _ := os.Executable()
	cmd := exec.Command("sh", "-c", `ulimit -n 64 && exec "$0"`, exe)
	cmd.Env = copyEnv(t, tpJob(2, 4096), "RANK=0", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "VALIDATE_TEST_JOIN=1s", "TMPDIR=/nonexistent")
	out, _ := cmd.Output()
	for _, want := range []string{"files-few", "tmp-unwritable"} {
		if !strings.Contains(string(out), want) || cmd.ProcessState.ExitCode() != exitEnvironment {
			t.Errorf("exit code %d, report lacks %s: %s", cmd.ProcessState.ExitCode(), want, out)
		}
	}
}

// slowWire passes bytes on 200 ms later, and every tenth piece a second later, as a network does that loses packets.
func slowWire(t *testing.T, to string) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	pass := func(dst, src net.Conn) {
		defer dst.Close()
		type piece struct {
			at time.Time
			b  []byte
		}
		ch := make(chan piece, 1024)
		var once sync.Once
		go func() {
			defer once.Do(func() { close(ch) })
			for n := 1; ; n++ {
				b := make([]byte, 4096)
				k, err := src.Read(b)
				if err != nil {
					return
				}
				late := 200 * time.Millisecond
				if n%10 == 0 {
					late += 800 * time.Millisecond
				}
				ch <- piece{time.Now().Add(late), b[:k]}
			}
		}()
		for p := range ch {
			time.Sleep(time.Until(p.at))
			if _, err := dst.Write(p.b); err != nil {
				src.Close()
				io.Copy(io.Discard, src)
				return
			}
		}
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				continue
			}
			go pass(up, c)
			go pass(c, up)
		}
	}()
	return ln.Addr().String()
}

// T55: the rendezvous over a slow wire is slow and succeeds.
func TestSlowWire(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	addr := ln.Addr().String()
	rep, codes := launch(t, 2, "VALIDATE_TEST_ADDR="+addr, "VALIDATE_TEST_ADDR_1="+slowWire(t, addr))
	wantExit(t, rep, exitOK)
	if fmt.Sprint(codes) != "[0 0]" || len(rep.Groups) != 1 || rep.Groups[0].Times.MedianUs > 1e5 {
		t.Errorf("exit codes %v, rows %+v", codes, rep.Groups)
	}
	t.Logf("%.1f s", rep.Seconds)
}

// T55 with the kernel's own delay and loss, where it has netem.
func TestLossyNetwork(t *testing.T) {
	h := newHosts(t, 2)
	for i := range 2 {
		if out, err := exec.Command("ip", "netns", "exec", h.ns(i), "tc", "qdisc", "add", "dev", "eth0", "root", "netem", "delay", "100ms", "loss", "10%").CombinedOutput(); err != nil {
			t.Skipf("skipped: this kernel has no netem, TestSlowWire stands for it: %s", out)
		}
	}
	run := startNodes(t, h, twoNodes(1), nil)
	run.end()
	if rep := run.report(); rep.ExitCode != exitOK && rep.ExitCode != exitDeadline {
		t.Errorf("exit code %d: %s", rep.ExitCode, rep.Cause)
	}
}

// A slow rail, a slow node and a slow path between two nodes are told apart.
func TestBlameOverNodes(t *testing.T) {
	job := twoNodes(2)
	job.Groups = append(job.Groups, JobGroup{Kind: parallel.EP, Members: seq(0, 4)})
	fs := map[int]facts{}
	for r := range 4 {
		fs[r] = facts{Host: job.Ranks[r].Host}
	}
	rails := railsOf(job, fs)
	if fmt.Sprint(rails) != "[{0 [0 2]} {1 [1 3]}]" {
		t.Errorf("rails %v", rails)
	}
	host := func(r int) string { return fmt.Sprintf("n%d", r/2) }
	members := seq(0, 6)
	times := func(slow func(a, b int) bool) [2]map[direction]float64 {
		m := map[direction]float64{}
		for a := range members {
			for b := range members {
				switch {
				case a == b:
				case host(a) == host(b):
					m[direction{a, b}] = 10
				case slow(a, b):
					m[direction{a, b}] = 400
				default:
					m[direction{a, b}] = 100
				}
			}
		}
		return [2]map[direction]float64{m, m}
	}
	for _, c := range []struct {
		name, id, who string
		slow          func(a, b int) bool
	}{
		{"none: the network is slower than NVLink, no more", "", "", func(a, b int) bool { return false }},
		{"node 2", "slow-node", "n2", func(a, b int) bool { return host(a) == "n2" || host(b) == "n2" }},
		{"between 0 and 1", "slow-nodes", "between n0 and n1", func(a, b int) bool { return host(a) != "n2" && host(b) != "n2" }},
		{"one rank", "", "", func(a, b int) bool { return a == 3 || b == 3 }},
	} {
		bad := slowPairs(times(c.slow), host)
		if id, who := slowNodes(bad, members, host); id != c.id || who != c.who {
			t.Errorf("%s: %s %s of %v", c.name, id, who, bad)
		}
		if c.name == "one rank" {
			if m, ok := commonMember(bad, members); !ok || m != 3 {
				t.Errorf("one rank: %d of %v", m, bad)
			}
		}
	}
}

// A rail that is slow in the stand-in is named.
func TestSlowRail(t *testing.T) {
	h := newHosts(t, 2)
	job := twoNodes(3)
	run := startNodes(t, h, job, nil, "FAKE_NCCL_SLOW=1-4:4")
	run.end()
	rep := run.report()
	wantExit(t, rep, exitBelow)
	wantFinding(t, rep, "slow-rail", "rail 1 between n0 and n1", "ranks 1 and 4")
}
