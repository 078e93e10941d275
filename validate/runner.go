package validate

import (
	"cmp"
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
	Visible   string    // CUDA_VISIBLE_DEVICES
	Launched  *Launched // nil: this process starts all ranks on this node
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
	o         Options
	rep       *measured.Report
	sess      *session
	kids      *children
	seats     []JobRank          // of this node, with UUIDs where the driver told
	preflight []measured.Finding // of a launched rank
	hard      chan struct{}      // closed by the second signal
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

	if !r.o.coordinates() { // one copy tells how it goes
		r.o.Talk = func(string, ...any) {}
	}
	r.o.Talk("preflight")
	pctx, done := context.WithTimeout(ctx, r.o.Deadlines.Preflight)
	node, fs, seats := Preflight(pctx, r.o.Inspector, r.o.Host, r.o.local(), r.o.Visible, r.o.AllowBusy, r.o.AllowMIG)
	done()
	r.seats = seats
	if ctx.Err() != nil {
		return cause(ctx)
	}
	if node != nil {
		r.rep.Environment.Driver = node.Driver
		r.o.Host.Net.Driver = node.Driver
	}
	if r.o.Launched != nil { // the coordinator hears of it from every rank, its own included
		r.preflight = fs
		return r.measure(ctx)
	}
	r.rep.Findings = append(r.rep.Findings, fs...)
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
	return r.measure(ctx)
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
func (r *run) measure(ctx context.Context) error {
	o := r.o
	world := o.Job.World()
	cfg := rendezvous.Config{Job: newJobID(), Token: rendezvous.NewToken(), World: world, Timing: rendezvous.Timing{Silence: o.Deadlines.Silence}}
	address := ""
	if o.Launched != nil {
		cfg.Job, cfg.Token, address = o.Launched.JobID, o.Launched.Token, o.Launched.Address
	}
	var server *rendezvous.Server
	if o.coordinates() {
		ln, err := o.listen(ctx)
		if err != nil {
			return listenProblem(cmp.Or(address, o.Address), err)
		}
		if server, err = rendezvous.NewServer(ln, cfg); err != nil {
			ln.Close()
			return &failure{finding: "start-failed", rank: -1, exit: exitEnvironment, detail: err.Error()}
		}
		defer server.Close()
		address = server.Addr()
	}
	logDir := ""
	if o.Choices {
		var err error
		if logDir, err = os.MkdirTemp("", "rankmap-nccl-"); err != nil {
			return &failure{finding: "start-failed", rank: -1, exit: exitEnvironment, detail: err.Error()}
		}
		defer os.RemoveAll(logDir)
	}
	orders := make([]Orders, len(r.seats))
	for i, seat := range r.seats {
		orders[i] = Orders{
			Address: address, JobID: cfg.Job, Token: cfg.Token, Rank: seat.Rank, World: world, Device: seat,
			NCCLLib: o.NCCLLib, LogDir: logDir, Deadlines: o.Deadlines, Findings: r.preflight, Net: o.Host.Net,
		}
	}
	o.Talk("starting %d of %d ranks, rendezvous at %s", len(orders), world, address)
	before := shmFiles()
	r.kids = newChildren(world)
	err := r.kids.start(o.Launch, orders)
	if err != nil {
		err = &failure{finding: "start-failed", rank: -1, detail: err.Error()}
	}
	if !o.coordinates() {
		if err == nil {
			err = r.follow(ctx)
		}
		r.kids.end(o.Deadlines.Grace, o.Deadlines.KillWait, r.hard)
		r.kids.cleanShm()
		r.linger(ctx, err)
		return err
	}
	r.sess = newSession(o.Job, o.Deadlines, server, r.kids.exits, o.Talk)
	if err == nil {
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
	err := s.join(ctx)
	if err == nil {
		r.describeRanks()
	}
	r.rep.Findings = append(r.rep.Findings, fromRanks(r.o.Job.World(), s.facts)...) // of those who joined, where not all did
	if err != nil {
		return err
	}
	r.rep.Findings = append(r.rep.Findings, compareFacts(r.o.Job, s.facts)...)
	r.rep.Findings = append(r.rep.Findings, compareNodes(r.o.Job, s.facts)...)
	network(&r.rep.Environment, r.o.Job.World(), s.facts)
	if f := r.blocked(); f != nil {
		return errReported
	}
	fs, err := s.reach(ctx)
	r.rep.Findings = append(r.rep.Findings, fs...)
	if err != nil {
		return err
	}
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

// fromRanks collects what the launched copies found on their nodes. What several say alike is said once, with all of them.
func fromRanks(world int, fs map[int]facts) []measured.Finding {
	var order []measured.Finding
	who := map[measured.Finding][]int{}
	for i := range world {
		for _, f := range fs[i].Findings {
			if who[f] == nil {
				order = append(order, f)
			}
			if !slices.Contains(who[f], i) {
				who[f] = append(who[f], i)
			}
		}
	}
	hosts, _ := nodesOf(world, fs)
	for i, f := range order {
		ranks := who[f]
		name := "rank " + rankList(ranks)
		if len(ranks) > 1 {
			name = "ranks " + rankList(ranks)
		}
		if len(hosts) > 1 {
			var at []string
			for _, r := range ranks {
				if !slices.Contains(at, fs[r].Host) {
					at = append(at, fs[r].Host)
				}
			}
			name += " on " + list(at)
		}
		order[i].Message = name + ": " + f.Message
	}
	return order
}

func (r *run) describeRanks() {
	e := &r.rep.Environment
	e.Hosts = nil
	for i := range r.o.Job.World() {
		f := r.sess.facts[i]
		r.rep.Ranks = append(r.rep.Ranks, measured.ReportRank{
			Rank: i, Host: f.Host, PID: f.PID, GPU: f.Device, UUID: f.UUID, PCI: f.PCI, Name: f.Name, FreeGB: float64(f.Free) / 1e9,
		})
		if !slices.Contains(e.Hosts, f.Host) {
			e.Hosts = append(e.Hosts, f.Host)
		}
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
	e.GPUsPerNode = (r.o.Job.World() + len(e.Hosts) - 1) / len(e.Hosts)
}

// endsWith is the exit code of a run that err ends.
func (r *run) endsWith(err error) int {
	f, ok := err.(*failure)
	if ok && f.exit != 0 {
		return f.exit
	}
	fs := r.rep.Findings
	if ok {
		fs = append(slices.Clone(fs), newFinding(f.finding, "%s", f.detail))
	}
	for _, fd := range fs {
		if c := exitOf(fd); c != 0 && c != exitBelow {
			return c
		}
	}
	return exitPartial
}

// end gets rid of the children and notes how each ended.
func (r *run) end(err error) {
	d := r.o.Deadlines
	if err == nil {
		r.sess.bye()
		if !r.kids.waitAll(2*d.Grace) || r.o.Launched != nil && !r.sess.allLeft(2*d.Grace) {
			r.sess.stopAll(exitOK)
		}
	} else {
		r.sess.stopAll(r.endsWith(err))
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
		case p == nil && r.o.Launched != nil:
			row.End = remoteEnd(i, first, err)
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

// remoteEnd is what the coordinator knows of a rank that another copy started.
func remoteEnd(rank, first int, err error) string {
	switch {
	case err == nil:
		return "done"
	case rank == first:
		return "see the cause"
	case first >= 0:
		return fmt.Sprintf("stopped because of rank %d", first)
	}
	return "stopped"
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
	if !r.o.coordinates() { // the coordinator's copy judges
		if err == nil {
			rep.Verdict, rep.ExitCode = "", exitOK
		} else if rep.ExitCode = exitPartial; isFailure && f.exit != 0 {
			rep.ExitCode = f.exit
		}
		return
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
