package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rankmap/collective"
	"rankmap/internal/accuracy"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
)

// calibrateOptions are the flags of rankmap calibrate.
type calibrateOptions struct {
	files    []string
	file     string // profile to write
	format   string // of the summary
	profiles []string
	lasting  bool            // computations were timed under lasting load
	rows     measuredOptions // how to read rows that do not say everything
}

// wholeSteps are the formats whose times are of many computations and collectives: they confront, no profile is fitted to them.
var wholeSteps = []string{"step.csv", "placements", "serving points", "training steps"}

// calibrating lists the formats that a profile is fitted to.
func calibrating() []string {
	return slices.DeleteFunc(measured.Formats(), func(f string) bool { return slices.Contains(wholeSteps, f) })
}

func newCalibrateCmd(d *deps) *cobra.Command {
	o := new(calibrateOptions)
	cmd := &cobra.Command{
		Use:   "calibrate FILE... -f profile.yaml",
		Short: "Fit the times of collectives, or of computations, to your own measurements",
		Long: `calibrate reads measured collectives or computations (` + strings.Join(calibrating(), ", ") + `)
and writes a profile for plan --profile. It starts from the profile of the same GPU, or of the nearest one, refits the
parameters only where the points call for it and where that predicts points left out better, and corrects the rest at the
measured sizes. Eight all-reduces (2 ranks and all ranks; 4 KiB, 1 MiB, 32 MiB, 512 MiB; CUDA graph) are a good start.

Operation tables (GEMM, attention, MoE) give a profile of computations instead: launch time, tensor-core and memory
efficiency of every kind with six rows and more. Collectives and computations go into profiles of their own.`,
		Example: "  rankmap calibrate all_reduce.txt all_gather.txt -f mycluster.yaml\n  rankmap calibrate rankmap-validation.json -f mycluster.yaml\n  rankmap plan --profile mycluster.yaml ...",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return inputErrf("want at least one file of measurements")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			o.files = args
			return runCalibrate(d, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "profile to write; - is standard output")
	f.StringVarP(&o.format, "output", "o", "", "format of the summary: text, json, yaml (default text)")
	f.StringVar(&o.rows.system, "system", "", "GPU of files that name none, such as h200_sxm; otherwise only rows of that system")
	f.StringVar(&o.rows.launch, "launch", "", "graph or eager, where the file does not say (old nccl-tests output)")
	f.BoolVar(&o.lasting, "lasting", false, "computations were timed under lasting load, not in short bursts: what the tensor cores lose is reported as the sustained clock")
	f.StringArrayVar(&o.profiles, "profile", nil, "profile to start from instead of the built-in one")
	return cmd
}

// calibration is the summary of one run; errors are percent.
type calibration struct {
	System    string             `json:"system" yaml:"system"`
	Base      string             `json:"base" yaml:"base"`         // profile that it started from
	Relation  string             `json:"relation" yaml:"relation"` // of the base to the system
	Rows      int                `json:"rows" yaml:"rows"`
	Points    int                `json:"points" yaml:"points"` // measurements used, repeats merged
	Inside    int                `json:"insideBand" yaml:"insideBand"`
	Refitted  bool               `json:"refitted" yaml:"refitted"`
	Corrected bool               `json:"corrected" yaml:"corrected"`
	Before    float64            `json:"medianAPEBefore" yaml:"medianAPEBefore"`
	After     float64            `json:"medianAPEAfter" yaml:"medianAPEAfter"` // each point left out in turn
	Ranks     []int              `json:"ranks" yaml:"ranks"`
	Notes     []string           `json:"notes" yaml:"notes"`
	Skipped   []accuracy.Skipped `json:"skipped" yaml:"skipped"`
}

// runCalibrate reads the files, calibrates and writes the profile: whole or not at all.
func runCalibrate(d *deps, o *calibrateOptions) error {
	if o.file == "" {
		return withHint(inputErrf("no profile to write: -f is missing"), "give -f profile.yaml, or -f - for standard output")
	}
	if o.format != "" && !slices.Contains([]string{"text", "json", "yaml"}, o.format) {
		return inputErrf("unknown output format %q (known: text, json, yaml)", o.format)
	}
	cat, profiles, users, err := loadProfiles(d, o.profiles)
	if err != nil {
		return err
	}
	opts, err := o.rows.resolve(cat)
	if err != nil {
		return err
	}
	files, err := readMeasured(d, o.files)
	if err != nil {
		return err
	}
	if opts.System == "" {
		if opts.System, err = systemOf(d, cat, files); err != nil {
			return err
		}
	}
	if ops, rows := opsOf(files, opts.System); len(ops) > 0 {
		if rows > 0 {
			return inputErrf("collectives and computations go into profiles of their own: calibrate with one kind of files at a time")
		}
		if len(users.kernels()) < len(users) {
			return inputErrf("--profile: a profile of collectives is no start for computations")
		}
		data, sum, err := calibrateKernels(d.Configs, cat, users.kernels(), ops, o.lasting)
		if err != nil {
			return inputErr(err)
		}
		return o.finish(d, data, sum)
	}
	if len(users.kernels()) > 0 {
		return inputErrf("--profile: a profile of computations is no start for collectives")
	}
	if o.lasting {
		return inputErrf("--lasting is about computations, the files hold collectives")
	}
	points, skipped, err := accuracy.NewWith(cat, profiles, opts).Points(files...)
	if err != nil {
		return inputErr(err)
	}
	if len(points) == 0 {
		for i := range files {
			if slices.Contains(wholeSteps, files[i].Format) {
				return inputErrf("no row can calibrate: %s (%s) times whole steps, not collectives or computations", files[i].Name, files[i].Format)
			}
		}
		return inputErrf("no row can calibrate: %s", reasonsOf(skipped))
	}
	profile, sum, err := calibrate(cat, profiles, points, o.files)
	if err != nil {
		return inputErr(err)
	}
	sum.Skipped = skipped
	var b bytes.Buffer
	if err := hardware.WriteCollective(&b, profile, "Calibrated by rankmap calibrate. Units: us, GB/s one way."); err != nil {
		return err
	}
	if _, err := hardware.ReadCollective(bytes.NewReader(b.Bytes()), o.file); err != nil {
		return fmt.Errorf("the calibrated profile is not valid: %w", err)
	}
	return o.finish(d, b.Bytes(), sum)
}

// opsOf gathers computations, of one system where one is asked for, and counts rows of the other kind.
func opsOf(files []measured.File, system string) (ops []measured.OpRow, rows int) {
	for i := range files {
		rows += len(files[i].Rows)
		for _, r := range files[i].Ops {
			if r.System == "" {
				r.System = system
			}
			if system == "" || strings.TrimSuffix(r.System, "_server") == system {
				ops = append(ops, r)
			}
		}
	}
	return ops, rows
}

// finish writes the profile, then says what was done.
func (o *calibrateOptions) finish(d *deps, profile []byte, sum interface{ text() string }) error {
	out := output{file: o.file}
	if err := out.write(d, profile, append(slices.Clone(o.files), o.profiles...)...); err != nil {
		return err
	}
	return o.summarise(d, sum)
}

// calibrate picks the base and adapts it.
func calibrate(cat *hardware.Catalog, profiles *hardware.Profiles, points []collective.Point, files []string) (*hardware.CollectiveProfile, *calibration, error) {
	gpu, err := cat.GPU(points[0].System)
	if err != nil {
		return nil, nil, err
	}
	base, relation, err := collective.BaseFor(profiles, gpu)
	if err != nil {
		return nil, nil, err
	}
	co := collective.CalibrationOptions{Relation: relation, Source: strings.Join(baseNames(files), ", "), Profiles: profiles}
	if host := profiles.Host(gpu.System); host != nil {
		co.FloorUs = host.FloorUs
	}
	profile, rep, err := collective.Calibrate(base, points, co)
	if err != nil {
		return nil, nil, errors.Join(append([]error{err}, noteErrors(rep.Notes)...)...)
	}
	return profile, &calibration{
		System: gpu.System, Base: base.Source, Relation: relation.String(), Rows: rep.Points, Points: rep.Used, Inside: rep.Inside,
		Refitted: rep.Refitted, Corrected: rep.Corrected, Before: tenth(rep.Before), After: tenth(rep.After), Ranks: rep.GroupSizes, Notes: rep.Notes,
	}, nil
}

// baseNames drops the folders, so that a profile does not depend on where it was made.
func baseNames(files []string) []string {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = filepath.Base(f)
	}
	return names
}

func noteErrors(notes []string) []error {
	var errs []error
	for _, n := range notes {
		errs = append(errs, errors.New(n))
	}
	return errs
}

// tenth rounds a percentage; one that cannot be told (a single point) becomes 0.
func tenth(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return math.Round(v*10) / 10
}

func reasonsOf(skipped []accuracy.Skipped) string {
	parts := make([]string, len(skipped))
	for i, s := range skipped {
		parts[i] = fmt.Sprintf("%d %s", s.N, s.Reason)
	}
	return strings.Join(parts, "; ")
}

// summarise says what was done: on standard output, or on the talk stream when that holds the profile.
func (o *calibrateOptions) summarise(d *deps, c interface{ text() string }) error {
	w := d.Stdout
	if o.file == "-" {
		w = d.Stderr
	}
	var data []byte
	var err error
	switch o.format {
	case "json":
		data, err = marshalJSON(c)
	case "yaml":
		data, err = marshalYAML(c)
	default:
		data = []byte(c.text())
	}
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// text is the summary for people.
func (c *calibration) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d measurements from %d rows, ranks %s; %d inside the 80 %% interval of the base\n", c.System, c.Points, c.Rows, strings.Trim(fmt.Sprint(c.Ranks), "[]"), c.Inside)
	did := "parameters kept"
	if c.Refitted {
		did = "parameters refitted"
	}
	if c.Corrected {
		did += ", correction added at the measured sizes"
	}
	fmt.Fprintf(&b, "base: %s (%s)\n%s\n", c.Base, c.Relation, did)
	fmt.Fprintf(&b, "median error: %g %% before, %g %% after (each point predicted from the others)\n", c.Before, c.After)
	for _, n := range c.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	for _, s := range c.Skipped {
		fmt.Fprintf(&b, "not used: %d %s\n", s.N, s.Reason)
	}
	return b.String()
}
