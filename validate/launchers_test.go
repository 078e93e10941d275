package validate

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rankmap/internal/measured"
)

// slurmConf is a cluster of two hosts with the least that Slurm needs: no cgroups, no accounting, our own munge socket.
const slurmConf = `ClusterName=t
SlurmctldHost=n0(%[2]s)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%[1]s/munge.sock
CredType=cred/munge
StateSaveLocation=%[1]s/state
SlurmdSpoolDir=%[1]s/spool.%%n
SlurmctldPidFile=%[1]s/ctld.pid
SlurmdPidFile=%[1]s/d.%%n.pid
SlurmctldLogFile=%[1]s/ctld.log
SlurmdLogFile=%[1]s/d.%%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
SchedulerType=sched/builtin
ReturnToService=2
KillWait=5
NodeName=n0 NodeAddr=%[2]s NodeHostname=n0 CPUs=2 State=UNKNOWN
NodeName=n1 NodeAddr=%[3]s NodeHostname=n1 CPUs=2 State=UNKNOWN
PartitionName=p Nodes=n0,n1 Default=YES State=UP OverSubscribe=FORCE
`

// startSlurm runs a real Slurm over two hosts: munge, slurmctld on the first, slurmd on both.
func startSlurm(t *testing.T, h *hosts) (env []string) {
	t.Helper()
	for _, p := range []string{"slurmctld", "slurmd", "srun", "munged"} {
		if _, err := exec.LookPath(p); err != nil {
			need(t, p+" is missing (apt-get install slurm-wlm munge)")
		}
	}
	dir, err := os.MkdirTemp("", "rankmap-slurm-")
	if err != nil {
		t.Fatal(err)
	}
	os.Chmod(dir, 0o755)
	key := make([]byte, 1024)
	rand.Read(key)
	for name, text := range map[string][]byte{"munge.key": key, "slurm.conf": fmt.Appendf(nil, slurmConf, dir, h.addr(0), h.addr(1))} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"state", "spool.n0", "spool.n1"} {
		os.Mkdir(filepath.Join(dir, d), 0o755)
	}
	var running []*exec.Cmd
	t.Cleanup(func() {
		for i := len(running) - 1; i >= 0; i-- {
			running[i].Process.Kill()
			running[i].Wait()
		}
		os.RemoveAll(dir)
	})
	daemon := func(cmd *exec.Cmd) {
		cmd.Env = append(os.Environ(), "SLURM_CONF="+dir+"/slurm.conf")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, cmd)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	daemon(exec.Command("munged", "--foreground", "--force", "--num-threads=2", "--socket="+at("munge.sock"), "--key-file="+at("munge.key"),
		"--pid-file="+at("munge.pid"), "--log-file="+at("munge.log"), "--seed-file="+at("munge.seed")))
	for range 100 {
		if _, err := os.Stat(at("munge.sock")); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	daemon(h.command(0, "slurmctld", "-D", "-c"))
	for i := range 2 {
		daemon(h.command(i, "slurmd", "-D", "-N", h.name(i)))
	}
	env = []string{"SLURM_CONF=" + at("slurm.conf")}
	for range 200 {
		cmd := h.command(0, "sinfo", "-h", "-t", "idle", "-o", "%D")
		cmd.Env = append(os.Environ(), env...)
		if out, _ := cmd.Output(); strings.TrimSpace(string(out)) == "2" {
			return env
		}
		time.Sleep(50 * time.Millisecond)
	}
	logs := ""
	for _, name := range []string{"ctld.log", "d.n0.log", "d.n1.log", "munge.log"} {
		b, _ := os.ReadFile(at(name))
		logs += name + ":\n" + string(b)
	}
	t.Fatalf("Slurm does not come up:\n%s", logs)
	return nil
}

// runUnder runs a launcher on the first host and returns rank 0's report, what was said, and the launcher's exit code.
func runUnder(t *testing.T, h *hosts, env []string, args ...string) (*measured.Report, string, int) {
	t.Helper()
	began := time.Now()
	cmd := h.command(0, args...)
	cmd.Env = env
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.Start()
	stop := time.AfterFunc(40*time.Second, func() { cmd.Process.Kill() })
	defer stop.Stop()
	cmd.Wait()
	t.Logf("%s: exit code %d after %.1f s", strings.Join(args[:min(4, len(args))], " "), cmd.ProcessState.ExitCode(), time.Since(began).Seconds())
	rep := new(measured.Report)
	if err := json.Unmarshal(out.Bytes(), rep); err != nil && out.Len() > 0 {
		t.Fatalf("no report: %v\n%s\n%s", err, out.String(), said.String())
	}
	return rep, said.String(), cmd.ProcessState.ExitCode()
}

// A real Slurm: one task a rank, one task a node, a rank killed, and no token.
func TestSlurm(t *testing.T) {
	h := newHosts(t, 2)
	slurm := startSlurm(t, h)
	exe, _ := os.Executable()
	job := twoNodes(2)
	env := func(more ...string) []string { return append(copyEnv(t, job, more...), slurm...) }

	t.Run("a task for each rank", func(t *testing.T) {
		rep, said, code := runUnder(t, h, env(), "srun", "-N2", "-n4", exe)
		wantExit(t, rep, exitOK)
		if code != 0 || len(rep.Groups) != 4 || strings.Join(rep.Environment.Hosts, " ") != "n0 n1" || !strings.Contains(said, "rendezvous at 10.86.0.1:29481") {
			t.Errorf("exit code %d, %d rows, hosts %v\n%s", code, len(rep.Groups), rep.Environment.Hosts, said)
		}
	})
	t.Run("a task for each node", func(t *testing.T) {
		rep, said, code := runUnder(t, h, env(), "srun", "-N2", "--ntasks-per-node=1", exe)
		wantExit(t, rep, exitOK)
		if code != 0 || len(rep.Ranks) != 4 || rep.Ranks[3].End != "done" {
			t.Errorf("exit code %d, ranks %+v\n%s", code, rep.Ranks, said)
		}
	})
	t.Run("ranks in another order than the layout's", func(t *testing.T) {
		rep, _, code := runUnder(t, h, env(), "srun", "-N2", "-n4", "--distribution=cyclic", exe)
		wantExit(t, rep, exitEnvironment)
		wantFinding(t, rep, "seats-differ", "rank 1 is on n1")
		if code != exitEnvironment {
			t.Errorf("exit code %d", code)
		}
	})
	t.Run("a rank is killed", func(t *testing.T) {
		began := time.Now()
		rep, _, code := runUnder(t, h, env("FAKE_NCCL_FAULT=kill:collective:3"), "srun", "-N2", "-n4", exe)
		wantExit(t, rep, exitPartial)
		wantFinding(t, rep, "rank-died", "rank 3")
		if d := time.Since(began); code != exitPartial || d > 15*time.Second {
			t.Errorf("exit code %d after %v", code, d)
		}
	})
	t.Run("no token", func(t *testing.T) {
		_, said, code := runUnder(t, h, env("RANKMAP_TOKEN="), "srun", "-N2", "-n4", exe)
		if code != exitEnvironment || !strings.Contains(said, "no token") {
			t.Errorf("exit code %d\n%s", code, said)
		}
	})
	noRanks(t, "VALIDATE_TEST_ROLE=rank")
}

// A real Open MPI: on one node, and over two hosts that mpirun reaches by a stand-in for ssh.
func TestOpenMPI(t *testing.T) {
	if _, err := exec.LookPath("mpirun"); err != nil {
		need(t, "mpirun is missing (apt-get install openmpi-bin)")
	}
	h := newHosts(t, 2)
	exe, _ := os.Executable()
	agent := filepath.Join(t.TempDir(), "agent")
	script := fmt.Sprintf("#!/bin/sh\nhost=$1; shift\nexec ip netns exec %s-${host#n} unshare --uts --mount sh -c \"hostname $host; mount --bind %s /etc/hosts; $*\"\n", h.id, h.etc)
	if err := os.WriteFile(agent, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	mpirun := func(hosts string, env []string) []string {
		args := []string{"mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", agent, "--mca", "oob_tcp_if_include", "eth0", "-H", hosts, "-n", "4"}
		for _, kv := range env {
			name, _, _ := strings.Cut(kv, "=")
			if name != "PATH" && name != "HOME" && name != "TMPDIR" {
				args = append(args, "-x", name)
			}
		}
		return append(args, exe)
	}
	oneNode := tpJob(4, 4096)
	env := copyEnv(t, oneNode)
	rep, said, code := runUnder(t, h, env, mpirun("n0:4", env)...)
	wantExit(t, rep, exitOK)
	if code != 0 || len(rep.Ranks) != 4 || !strings.Contains(said, "rendezvous at 127.0.0.1:29481") {
		t.Errorf("one node: exit code %d, ranks %+v\n%s", code, rep.Ranks, said)
	}
	env = copyEnv(t, twoNodes(2), "VALIDATE_TEST_ADDR=n0:29481")
	rep, said, code = runUnder(t, h, env, mpirun("n0:2,n1:2", env)...)
	wantExit(t, rep, exitOK)
	if code != 0 || strings.Join(rep.Environment.Hosts, " ") != "n0 n1" {
		t.Errorf("two nodes: exit code %d, hosts %v\n%s", code, rep.Environment.Hosts, said)
	}
	env = copyEnv(t, twoNodes(2), "VALIDATE_TEST_ADDR=n0:29481", "FAKE_NCCL_FAULT=kill:collective:3", "VALIDATE_TEST_LINGER=3s")
	rep, _, code = runUnder(t, h, env, mpirun("n0:2,n1:2", env)...)
	wantExit(t, rep, exitPartial)
	wantFinding(t, rep, "rank-died", "rank 3")
	if code == 0 {
		t.Error("mpirun ends with 0 although a rank was killed")
	}
	noRanks(t, "VALIDATE_TEST_ROLE=rank")
}

// torchrun's variables as it sets them for a node of a larger run; its --standalone mode says that all is on one node.
func TestTorchrunConvention(t *testing.T) {
	p, err := FindPlace(lookup("RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 GROUP_RANK=0 MASTER_ADDR=n0 MASTER_PORT=29500"), 2)
	if err != nil || p.OneNode || RendezvousHost(p, lookup("")) != "n0" {
		t.Errorf("%+v, %v", p, err)
	}
	rep, codes := launch(t, 2, "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=a.name.that.does.not.resolve.invalid", "VALIDATE_TEST_ADDR=")
	wantExit(t, rep, exitOK)
	if fmt.Sprint(codes) != "[0 0]" {
		t.Errorf("exit codes %v", codes)
	}
}

// Kubernetes: an indexed job behind a headless service, and a leader-worker set.
func TestKubernetesNames(t *testing.T) {
	etc := "# Kubernetes-managed hosts file.\n127.0.0.1 localhost\n10.1.2.3\tjob-2.svc.ns.svc.cluster.local\tjob-2\n"
	if got := podZero("job-2", 2, etc); got != "job-0.svc.ns.svc.cluster.local" {
		t.Errorf("first pod %q", got)
	}
	for _, c := range []struct {
		name, etc string
		index     int
	}{{"job-2", "10.1.2.3 job-2\n", 2}, {"job-2", etc, 1}, {"node", etc, 0}} {
		if got := podZero(c.name, c.index, c.etc); got != "" {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if p, err := FindPlace(lookup("JOB_COMPLETION_INDEX=1"), 2); err != nil || p.Rank != 1 || p.World != 2 {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := FindPlace(lookup("JOB_COMPLETION_INDEX=0"), 1); err != nil || p.World != 1 || p.Launcher != "" {
		t.Errorf("one node: %+v, %v", p, err)
	}
	if _, err := FindPlace(lookup("JOB_COMPLETION_INDEX=2"), 2); err == nil {
		t.Error("a pod too many is accepted")
	}
}
