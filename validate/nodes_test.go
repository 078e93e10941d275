package validate

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rankmap/internal/measured"
)

// sysfs writes a tree with RDMA devices, "mlx5_0 400 InfiniBand ACTIVE 4096".
func sysfs(t *testing.T, devs ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, d := range devs {
		var name, link, state string
		var gbps, mtu int
		fmt.Sscan(d, &name, &gbps, &link, &state, &mtu)
		port := filepath.Join(root, "class/infiniband", name, "ports/1")
		net := filepath.Join(root, "class/infiniband", name, "device/net/eth9")
		for _, p := range []string{port, net} {
			if err := os.MkdirAll(p, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for file, text := range map[string]string{
			port + "/rate": fmt.Sprintf("%d Gb/sec (4X NDR)", gbps), port + "/link_layer": link, port + "/state": "4: " + state, net + "/mtu": fmt.Sprint(mtu),
		} {
			if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

// T39: 8 ranks on 2 hosts, every group kind alone and all at once, rails, transports.
func TestTwoHosts(t *testing.T) {
	h := newHosts(t, 2)
	sys := sysfs(t, "mlx5_0 400 InfiniBand ACTIVE 4092", "mlx5_1 400 InfiniBand ACTIVE 4092")
	job := twoNodes(4)
	for r := range job.Ranks {
		job.Ranks[r].NICs = []string{fmt.Sprintf("%s/mlx5_0", job.Ranks[r].Host)}
	}
	c := startNodes(t, h, job, nil, "FAKE_NCCL_NET=mlx5_0/GDRDMA", "VALIDATE_TEST_SYS="+sys)
	codes := c.end()
	rep := c.report()
	wantExit(t, rep, exitOK)
	if fmt.Sprint(codes) != "[0 0]" || strings.Join(rep.Environment.Hosts, " ") != "n0 n1" || len(rep.Groups) != 2+4 || len(rep.Siblings) != 2+4 {
		t.Errorf("codes %v, hosts %v, %d rows, %d with siblings\n%s", codes, rep.Environment.Hosts, len(rep.Groups), len(rep.Siblings), c.said[0])
	}
	tests := map[string]int{}
	for _, p := range rep.Pairs {
		tests[p.Test]++
	}
	if tests[measured.TestRail] != 8 || tests[measured.TestRails] != 8 {
		t.Errorf("pairs %v", tests)
	}
	for _, g := range rep.Groups {
		if want := map[string]int{"tp": 1, "dp": 2}[g.Kind]; g.Nodes != want || g.Verdict != measured.VerdictPass {
			t.Errorf("row %+v", g)
		}
	}
	if e := rep.Environment; e.NICs != 2 || e.NICGbps != 400 || e.Fabric != "InfiniBand" || rep.Transports["NET/IB/GDRDMA"] != 8 {
		t.Errorf("environment %+v, transports %v", e, rep.Transports)
	}
	wantFinding(t, rep, "interfaces", "n0: eth0 10.86.0.1/24", "n1: eth0")
	noFinding(t, rep, "unreachable", "clocks-differ", "gpu-cloned", "other-nic", "no-gdr", "net-socket")
}

func noFinding(t *testing.T, rep *measured.Report, none ...string) {
	t.Helper()
	for _, id := range ids(rep) {
		if slices.Contains(none, id) {
			t.Errorf("finding %s: %+v", id, rep.Findings)
		}
	}
}

// T44, T45, T46, T53: what differs between hosts is found before NCCL starts.
func TestHostsDiffer(t *testing.T) {
	h := newHosts(t, 2)
	one, two := sysfs(t, "mlx5_0 400 InfiniBand ACTIVE 4092"), sysfs(t, "mlx5_0 400 InfiniBand ACTIVE 4092", "mlx5_1 400 InfiniBand ACTIVE 4092")
	roce, down := sysfs(t, "mlx5_0 400 Ethernet ACTIVE 9000"), sysfs(t, "mlx5_0 400 InfiniBand ACTIVE 2048", "mlx5_1 400 InfiniBand DOWN 4092")
	half := sysfs(t, "mlx5_0 200 InfiniBand ACTIVE 4092")
	plugin := t.TempDir()
	if err := os.WriteFile(filepath.Join(plugin, "libnccl-net.so"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	sys := func(a, b string) func(int) []string {
		return func(i int) []string { return []string{"VALIDATE_TEST_SYS=" + []string{a, b}[i]} }
	}
	on1 := func(env ...string) func(int) []string {
		return func(i int) []string {
			if i == 1 {
				return env
			}
			return nil
		}
	}
	for _, c := range []struct {
		name    string
		own     func(int) []string
		env     string
		finding string
		words   []string
		exit    int
	}{
		{"count of NICs", sys(one, two), "", "nics-differ", []string{"1 x 400 Gb/s InfiniBand on n0", "2 x 400 Gb/s InfiniBand on n1"}, exitEnvironment},
		{"rate", sys(one, half), "", "nics-differ", []string{"200 Gb/s InfiniBand on n1"}, exitEnvironment},
		{"link layer", sys(one, roce), "", "nics-differ", []string{"400 Gb/s Ethernet on n1"}, exitEnvironment},
		{"allowed", sys(one, two), "NCCL_IGNORE_NET_MISMATCH=1", "nics-differ-allowed", nil, exitOK},
		{"the same after NCCL_IB_HCA", sys(one, two), "NCCL_IB_HCA==mlx5_0", "interfaces", nil, exitOK},
		{"MTU and a port down", sys(one, down), "", "mtu-differ", []string{"2048 on n1"}, exitOK},
		{"NCCL's version", on1("FAKE_NCCL_VERSION=23003"), "", "nccl-versions", []string{"23003", "n1"}, exitEnvironment},
		{"net plugin", on1("LD_LIBRARY_PATH=" + fakeLibs(t) + ":" + plugin), "", "net-plugins", []string{"libnccl-net.so (1 bytes) on n1"}, exitEnvironment},
		{"clock an hour ahead", on1("VALIDATE_TEST_CLOCK=1h"), "", "clocks-differ", []string{"n1 by +3600 s"}, exitOK},
		{"clock an hour behind", on1("VALIDATE_TEST_CLOCK=-1h"), "", "clocks-differ", []string{"n1 by -3600 s"}, exitOK},
		{"interfaces that exist nowhere", on1("NCCL_SOCKET_IFNAME=ib"), "", "unreachable", []string{"n1 has no interface"}, exitEnvironment},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := twoNodes(1)
			run := startNodes(t, h, job, c.own, c.env)
			run.end()
			rep := run.report()
			wantExit(t, rep, c.exit)
			wantFinding(t, rep, c.finding, c.words...)
			if started := strings.Contains(run.said[0].String(), "creating communicators"); started != (c.exit == exitOK) {
				t.Errorf("NCCL started: %v", started)
			}
			for _, g := range rep.Groups {
				if !(g.Times.MedianUs > 0 && g.Times.MedianUs < 1e6) {
					t.Errorf("row %+v", g)
				}
			}
		})
	}
	t.Run("the same GPU on both", func(t *testing.T) {
		job := twoNodes(1)
		job.Ranks[1].GPU = 0
		run := startNodes(t, h, job, nil)
		run.end()
		rep := run.report()
		wantExit(t, rep, exitOK)
		wantFinding(t, rep, "gpu-cloned", "n0", "n1")
	})
}

// T47: a firewall that drops, one that rejects, and one that lets only the rendezvous through.
func TestFirewalls(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil {
		need(t, "nft is missing")
	}
	h := newHosts(t, 2, "10.86.0.2 both", "10.86.0.1 both")
	rule := func(text string) {
		h.do(0, "nft", "flush", "ruleset")
		h.do(0, "nft", "add table inet f; add chain inet f in { type filter hook input priority 0; }; add rule inet f in "+text)
	}
	for _, c := range []struct{ name, rule, word string }{
		{"drop", "iif eth0 drop", "no answer: a firewall drops it"},
		{"reject", "iif eth0 reject with tcp reset", "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "reject" {
				c.rule = "iif eth0 meta l4proto tcp reject with tcp reset"
			}
			rule(c.rule)
			run := startNodes(t, h, twoNodes(1), nil, "VALIDATE_TEST_JOIN=2500ms")
			codes := run.end()
			rep := run.report()
			wantExit(t, rep, exitDeadline)
			wantFinding(t, rep, "join-deadline", "rank 1 (n1)")
			if said := run.said[1].String(); codes[1] != exitDeadline || !strings.Contains(said, c.word) {
				t.Errorf("exit codes %v; rank 1 says %s", codes, said)
			}
		})
	}
	t.Run("only the rendezvous is open", func(t *testing.T) {
		rule(fmt.Sprintf("iif eth0 tcp dport != %d ct state new drop", DefaultPort))
		run := startNodes(t, h, twoNodes(1), nil)
		run.end()
		rep := run.report()
		wantExit(t, rep, exitEnvironment)
		wantFinding(t, rep, "unreachable", "n1 (eth0 10.86.0.2/24) to n0 (eth0 10.86.0.1/24)", "no answer")
	})
	t.Run("a name with two addresses", func(t *testing.T) {
		h.do(0, "nft", "flush", "ruleset")
		run := startNodes(t, h, twoNodes(1), nil, "MASTER_ADDR=both")
		run.end()
		wantExit(t, run.report(), exitOK)
	})
}

// T51: the coordinator's node dies; the other node's copy and ranks end by themselves.
func TestCoordinatorDies(t *testing.T) {
	h := newHosts(t, 2)
	run := startNodes(t, h, twoNodes(2), nil, "FAKE_NCCL_FAULT=hang:collective:*,hang:abort:*", "FAKE_NCCL_IGNORE_TERM=1")
	run.waitFor(0, "creating communicators")
	time.Sleep(300 * time.Millisecond)
	killed := time.Now()
	run.cmds[0].Process.Kill()
	codes := run.end()
	if d := time.Since(killed); d > 10*time.Second || codes[1] != exitPartial {
		t.Errorf("exit codes %v, %v after the kill; rank 1's copy says %s", codes, d, run.said[1])
	}
	if !strings.Contains(run.said[1].String(), "lost the coordinator") {
		t.Errorf("the other copy says %s", run.said[1])
	}
	noRanks(t, "VALIDATE_TEST_JOB="+strings.TrimPrefix(run.cmds[0].Env[2], "VALIDATE_TEST_JOB="))
}

// A node's cable is pulled while all wait in a collective.
func TestNodeUnreachable(t *testing.T) {
	h := newHosts(t, 2)
	run := startNodes(t, h, twoNodes(1), nil, "FAKE_NCCL_FAULT=hang:collective:*")
	run.waitFor(0, "creating communicators")
	pulled := time.Now()
	if out, err := exec.Command("ip", "-n", h.ns(1), "link", "set", "eth0", "down").CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	codes := run.end()
	rep := run.report()
	wantExit(t, rep, exitDeadline)
	wantFinding(t, rep, "rank-silent", "rank 1")
	if d := time.Since(pulled); d > 12*time.Second || codes[1] == 0 {
		t.Errorf("exit codes %v after %v", codes, d)
	}
}

// T52 over nodes: Ctrl-C and SIGTERM at the leading copy end all.
func TestSignalsOverNodes(t *testing.T) {
	h := newHosts(t, 2)
	for sig, exit := range map[syscall.Signal]int{syscall.SIGINT: exitInterrupted, syscall.SIGTERM: exitTerminated} {
		run := startNodes(t, h, twoNodes(1), nil, "FAKE_NCCL_FAULT=hang:collective:*")
		run.waitFor(0, "creating communicators")
		run.cmds[0].Process.Signal(sig)
		codes := run.end()
		wantExit(t, run.report(), exit)
		if codes[0] != exit || codes[1] == 0 || time.Since(run.at) > 10*time.Second {
			t.Errorf("exit codes %v", codes)
		}
	}
}
