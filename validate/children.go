package validate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Launch says how a child process is started.
type Launch struct {
	Exe  string   // this binary
	Args []string // the hidden sub-command
	Env  []string // of the child, complete
}

// children are the rank processes, each with a process group of its own.
type children struct {
	exits chan exited

	mu    sync.Mutex
	procs map[int]*child
	keep  chan struct{} // ends the starter's thread
	shm   map[string]bool
}

type child struct {
	cmd    *exec.Cmd
	stderr *tail
	done   chan struct{}
	how    string
	ok     bool
}

func newChildren(n int) *children {
	return &children{exits: make(chan exited, n), procs: map[int]*child{}, keep: make(chan struct{}), shm: map[string]bool{}}
}

// start starts all ranks from one thread that lives as long as the children may: the kernel sends them SIGKILL when that
// thread ends (PR_SET_PDEATHSIG), so that a parent that is killed leaves no orphan.
func (c *children) start(launch Launch, orders []Orders) error {
	errc := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for i := range orders {
			if err := c.startOne(launch, &orders[i]); err != nil {
				errc <- fmt.Errorf("rank %d: %w", orders[i].Rank, err)
				<-c.keep
				return
			}
		}
		errc <- nil
		<-c.keep
	}()
	return <-errc
}

func (c *children) startOne(launch Launch, o *Orders) error {
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	cmd := exec.Command(launch.Exe, launch.Args...)
	env := slices.Clone(launch.Env)
	if o.LogDir != "" {
		env = append(env, "NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH,TUNING", "NCCL_DEBUG_FILE="+logName(o.LogDir, o.Rank))
	}
	cmd.Env = env
	cmd.Stdin = bytes.NewReader(data)
	p := &child{cmd: cmd, stderr: &tail{max: 4 << 10}, done: make(chan struct{})}
	cmd.Stderr = p.stderr
	cmd.Stdout = nil
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	c.mu.Lock()
	c.procs[o.Rank] = p
	c.mu.Unlock()
	rank := o.Rank
	go func() {
		err := cmd.Wait()
		p.how, p.ok = describeExit(err, p.stderr.String())
		close(p.done)
		c.exits <- exited{rank: rank, how: p.how}
	}()
	return nil
}

// howLeft is the end of a child that was told to stop, or that lost the coordinator.
const howLeft = "left: told to stop, or lost the coordinator"

// howNoJoin is the end of a child that did not get in.
const howNoJoin = "did not join"

// describeExit puts a child's end into words.
func describeExit(err error, said string) (how string, ok bool) {
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return "done", true
	}
	var ee *exec.ExitError
	how = err.Error()
	if errors.As(err, &ee) {
		ws, _ := ee.Sys().(syscall.WaitStatus)
		switch {
		case ws.Signaled():
			how = fmt.Sprintf("killed by signal %d (%s)", ws.Signal(), ws.Signal())
		case ee.ExitCode() == exitStopped:
			how = howLeft
		case ee.ExitCode() == exitNoJoin:
			how = howNoJoin
		default:
			how = fmt.Sprintf("exit status %d", ee.ExitCode())
		}
	}
	if said = strings.TrimSpace(said); said != "" {
		how += ": " + said
	}
	return how, false
}

// pids lists the living children by rank.
func (c *children) pids() map[int]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := map[int]int{}
	for r, p := range c.procs {
		select {
		case <-p.done:
		default:
			m[r] = p.cmd.Process.Pid
		}
	}
	return m
}

// waitAll waits until all have ended, or the time is over.
func (c *children) waitAll(limit time.Duration) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	c.mu.Lock()
	procs := make([]*child, 0, len(c.procs))
	for _, p := range c.procs {
		procs = append(procs, p)
	}
	c.mu.Unlock()
	for _, p := range procs {
		select {
		case <-p.done:
		case <-deadline.C:
			return false
		}
	}
	return true
}

// signal sends sig to the process groups of the living.
func (c *children) signal(sig syscall.Signal) {
	for _, pid := range c.pids() {
		syscall.Kill(-pid, sig)
	}
}

// end gets rid of all children: they were told to stop, get grace to leave, then SIGTERM and grace again, then SIGKILL. It
// never counts on a library to give up. It returns those that survive SIGKILL.
func (c *children) end(grace, killWait time.Duration, hard <-chan struct{}) (unkillable map[int]int) {
	defer close(c.keep)
	stage := func(d time.Duration) bool {
		if len(c.pids()) == 0 {
			return true
		}
		t := time.NewTimer(d)
		defer t.Stop()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-t.C:
				return false
			case <-hard:
				return false
			case <-tick.C:
				if len(c.pids()) == 0 {
					return true
				}
			}
		}
	}
	if stage(grace) {
		return nil
	}
	c.noteShm()
	c.signal(syscall.SIGCONT) // a stopped process must run to be told
	c.signal(syscall.SIGTERM)
	if stage(grace) {
		return nil
	}
	c.signal(syscall.SIGKILL)
	if c.waitAll(killWait) {
		return nil
	}
	return c.pids()
}

// noteShm remembers which of NCCL's shared memory files the children hold, so that they can be removed when a child is
// killed before it does so itself.
func (c *children) noteShm() {
	for _, pid := range c.pids() {
		for _, f := range mappedShm(pid) {
			c.shm[f] = true
		}
	}
}

// mappedShm lists NCCL's files in /dev/shm that a process has mapped.
func mappedShm(pid int) []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil
	}
	var files []string
	for line := range strings.Lines(string(data)) {
		if i := strings.Index(line, "/dev/shm/nccl-"); i >= 0 {
			name := strings.TrimSuffix(strings.TrimSpace(line[i:]), " (deleted)")
			if !slices.Contains(files, name) {
				files = append(files, name)
			}
		}
	}
	return files
}

// cleanShm removes what noteShm saw and returns what could not be removed.
func (c *children) cleanShm() (left []string) {
	for f := range c.shm {
		if filepath.Dir(f) != "/dev/shm" {
			continue
		}
		if err := os.Remove(f); err != nil && !errors.Is(err, os.ErrNotExist) {
			left = append(left, f)
		}
	}
	slices.Sort(left)
	return left
}

// tail keeps the last bytes that were written to it.
type tail struct {
	mu  sync.Mutex
	max int
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.max; over > 0 {
		t.buf = slices.Delete(t.buf, 0, over)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
