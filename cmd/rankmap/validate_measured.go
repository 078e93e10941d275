package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"rankmap/internal/accuracy"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/internal/units"
	"rankmap/topology/source"
)

// measuredOptions are the flags of rankmap validate --measured: predictions against tables of measurements, no GPU
// needed.
type measuredOptions struct {
	files       []string
	system      string
	launch      string
	nics        int
	nicRate     string
	fabric      string
	profiles    []string
	noMulticast bool
	out         output
}

// add registers the flags. -o and -f belong to validate and are copied in by the caller.
func (o *measuredOptions) add(f *pflag.FlagSet) {
	f.StringArrayVar(&o.files, "measured", nil, "confront predictions with measurements: "+strings.Join(measured.Formats(), ", ")+"; further files may follow as arguments")
	f.StringVar(&o.system, "system", "", "with --measured: GPU of files that name none, such as h200_sxm; otherwise only rows of that system")
	f.StringVar(&o.launch, "launch", "", "graph or eager: all that is measured; with --measured, where the file does not say (old nccl-tests output)")
	f.IntVar(&o.nics, "nics", 0, "with --measured: NICs of a node, for files over several nodes that do not say")
	f.StringVar(&o.nicRate, "nic-rate", "", "with --measured: rate of one NIC, such as 400G")
	f.StringVar(&o.fabric, "fabric", "", "with --measured: network between nodes: InfiniBand, RoCE, EFA, Slingshot or TCP")
	f.StringArrayVar(&o.profiles, "profile", nil, "profile of rankmap calibrate to use instead of the built-in one")
	f.BoolVar(&o.noMulticast, "no-multicast", false, "in-switch reduction is off, or was when a table was measured (NCCL_NVLS_ENABLE=0)")
}

// runMeasured reads the files, prices every row and prints the errors.
func runMeasured(d *deps, o *measuredOptions) error {
	format, err := o.out.pick(d)
	if err != nil {
		return err
	}
	cat, profiles, users, err := loadProfiles(d, o.profiles)
	if err != nil {
		return err
	}
	opts, err := o.resolve(cat)
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
	res := accuracy.NewWith(cat, profiles, opts).WithKernels(d.Configs, users.kernels()...).Rows(files...)
	if err := measuredRuns(d, o, files, &res); err != nil {
		return err
	}
	if o.system != "" && len(res.Cases) == 0 {
		if found := systemsIn(cat, files); len(found) > 0 && !slices.Contains(found, opts.System) {
			return inputErrf("--system %s: no such rows (found: %s)", o.system, strings.Join(found, ", "))
		}
	}
	data, err := renderMeasured(&res, format)
	if err != nil {
		return err
	}
	if err := o.out.write(d, data, append(o.files, o.profiles...)...); err != nil {
		return err
	}
	if len(res.Cases) == 0 {
		d.warnf("no row could be compared; the reasons are in the result")
		return silent(exitPartial)
	}
	return nil
}

// resolve turns the flags into options.
func (o *measuredOptions) resolve(cat *hardware.Catalog) (accuracy.Options, error) {
	opts := accuracy.Options{System: o.system, NICs: o.nics, NoMulticast: o.noMulticast}
	var errs []error
	if o.system != "" {
		if sheet, err := cat.GPU(o.system); err == nil {
			opts.System = sheet.System // "h200-sxm" and "h200" are h200_sxm; other names are taken as the tables print them
		}
	}
	if o.launch != "" {
		opts.Launch = new(measured.Launch)
		if err := opts.Launch.UnmarshalText([]byte(o.launch)); err != nil {
			errs = append(errs, fmt.Errorf("--launch: %w", err))
		}
	}
	if o.nics < 0 || o.nics > 1024 {
		errs = append(errs, fmt.Errorf("--nics is %d, want 1 to 1024", o.nics))
	}
	if o.nicRate != "" {
		var err error
		if opts.NICRate, err = units.ParseRate(o.nicRate); err != nil {
			errs = append(errs, fmt.Errorf("--nic-rate: %w", err))
		}
	}
	if o.fabric != "" {
		k, err := source.ParseFabric(o.fabric)
		if err != nil {
			errs = append(errs, err)
		}
		opts.Fabric = string(k)
	}
	return opts, inputErr(errors.Join(errs...))
}

// readMeasured reads all files and reports the problems of all of them.
func readMeasured(d *deps, names []string) ([]measured.File, error) {
	var files []measured.File
	var errs []error
	for _, name := range names {
		r, err := d.Open(name)
		if err != nil {
			errs = append(errs, named(name, err))
			continue
		}
		f, err := measured.Read(r, name)
		r.Close()
		errs = append(errs, err)
		files = append(files, f)
	}
	return files, inputErr(errors.Join(errs...))
}

// systemOf finds the GPU of files that name none in what the machine says of itself beside them (smi.txt or host.txt, as
// a capture leaves them). "" when every file names its own. A file without either is an input error.
func systemOf(d *deps, cat *hardware.Catalog, files []measured.File) (string, error) {
	found, named := "", false
	for i := range files {
		f := &files[i]
		nameless := len(f.Rows) > 0 && f.Rows[0].System == "" && f.Rows[0].GPU == "" || len(f.Ops) > 0 && f.Ops[0].System == "" || len(f.Steps) > 0
		if !nameless {
			named = named || len(f.Rows)+len(f.Ops) > 0
			continue
		}
		system, from := gpuBeside(d, cat, f.Name)
		if system == "" {
			return "", inputErrf("%s: names no GPU: --system is missing (known: %s)", f.Name, strings.Join(cat.Systems(), ", "))
		}
		d.warnf("%s: names no GPU; %s by %s beside it", f.Name, system, from)
		if found != "" && found != system {
			return "", inputErrf("%s: was taken on %s, another file on %s: compare them one by one", f.Name, system, found)
		}
		found = system
	}
	if found != "" && named {
		for i := range files {
			for j := range files[i].Rows {
				if r := &files[i].Rows[j]; r.System == "" && r.GPU == "" {
					r.System = found
				}
			}
			for j := range files[i].Ops {
				if o := &files[i].Ops[j]; o.System == "" {
					o.System = found
				}
			}
		}
		return "", nil // other files name their own systems: no filter
	}
	return found, nil
}

// systemsIn lists the systems that the files name, sorted.
func systemsIn(cat *hardware.Catalog, files []measured.File) []string {
	seen := map[string]bool{}
	for i := range files {
		for j := range files[i].Rows {
			r := &files[i].Rows[j]
			if s := accuracy.SystemOf(cat, r); s != "" {
				seen[s] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// gpuBeside looks for a GPU's name in the files that a capture leaves beside a measurement.
func gpuBeside(d *deps, cat *hardware.Catalog, name string) (system, from string) {
	if name == "-" {
		return "", ""
	}
	for _, sibling := range []string{"smi.txt", "host.txt"} {
		file := filepath.Join(filepath.Dir(name), sibling)
		data, err := readAll(d, file, maxInput)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if sheet := cat.ByName(line); sheet != nil {
				return sheet.System, path.Base(filepath.ToSlash(file))
			}
		}
	}
	return "", ""
}

// renderMeasured prints in the wanted format.
func renderMeasured(res *accuracy.Result, format string) ([]byte, error) {
	switch format {
	case "json":
		return marshalJSON(res.Summary())
	case "yaml":
		return marshalYAML(res.Summary())
	}
	var b bytes.Buffer
	err := res.WriteTable(&b)
	return b.Bytes(), err
}
