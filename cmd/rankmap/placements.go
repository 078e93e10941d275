package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"rankmap/internal/accuracy"
	"rankmap/internal/measured"
)

// placementsOptions are the flags of rankmap validate --placements: published layouts against the planner, no GPU needed.
type placementsOptions struct {
	file    string
	models  string
	configs []string
	times   bool
	out     output
}

// add registers the flags; -o and -f belong to validate and are copied in by the caller.
func (o *placementsOptions) add(f *pflag.FlagSet) {
	f.StringVar(&o.file, "placements", "", "confront the planner with published layouts: a CSV with id, model, task, gpus, gpu_type, degrees and measurements")
	f.StringVar(&o.models, "models", "", "with --placements: table of model names, configurations and shapes (default: models.tsv beside the file, else of the collection at $RANKMAP_DATA or ../shared)")
	f.StringArrayVar(&o.configs, "model-configs", nil, "with --placements: folder of the configurations that the table names (default: the table's own and models/* above it)")
	f.BoolVar(&o.times, "times-only", false, "with --placements: compare measured times alone, without searching")
}

// runPlacements reads the rows, searches each machine and prints the confrontation.
func runPlacements(ctx context.Context, d *deps, o *placementsOptions) error {
	format, err := o.out.pick(d)
	if err != nil {
		return err
	}
	r, err := d.Open(o.file)
	if err != nil {
		return inputErr(named(o.file, err))
	}
	defer r.Close()
	rows, err := measured.ReadPlacements(r, o.file)
	if err != nil {
		return inputErr(err)
	}
	models, files, err := o.modelTable(d)
	if err != nil {
		return err
	}
	p, err := accuracy.NewPlacer(d.Configs, models)
	if err != nil {
		return err
	}
	p.TimesOnly = o.times
	res, err := p.Rows(ctx, rows, nil)
	if err != nil {
		return err
	}
	data, err := renderPlacements(res, format)
	if err != nil {
		return err
	}
	if err := o.out.write(d, data, append(files, o.file)...); err != nil {
		return err
	}
	if len(res.Choices)+len(res.Sweeps)+len(res.Times) == 0 {
		d.warnf("no row could be compared; the reasons are in the result")
		return silent(exitPartial)
	}
	return nil
}

// modelTable reads the table of models and finds the folders of configurations.
func (o *placementsOptions) modelTable(d *deps) (accuracy.Models, []string, error) {
	var m accuracy.Models
	file := o.models
	if file == "" {
		file = findModelTable(d, o.file)
	}
	var files []string
	if file != "" {
		r, err := d.Open(file)
		if err != nil {
			return m, nil, inputErr(named(file, err))
		}
		defer r.Close()
		if m.Map, err = measured.ReadModelMap(r, file); err != nil {
			return m, nil, inputErr(err)
		}
		files = append(files, file)
	}
	folders := slices.Clone(o.configs)
	if len(folders) == 0 {
		var err error
		if folders, err = configFolders(d, file); err != nil {
			return m, nil, inputErr(err)
		}
	}
	for _, f := range folders {
		if strings.TrimSpace(f) == "" {
			return m, nil, inputErrf("--model-configs: want a folder")
		}
		m.Folders = append(m.Folders, fs.FS(os.DirFS(f)))
	}
	return m, files, nil
}

// collections are the folders in which a collection of real inputs lies, as the tests take it: $RANKMAP_DATA, and "shared"
// beside the working directory.
func collections(d *deps) []string {
	var out []string
	if root := d.Getenv("RANKMAP_DATA"); root != "" {
		out = append(out, root)
	}
	return append(out, filepath.Join("..", "shared"))
}

// findModelTable looks for the table of model names: beside the rows, then in the collections. "" = none, which is said.
func findModelTable(d *deps, rows string) string {
	beside := filepath.Join(filepath.Dir(rows), "models.tsv")
	if _, err := os.Stat(beside); err == nil {
		return beside
	}
	for _, root := range collections(d) {
		file := filepath.Join(root, "placements", "models.tsv")
		if _, err := os.Stat(file); err == nil {
			d.warnf("%s is missing: model names are taken from %s (--models)", beside, file)
			return file
		}
	}
	d.warnf("%s is missing: only models that rankmap knows are compared (--models)", beside)
	return ""
}

// configFolders lists where the configurations that a table names may lie: the table's folder, models/* in it and above it,
// then models/* of the collections.
func configFolders(d *deps, table string) ([]string, error) {
	var folders, patterns []string
	if table != "" {
		dir := filepath.Dir(table)
		folders = append(folders, dir)
		for _, p := range []string{"models", "models/*", "../models", "../models/*"} {
			patterns = append(patterns, filepath.Join(dir, p))
		}
	}
	for _, root := range collections(d) {
		patterns = append(patterns, filepath.Join(root, "models"), filepath.Join(root, "models", "*"))
	}
	for _, p := range patterns {
		found, err := filepath.Glob(p)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if st, err := os.Stat(f); err == nil && st.IsDir() && !slices.Contains(folders, f) {
				folders = append(folders, f)
			}
		}
	}
	return folders, nil
}

// renderPlacements prints the result in a format.
func renderPlacements(res *accuracy.Placements, format string) ([]byte, error) {
	switch format {
	case "json":
		return marshalJSON(res.Summary())
	case "yaml":
		return marshalYAML(res.Summary())
	}
	var b bytes.Buffer
	err := res.WriteTable(&b, format == "wide")
	return b.Bytes(), err
}

// measuredRuns adds training steps and serving points of files that hold some to a confrontation with measurements.
func measuredRuns(d *deps, o *measuredOptions, files []measured.File, res *accuracy.Result) error {
	for i := range files {
		f := &files[i]
		if len(f.Trained) > 0 {
			if err := trainingSteps(d, o, f, res); err != nil {
				return err
			}
			continue
		}
		if len(f.Placed)+len(f.Serving) == 0 {
			continue
		}
		models, _, err := (&placementsOptions{file: f.Name}).modelTable(d)
		if err != nil {
			return err
		}
		p, err := accuracy.NewPlacer(d.Configs, models)
		if err != nil {
			return err
		}
		more := p.Runs(f, o.system)
		res.Cases = append(res.Cases, more.Cases...)
		res.Skipped = append(res.Skipped, more.Skipped...)
	}
	return nil
}
