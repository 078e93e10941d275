package validate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rankmap/internal/measured"
	"rankmap/internal/parallel"
)

// hosts are network namespaces with an address, a name and a hosts file each, joined by a bridge in one more.
type hosts struct {
	t   *testing.T
	id  string
	n   int
	etc string // the hosts file of all
}

var hostCount int

func (h *hosts) ns(i int) string   { return fmt.Sprintf("%s-%d", h.id, i) }
func (h *hosts) name(i int) string { return fmt.Sprintf("n%d", i) }
func (h *hosts) addr(i int) string { return fmt.Sprintf("10.86.0.%d", i+1) }

// newHosts makes n hosts. Without the right to do so the test is skipped, unless CI demands it.
func newHosts(t *testing.T, n int, extra ...string) *hosts {
	t.Helper()
	hostCount++
	h := &hosts{t: t, id: fmt.Sprintf("rm%d-%d", os.Getpid(), hostCount), n: n, etc: filepath.Join(t.TempDir(), "hosts")}
	lines := append([]string{"127.0.0.1 localhost"}, extra...)
	sw := h.id + "-sw"
	b := strings.Builder{}
	fmt.Fprintf(&b, "set -e; ip netns add %[1]s; ip -n %[1]s link add br0 type bridge; ip -n %[1]s link set br0 up\n", sw)
	for i := range n {
		lines = append(lines, h.addr(i)+" "+h.name(i))
		fmt.Fprintf(&b, "ip netns add %[1]s; ip link add eth0 netns %[1]s type veth peer name p%[2]d netns %[3]s; ip -n %[3]s link set p%[2]d master br0 up\n", h.ns(i), i, sw)
		fmt.Fprintf(&b, "ip -n %[1]s addr add %[2]s/24 dev eth0; ip -n %[1]s link set eth0 up; ip -n %[1]s link set lo up\n", h.ns(i), h.addr(i))
	}
	t.Cleanup(func() {
		for i := range n {
			exec.Command("ip", "netns", "del", h.ns(i)).Run()
		}
		exec.Command("ip", "netns", "del", sw).Run()
	})
	if out, err := exec.Command("sh", "-c", b.String()).CombinedOutput(); err != nil {
		need(t, fmt.Sprintf("network namespaces cannot be made here (want iproute2 and CAP_NET_ADMIN): %v: %s", err, out))
	}
	if err := os.WriteFile(h.etc, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return h
}

// need skips a test that lacks something, or fails it where CI must have it.
func need(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI_REQUIRE_DATA") == "1" {
		t.Fatal(what)
	}
	t.Skip("skipped: " + what)
}

// command runs a program on a host, under the host's name.
func (h *hosts) command(i int, args ...string) *exec.Cmd {
	script := fmt.Sprintf(`hostname %s && mount --bind %s /etc/hosts && exec "$@"`, h.name(i), h.etc)
	return exec.Command("nsenter", append([]string{"--net=/var/run/netns/" + h.ns(i), "unshare", "--uts", "--mount", "sh", "-c", script, "sh"}, args...)...)
}

// do runs a program to its end and fails the test when it does.
func (h *hosts) do(i int, args ...string) {
	h.t.Helper()
	if out, err := h.command(i, args...).CombinedOutput(); err != nil {
		h.t.Fatalf("%v: %v: %s", args, err, out)
	}
}

// twoNodes is 2 nodes of n ranks: TP inside each, DP across.
func twoNodes(n int) *Job {
	j := &Job{Name: "two nodes", Digest: "sha256:0123456789abcdef01"}
	for r := range 2 * n {
		j.Ranks = append(j.Ranks, JobRank{Rank: r, Host: fmt.Sprintf("n%d", r/n), LocalRank: r % n, GPU: r})
	}
	for g := range 2 {
		if n > 1 {
			j.Groups = append(j.Groups, JobGroup{Kind: parallel.TP, Members: seq(g*n, n), Collectives: []JobCollective{coll("attention", parallel.AllReduce, 8192, n)}})
		}
	}
	for i := range n {
		j.Groups = append(j.Groups, JobGroup{Kind: parallel.DP, Members: []int{i, i + n}, Collectives: []JobCollective{coll("gradients", parallel.AllReduce, 16384, 2)}})
	}
	return j
}

// copies is a launched run under way.
type copies struct {
	t    *testing.T
	cmds []*exec.Cmd
	out  bytes.Buffer // of rank 0's copy
	said []*talk
	at   time.Time
}

// talk collects what a copy says.
type talk struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (k *talk) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.b.Write(p)
}

func (k *talk) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.b.String()
}

// copyEnv is the environment of a copy of the test binary as a launched rankmap.
func copyEnv(t *testing.T, job *Job, env ...string) []string {
	t.Helper()
	dir := fakeLibs(t)
	data, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "job.json")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "VALIDATE_TEST_ROLE=launched", "VALIDATE_TEST_JOB=" + file, "VALIDATE_TEST_NCCL=" + filepath.Join(dir, "libnccl.so.2"),
		"LD_LIBRARY_PATH=" + dir, "FAKE_NCCL_DIR=" + t.TempDir(), "HOME=/nonexistent", "TMPDIR=" + os.TempDir(), "RANKMAP_TOKEN=0123456789abcdef0123456789abcdef",
	}, env...)
}

// startNodes starts one copy on each host; each starts the ranks of its host. own adds variables of a host.
func startNodes(t *testing.T, h *hosts, job *Job, own func(i int) []string, env ...string) *copies {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &copies{t: t, at: time.Now()}
	base := copyEnv(t, job, append([]string{"MASTER_ADDR=n0", "TORCHELASTIC_RUN_ID=run1", fmt.Sprint("WORLD_SIZE=", h.n), "LOCAL_WORLD_SIZE=1", "LOCAL_RANK=0"}, env...)...)
	for i := range h.n {
		cmd := h.command(i, exe)
		cmd.Env = append(base[:len(base):len(base)], fmt.Sprint("RANK=", i))
		if own != nil {
			cmd.Env = append(cmd.Env, own(i)...)
		}
		k := new(talk)
		c.said = append(c.said, k)
		cmd.Stderr = k
		if i == 0 {
			cmd.Stdout = &c.out
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		c.cmds = append(c.cmds, cmd)
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	}
	return c
}

// waitFor waits until a copy has said a text.
func (c *copies) waitFor(i int, text string) {
	c.t.Helper()
	for range 500 {
		if strings.Contains(c.said[i].String(), text) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.t.Fatalf("copy %d does not say %q:\n%s", i, text, c.said[i])
}

// end waits for all copies and returns their exit codes.
func (c *copies) end() []int {
	var codes []int
	for _, cmd := range c.cmds {
		cmd.Wait()
		codes = append(codes, cmd.ProcessState.ExitCode())
	}
	c.t.Logf("exit codes %v after %.1f s", codes, time.Since(c.at).Seconds())
	return codes
}

func (c *copies) report() *measured.Report {
	c.t.Helper()
	rep := new(measured.Report)
	if err := json.Unmarshal(c.out.Bytes(), rep); err != nil {
		c.t.Fatalf("no report: %v\n%s", err, c.said[0])
	}
	return rep
}

// noRanks wants no living process that has the run's folder in its environment.
func noRanks(t *testing.T, mark string) {
	t.Helper()
	envs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, e := range envs {
		data, err := os.ReadFile(e)
		pid := strings.Split(e, "/")[2]
		if err == nil && pid != fmt.Sprint(os.Getpid()) && bytes.Contains(data, []byte(mark)) {
			t.Errorf("process %s is left", pid)
			var n int
			fmt.Sscan(pid, &n)
			syscall.Kill(n, syscall.SIGKILL)
		}
	}
}
