package validate

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"rankmap/internal/measured"
	"rankmap/validate/nccl"
	"rankmap/validate/rendezvous"
)

// Options is everything that a run needs from outside.
type Options struct {
	Job       *Job
	Launch    Launch // Env is filled by ChildEnv
	ShownEnv  []string
	NCCLLib   string
	Deadlines Deadlines
	Measuring Measuring
	Require   *Require
	Predict   Predictor
	Inspector Inspector
	Host      Host
	AllowBusy bool
	AllowMIG  bool
	Choices   bool // read NCCL's log
	Address   string
	Visible   string // CUDA_VISIBLE_DEVICES
	Tool      string
	System    string // datasheet's key of the GPU, for the report
	Signals   <-chan os.Signal
	Talk      func(format string, args ...any)
}

// Run validates a job on this node. It always returns a report with an exit code; the error is nil unless the options
// make no sense.
func Run(ctx context.Context, o Options) (*measured.Report, error) {
	if err := o.Job.Check(); err != nil {
		return nil, err
	}
	if o.Talk == nil {
		o.Talk = func(string, ...any) {}
	}
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	began := time.Now()
	r := &run{o: o, rep: newReport(o)}
	err := r.run(ctx)
	r.close(err)
	r.rep.Seconds = time.Since(began).Seconds()
	return r.rep, nil
}

func newReport(o Options) *measured.Report {
	rep := &measured.Report{
		APIVersion: measured.ReportAPIVersion, Kind: measured.ReportKind, Tool: o.Tool,
		Layout: measured.ReportLayout{Name: o.Job.Name, Digest: o.Job.Digest},
		Environment: measured.Environment{
			System: o.System, Hosts: []string{o.Host.Name}, GPUsPerNode: o.Job.World(), Env: o.ShownEnv, GraphCapture: o.Measuring.Graph,
		},
		Groups: []measured.ReportGroup{},
	}
	return rep
}

// run is one validation under way.
type run struct {
	o     Options
	rep   *measured.Report
	sess  *session
	kids  *children
	seats []JobRank     // of this node, with UUIDs where the driver told
	hard  chan struct{} // closed by the second signal
}

func (r *run) found(id, format string, args ...any) {
	f := newFinding(id, format, args...)
	if !slices.ContainsFunc(r.rep.Findings, func(g measured.Finding) bool { return g == f }) {
		r.rep.Findings = append(r.rep.Findings, f)
	}
}

// blocked tells whether a finding forbids to go on.
func (r *run) blocked() *failure {
	for _, f := range r.rep.Findings {
		if f.Severity == SevError {
			return &failure{finding: f.ID, detail: f.Message, rank: -1}
		}
	}
	return nil
}

// errReported ends a run whose findings say everything.
var errReported = errors.New("see the findings")

func (r *run) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.hard = make(chan struct{})
	stop := r.watch(cancel)
	defer stop()

	r.o.Talk("preflight")
	pctx, done := context.WithTimeout(ctx, r.o.Deadlines.Preflight)
	node, fs, seats := Preflight(pctx, r.o.Inspector, r.o.Host, r.o.Job.Ranks, r.o.Visible, r.o.AllowBusy, r.o.AllowMIG)
	done()
	r.seats = seats
	if ctx.Err() != nil {
		return cause(ctx)
	}
	r.rep.Findings = append(r.rep.Findings, fs...)
	if node != nil {
		r.rep.Environment.Driver = node.Driver
	}
	hosts := r.o.Job.Hosts()
	switch {
	case len(hosts) > 1:
		return &failure{finding: "gpu-missing", rank: -1, exit: exitEnvironment, detail: fmt.Sprintf("the layout spans %d nodes (%s); start validate under the launcher on all of them", len(hosts), list(hosts))}
	case hosts[0] != r.o.Host.Name:
		r.found("host-name", "the layout says %s, this is %s", hosts[0], r.o.Host.Name)
	}
	if f := r.blocked(); f != nil {
		return errReported
	}
	return r.measure(ctx, cancel)
}

// watch turns signals into the end of the run: the first stops it in good order, the second at once.
func (r *run) watch(cancel context.CancelCauseFunc) func() {
	quit := make(chan struct{})
	total := time.AfterFunc(r.o.Deadlines.Total, func() {
		cancel(&failure{finding: "run-deadline", rank: -1, detail: fmt.Sprintf("not done after %v", r.o.Deadlines.Total)})
	})
	go func() {
		n := 0
		for {
			select {
			case <-quit:
				return
			case s := <-r.o.Signals:
				if n++; n > 1 {
					close(r.hard)
					return
				}
				exit, word := exitInterrupted, "interrupt"
				if s == syscall.SIGTERM {
					exit, word = exitTerminated, "SIGTERM"
				}
				r.o.Talk("%s: stopping the ranks; once more kills them at once", word)
				cancel(&failure{finding: "interrupted", rank: -1, exit: exit, detail: word})
			}
		}
	}()
	return func() { close(quit); total.Stop() }
}

func cause(ctx context.Context) error { return context.Cause(ctx) }

// measure starts the ranks and runs the campaign.
func (r *run) measure(ctx context.Context, cancel context.CancelCauseFunc) error {
	o := r.o
	world := o.Job.World()
	ln, err := rendezvous.Listen(ctx, o.Address)
	if err != nil {
		return &failure{finding: "start-failed", rank: -1, exit: exitEnvironment, detail: err.Error()}
	}
	cfg := rendezvous.Config{Job: newJobID(), Token: rendezvous.NewToken(), World: world, Timing: rendezvous.Timing{Silence: o.Deadlines.Silence}}
	server, err := rendezvous.NewServer(ln, cfg)
	if err != nil {
		ln.Close()
		return err
	}
	defer server.Close()
	logDir := ""
	if o.Choices {
		if logDir, err = os.MkdirTemp("", "rankmap-nccl-"); err != nil {
			return &failure{finding: "start-failed", rank: -1, exit: exitEnvironment, detail: err.Error()}
		}
		defer os.RemoveAll(logDir)
	}
	orders := make([]Orders, world)
	for i, rank := range r.seats {
		orders[i] = Orders{
			Address: server.Addr(), JobID: cfg.Job, Token: cfg.Token, Rank: i, World: world, Device: rank,
			NCCLLib: o.NCCLLib, LogDir: logDir, Deadlines: o.Deadlines,
		}
	}
	o.Talk("starting %d ranks, rendezvous at %s", world, server.Addr())
	before := shmFiles()
	r.kids = newChildren(world)
	r.sess = newSession(o.Job, o.Deadlines, server, r.kids.exits, o.Talk)
	err = r.kids.start(o.Launch, orders)
	if err != nil {
		err = &failure{finding: "start-failed", rank: -1, detail: err.Error()}
	} else {
		err = r.campaign(ctx)
	}
	r.end(err)
	rej, foreign := server.Rejected()
	if rej.Total() > 0 {
		r.rep.Rejected = &measured.Rejected{
			Malformed: rej.Malformed, TooSlow: rej.TooSlow, WrongToken: rej.WrongToken, ForeignJob: rej.ForeignJob,
			WrongWorld: rej.WrongWorld, BadRank: rej.BadRank, Duplicate: rej.Duplicate, TooMany: rej.TooMany, Jobs: foreign,
		}
		r.found("rejected", "%d in all", rej.Total())
	}
	if len(foreign) > 0 {
		r.found("foreign-job", "%s", strings.Join(foreign, ", "))
	}
	left := r.kids.cleanShm()
	for _, f := range shmFiles() {
		if !slices.Contains(before, f) && !slices.Contains(left, f) {
			left = append(left, f)
		}
	}
	if len(left) > 0 {
		r.found("shm-left", "%s", list(left))
	}
	return err
}

func newJobID() string {
	b := make([]byte, 8)
	rand.Read(b)
	return "v" + hex.EncodeToString(b)
}

// campaign: join, compare, create, measure.
func (r *run) campaign(ctx context.Context) error {
	s := r.sess
	if err := s.join(ctx); err != nil {
		return err
	}
	r.describeRanks()
	r.rep.Findings = append(r.rep.Findings, compareFacts(r.o.Job, s.facts)...)
	if f := r.blocked(); f != nil {
		return errReported
	}
	if err := s.shareID(ctx); err != nil {
		return err
	}
	fams := r.o.Job.families()
	st := step{Do: doInit, Blocking: r.o.Measuring.Blocking}
	for _, f := range fams {
		var groups [][]int
		for _, g := range f.groups {
			groups = append(groups, g.Members)
		}
		st.Families = append(st.Families, groups)
	}
	d := r.o.Deadlines
	limit := d.Init + d.InitPer64*time.Duration(r.o.Job.World()/64)
	r.o.Talk("creating communicators: NCCL %s, %s", r.rep.Environment.NCCL, r.rep.Environment.NCCLPath)
	if _, err := s.do(ctx, s.all(), st, limit, "communicator init"); err != nil {
		return err
	}
	var free int64
	for _, f := range s.facts {
		if free == 0 || f.Free < free {
			free = f.Free
		}
	}
	c := &campaign{
		s: s, job: r.o.Job, fams: fams, m: r.o.Measuring, predict: r.o.Predict, library: r.rep.Environment.NCCL,
		cap: int64(float64(free) * r.o.Measuring.MemoryShare), rep: r.rep, require: r.o.Require, choices: r.o.Choices, found: r.found,
	}
	return c.run(ctx)
}

func (r *run) describeRanks() {
	e := &r.rep.Environment
	for i := range r.o.Job.World() {
		f := r.sess.facts[i]
		r.rep.Ranks = append(r.rep.Ranks, measured.ReportRank{
			Rank: i, Host: f.Host, PID: f.PID, GPU: f.Device, UUID: f.UUID, PCI: f.PCI, Name: f.Name, FreeGB: float64(f.Free) / 1e9,
		})
		if f.NCCL > 0 && e.NCCL == "" {
			e.NCCL, e.NCCLPath, e.OtherNCCL = nccl.VersionString(f.NCCL), f.NCCLPath, f.OtherNCCL
		}
		if f.CUDA > 0 && e.CUDA == "" {
			e.CUDA, e.CUDAPath = nccl.CUDAVersionString(f.CUDA), f.CUDAPath
		}
		if e.GPU == "" {
			e.GPU = f.Name
		}
	}
}

// end gets rid of the children and notes how each ended.
func (r *run) end(err error) {
	d := r.o.Deadlines
	if err == nil {
		r.sess.bye()
		if !r.kids.waitAll(2 * d.Grace) {
			r.sess.stopAll()
		}
	} else {
		r.sess.stopAll()
	}
	unkillable := r.kids.end(d.Grace, d.KillWait, r.hard)
	for rank, pid := range unkillable {
		r.found("unkillable", "process %d of rank %d", pid, rank)
	}
	r.kids.mu.Lock()
	defer r.kids.mu.Unlock()
	first := -1
	if f, ok := err.(*failure); ok {
		first = f.rank
	}
	for len(r.rep.Ranks) < r.o.Job.World() {
		i := len(r.rep.Ranks)
		r.rep.Ranks = append(r.rep.Ranks, measured.ReportRank{Rank: i, Host: r.o.Host.Name, GPU: r.o.Job.Ranks[i].GPU})
	}
	for i := range r.rep.Ranks {
		row := &r.rep.Ranks[i]
		p := r.kids.procs[i]
		switch {
		case p == nil:
			row.End = "not started"
		case !closed(p.done):
			row.End = "survives SIGKILL"
		case p.ok:
			row.End = "done"
		case first >= 0 && i != first:
			row.End = fmt.Sprintf("stopped because of rank %d", first)
		case first < 0 && err != nil:
			row.End = "stopped"
		default:
			row.End = p.how
		}
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// close draws the conclusions: findings about speed, the verdict, the exit code.
func (r *run) close(err error) {
	rep := r.rep
	summariseRows(rep, r.found)
	f, isFailure := err.(*failure)
	if isFailure {
		rep.Cause = f.detail
		r.found(f.finding, "%s", f.detail)
	} else if err != nil && !errors.Is(err, errReported) {
		rep.Cause = err.Error()
		r.found("rank-failed", "%v", err)
	}
	rep.Verdict = worst(append(slices.Clone(rep.Groups), rep.Siblings...))
	rep.ExitCode = exitCode(rep, f, r.o.Require != nil)
	if rep.ExitCode == exitEnvironment && err == nil {
		r.found("nothing-ran", "no row could be compared with a prediction")
	}
}

// summariseRows turns rows into findings.
func summariseRows(rep *measured.Report, found func(id, format string, args ...any)) {
	for _, rows := range [][]measured.ReportGroup{rep.Groups, rep.Siblings} {
		for _, g := range rows {
			at := fmt.Sprintf("%s group %v, %s of %d B, %s", g.Kind, g.Members, g.Op, g.Bytes, g.Launch)
			switch g.Verdict {
			case measured.VerdictSlow:
				id := "slow"
				if g.Required == "fail" {
					id = "required"
				}
				if g.Name != "" || g.Required == "fail" {
					found(id, "%s: %s", at, g.Why)
				}
			case measured.VerdictUnstable:
				if g.Name != "" {
					found("unstable", "%s: %s", at, g.Why)
				}
			}
			if g.Choice == nil || g.Launch != measured.LaunchGraph {
				continue
			}
			if t := g.Choice.Transport; g.Nodes == 1 && t != "" && !strings.HasPrefix(t, "P2P") && !strings.HasPrefix(t, "NVLS") {
				found("other-path", "%s group %v uses %s", g.Kind, g.Members, t)
			}
			if g.Name != "" && g.Predicted.Algorithm != "" && g.Choice.Algorithm != "" &&
				(!strings.EqualFold(g.Choice.Algorithm, g.Predicted.Algorithm) || g.Predicted.Protocol != "" && !strings.EqualFold(g.Choice.Protocol, g.Predicted.Protocol)) {
				found("other-choice", "%s: %s %s, predicted %s %s", at, g.Choice.Algorithm, g.Choice.Protocol, g.Predicted.Algorithm, g.Predicted.Protocol)
			}
		}
	}
}

// exitCode: an interruption first, then wrong data, then what ended the run, then speed. Without --require the layout's own
// sizes decide; the sweep informs.
func exitCode(rep *measured.Report, f *failure, required bool) int {
	if f != nil && f.exit != 0 {
		return f.exit
	}
	rows := append(slices.Clone(rep.Groups), rep.Siblings...)
	below, judged := false, false
	for _, g := range rows {
		switch g.Verdict {
		case measured.VerdictFail:
			return exitBelow
		case measured.VerdictSkipped:
			continue
		}
		if required && g.Required == "" {
			continue
		}
		judged = true
		counts := g.Name != "" || required
		if counts && (g.Verdict == measured.VerdictSlow || g.Verdict == measured.VerdictUnstable) {
			below = true
		}
	}
	// Findings are in order of time: the first error is the first cause.
	for _, fd := range rep.Findings {
		if c := exitOf(fd); c != 0 && c != exitBelow {
			return c
		}
	}
	switch {
	case below:
		return exitBelow
	case slices.ContainsFunc(rep.Findings, func(fd measured.Finding) bool { return exitOf(fd) == exitBelow }):
		return exitBelow
	case !judged:
		return exitEnvironment
	}
	return exitOK
}
