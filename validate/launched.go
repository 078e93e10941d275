package validate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"rankmap/validate/rendezvous"
)

// DefaultPort is where rank 0 listens under a launcher when no flag names a port. It lies outside the ranges that torchrun
// (29400, 29500), vLLM (29501, 29550) and NCCL RAS (28028) use.
const DefaultPort = 29481

// Launched is a run of which a launcher started one copy for each rank. Each copy starts the one child that does the work;
// rank 0's copy is also the coordinator and writes the report.
type Launched struct {
	Place   Place
	Address string // host:port of rank 0
	Token   []byte
	JobID   string
	PerNode bool // one copy a node, which starts all ranks of its node; else one a rank
}

// local lists the ranks that this process starts.
func (o *Options) local() []JobRank {
	if o.Launched == nil {
		return o.Job.Ranks
	}
	me := o.Launched.Place.Rank
	if !o.Launched.PerNode {
		return o.Job.Ranks[me : me+1]
	}
	var mine []JobRank
	for _, r := range o.Job.Ranks {
		if r.Host == o.Job.Hosts()[me] {
			mine = append(mine, r)
		}
	}
	return mine
}

// coordinates tells whether this process leads the run.
func (o *Options) coordinates() bool { return o.Launched == nil || o.Launched.Place.Rank == 0 }

// listen opens the rendezvous: on the given loopback address, or under a launcher on that address of the named host which
// is this host's.
func (o *Options) listen(ctx context.Context) (net.Listener, error) {
	if o.Launched == nil {
		return rendezvous.Listen(ctx, o.Address)
	}
	host, port, err := net.SplitHostPort(o.Launched.Address)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("rendezvous host %s: %w", host, err)
	}
	var errs []error
	for _, ip := range ips {
		ln, err := rendezvous.Listen(ctx, net.JoinHostPort(ip, port))
		if err == nil {
			return ln, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// follow is the life of a copy that does not lead: it waits for its child, which the coordinator directs.
func (r *run) follow(ctx context.Context) error {
	rank := r.o.Launched.Place.Rank
	for range r.seats {
		select {
		case e := <-r.kids.exits:
			switch {
			case e.how == "done":
			case strings.HasPrefix(e.how, howNoJoin):
				return &failure{finding: "join-failed", rank: e.rank, exit: exitDeadline, detail: strings.TrimPrefix(e.how, howNoJoin+": ")}
			default:
				f := &failure{finding: "rank-failed", rank: e.rank, detail: fmt.Sprintf("rank %d: %s", e.rank, e.how)}
				if _, code, ok := strings.Cut(e.how, stopWord); ok {
					f.exit, _ = strconv.Atoi(strings.TrimSpace(code))
				}
				return f
			}
		case <-ctx.Done():
			err, ok := context.Cause(ctx).(*failure)
			if !ok {
				err = &failure{finding: "interrupted", rank: rank, exit: exitInterrupted, detail: context.Cause(ctx).Error()}
			}
			return err
		}
	}
	return nil
}

// linger holds a copy back whose rank failed: mpirun and torchrun kill all others as soon as one ends badly, and the
// coordinator has yet to stop its ranks and to write the report. A signal ends the wait; so does a coordinator that is gone.
func (r *run) linger(ctx context.Context, err error) {
	f, ok := err.(*failure)
	if !ok || ctx.Err() != nil || strings.Contains(f.detail, howLeft) && !strings.Contains(f.detail, stopWord) {
		return
	}
	t := time.NewTimer(r.o.Deadlines.Linger)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// RendezvousHost finds rank 0's host in what launchers set: an address, or the first name of Slurm's node list. Empty means
// that they do not say.
func RendezvousHost(p Place, getenv func(string) string) string {
	if p.OneNode {
		return "127.0.0.1"
	}
	if p.Master != "" {
		return p.Master
	}
	if p.Launcher == "an indexed job" {
		name, err := os.Hostname()
		hosts, _ := os.ReadFile("/etc/hosts")
		if err == nil {
			return podZero(name, p.Rank, string(hosts))
		}
	}
	for _, v := range []string{"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"} {
		if l := getenv(v); l != "" {
			return firstHost(l)
		}
	}
	return ""
}

// podZero names the first pod of an indexed job with a headless service: pods are called JOB-INDEX, and the kubelet writes
// their full name, JOB-INDEX.SERVICE.NAMESPACE.svc..., into /etc/hosts. Empty when there is no such line.
func podZero(hostname string, index int, hosts string) string {
	job, ok := strings.CutSuffix(hostname, fmt.Sprintf("-%d", index))
	if !ok {
		return ""
	}
	for line := range strings.Lines(hosts) {
		line, _, _ = strings.Cut(line, "#")
		for i, f := range strings.Fields(line) {
			if rest, ok := strings.CutPrefix(f, hostname+"."); ok && i > 0 {
				return job + "-0." + rest
			}
		}
	}
	return ""
}

var bracket = regexp.MustCompile(`^([A-Za-z0-9._-]*)\[([0-9]+)[-,0-9]*\]([A-Za-z0-9._-]*)`)

// firstHost reads the first name of a Slurm node list such as "n[03-05,9],login".
func firstHost(list string) string {
	if m := bracket.FindStringSubmatch(list); m != nil {
		return m[1] + m[2] + m[3]
	}
	first, _, _ := strings.Cut(list, ",")
	return first
}

// LaunchedJobID is the same on all ranks of a job and differs between jobs: the launcher's id where it has one, and the
// layout's digest.
func LaunchedJobID(digest string, getenv func(string) string) string {
	name := "job"
	for _, names := range [][]string{{"TORCHELASTIC_RUN_ID"}, {"SLURM_JOB_ID", "SLURM_STEP_ID"}, {"OMPI_MCA_ess_base_jobid"}, {"PMIX_NAMESPACE"}} {
		var parts []string
		for _, n := range names {
			if v := getenv(n); v != "" {
				parts = append(parts, v)
			}
		}
		if s := strings.Join(parts, "."); len(parts) == len(names) && len(s) <= 40 && rendezvous.CheckJob(s) == nil {
			name = s
			break
		}
	}
	_, hex, _ := strings.Cut(digest, ":")
	return name + "-" + hex[:min(16, len(hex))]
}

// ReadToken finds the job's token: RANKMAP_TOKEN, or a file that only its owner can read. Both are used as they are, without
// white space around.
func ReadToken(getenv func(string) string, file string) ([]byte, error) {
	text := getenv("RANKMAP_TOKEN")
	if file != "" {
		st, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		if st.Mode().Perm()&0o077 != 0 {
			return nil, fmt.Errorf("token file %s: others can read it (mode %04o), want 0600", file, st.Mode().Perm())
		}
		if st.Size() > 4096 {
			return nil, fmt.Errorf("token file %s: %d bytes, want at most 4096", file, st.Size())
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		text = string(b)
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, ErrNoToken
	}
	if len(text) < rendezvous.MinToken {
		return nil, fmt.Errorf("token of %d bytes, want at least %d", len(text), rendezvous.MinToken)
	}
	return []byte(text), nil
}

// ErrNoToken means that a launched run has no secret to join with.
var ErrNoToken = errors.New("no token: ranks that a launcher starts join with a secret that all of them know")

// WithPort adds the default port to a host that has none.
func WithPort(addr string) string {
	if _, _, err := net.SplitHostPort(addr); err == nil {
		return addr
	}
	return net.JoinHostPort(strings.Trim(addr, "[]"), strconv.Itoa(DefaultPort))
}
