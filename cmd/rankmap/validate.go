package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"rankmap/internal/measured"
	"rankmap/internal/units"
	"rankmap/layout"
	"rankmap/validate"
)

// validateOptions are the flags of rankmap validate.
type validateOptions struct {
	layout    string
	out       output
	report    string
	require   string
	sizes     string
	quick     bool
	timeout   time.Duration
	join      time.Duration
	step      time.Duration
	ncclLib   string
	allowBusy bool
	allowMIG  bool
	noChoices bool
	dryRun    bool
	byIndex   bool
	tokenFile string
	meetAt    string
	nonBlock  bool
	maxBytes  string
	calibrate string
	measured  measuredOptions

	placements placementsOptions
	given      func(flag string) bool
}

// defaultReport is where the report goes when no flag says otherwise.
const defaultReport = "rankmap-validation.json"

func newValidateCmd(d *deps) *cobra.Command {
	o := &validateOptions{}
	cmd := &cobra.Command{
		Use:   "validate LAYOUT",
		Short: "Run the layout's collectives with real NCCL and compare them with the prediction",
		Long: `validate starts one process a GPU on this node, runs the collectives of every group of the layout at their real
sizes and a sweep, alone, all groups at once, and as a layer issues them, and compares the times with the predicted
interval. Contents are verified once for each size. A report is always written, also after a failure.

Verdicts: OK inside the predicted p10..p90, SLOW above, FAST below, UNSTABLE when repeats disagree, WRONG DATA,
SKIPPED when there was nothing to compare (never a pass). With --require the condition decides instead.

Started once by srun, mpirun, torchrun or a Kubernetes job for each rank, validate runs over all their nodes: rank 0's copy
leads and reports. The copies join with a secret: RANKMAP_TOKEN or --token-file.`,
		Example: `  rankmap validate layout.yaml
  rankmap validate layout.yaml --require 'busbw>=0.85*expected'
  rankmap validate layout.yaml --quick --nccl-lib /opt/nccl/lib/libnccl.so.2 -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			return o.unused(args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.placements.file != "" {
				o.placements.out = o.out
				return runPlacements(cmd.Context(), d, &o.placements)
			}
			if len(o.measured.files) > 0 {
				o.measured.files = append(o.measured.files, args...)
				o.measured.out = o.out
				return runMeasured(d, &o.measured)
			}
			o.layout = args[0]
			return runValidate(cmd.Context(), d, o)
		},
	}
	f := cmd.Flags()
	o.out.addFlags(cmd, "table", "wide", "json", "yaml")
	f.StringVar(&o.report, "report", defaultReport, "where the report goes, JSON; always written")
	f.StringVar(&o.require, "require", "", "condition that every row must meet, such as 'busbw>=0.85*expected'")
	f.StringVar(&o.sizes, "sizes", "", "sizes beside the layout's own: none, a list (1K,64K,4M), or MIN:MAX[:FACTOR]")
	f.BoolVar(&o.quick, "quick", false, "measure little: two sizes beside the layout's own, few repeats, graphs only")
	f.DurationVar(&o.timeout, "timeout", 0, "limit of the whole run (default 5m)")
	f.DurationVar(&o.join, "join-timeout", 0, "limit for all ranks to join (default 2m)")
	f.DurationVar(&o.step, "step-timeout", 0, "least limit of one measurement (default 10s)")
	f.StringVar(&o.ncclLib, "nccl-lib", "", "absolute path of the libnccl.so.2 to use")
	f.BoolVar(&o.allowBusy, "allow-busy", false, "run although other processes use the GPUs")
	f.BoolVar(&o.allowMIG, "allow-mig", false, "run although MIG is on")
	f.BoolVar(&o.byIndex, "by-index", false, "match GPUs by index, for a layout made on another machine of the same kind")
	f.BoolVar(&o.noChoices, "no-choices", false, "do not read NCCL's log for what it chose")
	f.BoolVar(&o.dryRun, "dry-run", false, "print who would do what; open no socket, load no library")
	f.BoolVar(&o.nonBlock, "nonblocking", false, "time non-blocking communicators (NCCL 2.28 and later start a thread for each call)")
	f.StringVar(&o.tokenFile, "token-file", "", "under a launcher: file with the secret that all ranks share (or RANKMAP_TOKEN)")
	f.StringVar(&o.meetAt, "rendezvous", "", "under a launcher: HOST:PORT where rank 0 listens (default: what the launcher says)")
	f.StringVar(&o.maxBytes, "max-bytes", "", "skip larger sizes")
	f.StringVar(&o.calibrate, "calibrate", "", "write a profile fitted to what was measured")
	o.measured.add(f)
	o.placements.add(f)
	o.given = f.Changed
	return cmd
}

func runValidate(ctx context.Context, d *deps, o *validateOptions) error {
	format, err := o.out.pick(d)
	if err != nil {
		return err
	}
	req, errReq := validate.ParseRequire(o.require)
	m, errSizes := o.measuring()
	data, errRead := readAll(d, o.layout, layout.MaxSize)
	if err := errors.Join(errReq, errSizes, errRead); err != nil {
		return inputErr(err)
	}
	l, err := layout.Read(bytes.NewReader(data), o.layout)
	if err != nil {
		return inputErr(err)
	}
	job := validate.FromLayout(l, o.layout, digest(data))
	if o.byIndex {
		job.ByIndex()
	}
	if err := job.Check(); err != nil {
		return inputErr(err)
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	prices, err := newPrices(d, l, o)
	if err != nil {
		return err
	}
	dl := validate.DefaultDeadlines()
	for _, v := range []struct{ dst, flag *time.Duration }{{&dl.Total, &o.timeout}, {&dl.Join, &o.join}, {&dl.Step, &o.step}} {
		if *v.flag > 0 {
			*v.dst = *v.flag
		}
	}
	launch := validate.Launch{Exe: exe, Args: []string{rankCommand}}
	var shown []string
	launch.Env, shown = validate.ChildEnv(os.Environ())
	if o.dryRun {
		return o.rehearse(d, validate.Rehearse(job, m, dl, launch))
	}
	place, err := validate.FindPlace(d.Getenv, len(job.Hosts()))
	if err != nil {
		return withCode(exitEnvironment, err)
	}
	launched, err := o.launched(d, job, place)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	rep, err := validate.Run(context.WithoutCancel(ctx), validate.Options{
		Job: job, Launch: launch, ShownEnv: shown, NCCLLib: o.ncclLib, Deadlines: dl, Measuring: m, Require: req,
		Predict: prices.predict, Inspector: validate.SMI{}, Host: validate.ReadHost(), AllowBusy: o.allowBusy, AllowMIG: o.allowMIG,
		Choices: !o.noChoices, Visible: d.Getenv("CUDA_VISIBLE_DEVICES"), Launched: launched, Tool: "rankmap " + version, System: prices.system, Signals: signals,
		Talk: func(f string, a ...any) { d.warnf("%s", sanitize(fmt.Sprintf(f, a...))) },
	})
	if err != nil {
		return inputErr(err)
	}
	if place.Rank != 0 { // rank 0's copy reports for all
		if rep.ExitCode != exitOK {
			d.warnf("rank %d: %s", place.Rank, sanitize(rep.Cause))
			return silent(rep.ExitCode)
		}
		return nil
	}
	return finishValidate(d, o, rep, format)
}

// rehearse prints what a run would do: text, unless -o says otherwise.
func (o *validateOptions) rehearse(d *deps, r *validate.Rehearsal) error {
	var data []byte
	var err error
	switch o.out.format {
	case "json":
		data, err = marshalJSON(r)
	case "yaml":
		data, err = marshalYAML(r)
	default:
		var b bytes.Buffer
		err = r.WriteText(&b)
		data = b.Bytes()
	}
	if err != nil {
		return err
	}
	return o.out.write(d, data, o.layout)
}

// launched collects what the copies of a launched run need to find each other; nil when no launcher started several.
func (o *validateOptions) launched(d *deps, job *validate.Job, place validate.Place) (*validate.Launched, error) {
	if place.World < 2 {
		return nil, nil
	}
	hosts := len(job.Hosts())
	perNode := place.World == hosts && place.World != job.World()
	if place.World != job.World() && !perNode {
		return nil, withHint(withCode(exitEnvironment, fmt.Errorf("%s started %d processes, the layout has %d ranks on %d node(s)", place.Launcher, place.World, job.World(), hosts)),
			"start one process a rank or one a node; on one node validate starts all ranks itself when it is started once")
	}
	token, err := validate.ReadToken(d.Getenv, o.tokenFile)
	if errors.Is(err, validate.ErrNoToken) {
		return nil, withHint(withCode(exitEnvironment, err), tokenHint(place, o.layout))
	}
	if err != nil {
		return nil, withCode(exitEnvironment, err)
	}
	host := o.meetAt
	if host == "" {
		host = validate.RendezvousHost(place, d.Getenv)
	}
	if host == "" && len(job.Hosts()) == 1 {
		host = "127.0.0.1"
	}
	if host == "" {
		return nil, withHint(withCode(exitEnvironment, fmt.Errorf("%s does not say where rank 0 is", place.Launcher)), "name it on all ranks: --rendezvous HOST:PORT")
	}
	return &validate.Launched{Place: place, Address: validate.WithPort(host), Token: token, JobID: validate.LaunchedJobID(job.Digest, d.Getenv), PerNode: perNode}, nil
}

// tokenHint is the command that makes a token, and the one that uses it, in the words of the launcher.
func tokenHint(p validate.Place, layout string) string {
	start := map[string]string{
		"Slurm": fmt.Sprintf("srun -n%d", p.World), "Open MPI": fmt.Sprintf("mpirun -n %d", p.World), "torchrun": "torchrun --no-python ...",
	}[p.Launcher]
	use := strings.TrimSpace(start + " rankmap validate " + layout + " --token-file rankmap.token")
	return "make one on storage that all nodes share:\n  (umask 077; head -c 32 /dev/urandom | base64 > rankmap.token)\nthen: " + use
}

// finishValidate writes the report, the result and the profile, and ends with the report's exit code.
func finishValidate(d *deps, o *validateOptions, rep *measured.Report, format string) error {
	data, err := marshalJSON(rep)
	if err != nil {
		return err
	}
	if err := writeFile(o.report, data, 0o644, o.layout); err != nil {
		d.warnf("the report cannot be written: %v", err)
		if f, e := os.CreateTemp("", "rankmap-validation-*.json"); e == nil {
			_, e = f.Write(data)
			if e = errors.Join(e, f.Close()); e == nil {
				d.warnf("it is at %s", f.Name())
			} else {
				os.Remove(f.Name())
			}
		}
	} else {
		d.warnf("report: %s", o.report)
	}
	switch format {
	case "table", "wide":
		var b bytes.Buffer
		if err := validate.WriteTable(&b, rep, format == "wide"); err != nil {
			return err
		}
		data = b.Bytes()
	case "yaml":
		if data, err = marshalYAML(rep); err != nil {
			return err
		}
	}
	if err := o.out.write(d, data, o.layout); err != nil {
		return err
	}
	if o.calibrate != "" && rep.ExitCode != exitOK && rep.ExitCode != exitBelow {
		d.warnf("--calibrate: no profile is written, the run did not end well")
	} else if o.calibrate != "" {
		if err := calibrateFromReport(d, o, rep); err != nil {
			return err
		}
	}
	if rep.ExitCode != exitOK {
		return silent(rep.ExitCode)
	}
	return nil
}

// measuring turns the flags into what is measured.
func (o *validateOptions) measuring() (validate.Measuring, error) {
	m := validate.DefaultMeasuring()
	m.Blocking = !o.nonBlock
	if o.quick {
		m.Sweep, m.Batches, m.Eager = []int64{64 << 10, 16 << 20}, 11, false
	}
	switch o.measured.launch {
	case "":
	case "graph":
		m.Eager = false
	case "eager":
		m.Graph, m.Eager = false, true
	default:
		return m, fmt.Errorf("--launch %q: want graph or eager", o.measured.launch)
	}
	if o.maxBytes != "" {
		b, err := units.ParseBytes(o.maxBytes)
		if err != nil {
			return m, fmt.Errorf("--max-bytes: %w", err)
		}
		m.MaxBytes = int64(b)
	}
	if o.sizes != "" {
		s, err := parseSizes(o.sizes)
		if err != nil {
			return m, err
		}
		m.Sweep = s
	}
	return m, nil
}

// maxSizes bounds a sweep.
const maxSizes = 64

// parseSizes reads "none", "1K,64K" or "1K:256M:4" (factor 2 when not given).
func parseSizes(s string) ([]int64, error) {
	if s == "none" {
		return nil, nil
	}
	lo, rest, isRange := strings.Cut(s, ":")
	if !isRange {
		var all []int64
		for part := range strings.SplitSeq(s, ",") {
			b, err := units.ParseBytes(part)
			if err != nil || b < 1 {
				return nil, fmt.Errorf("--sizes: %q: want sizes such as 64K,4M", part)
			}
			all = append(all, int64(b))
		}
		if len(all) > maxSizes {
			return nil, fmt.Errorf("--sizes: %d sizes, at most %d", len(all), maxSizes)
		}
		return all, nil
	}
	hi, by, hasBy := strings.Cut(rest, ":")
	from, err1 := units.ParseBytes(lo)
	to, err2 := units.ParseBytes(hi)
	factor := units.Bytes(2)
	var err3 error
	if hasBy {
		factor, err3 = units.ParseBytes(by)
	}
	if err := errors.Join(err1, err2, err3); err != nil || from < 1 || to < from || factor < 2 {
		return nil, fmt.Errorf("--sizes %q: want MIN:MAX or MIN:MAX:FACTOR with MIN at least 1 and FACTOR at least 2, such as 1K:256M:4", s)
	}
	var all []int64
	for b := from; b <= to && len(all) < maxSizes; b *= factor {
		all = append(all, int64(b))
		if b > to/factor {
			break
		}
	}
	return all, nil
}
