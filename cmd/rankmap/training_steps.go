package main

import (
	"rankmap/internal/accuracy"
	"rankmap/internal/measured"
)

// publishedTraining is the GPU of tables of training steps that name none: the published one, which validators of training
// models share, is of A100 80 GB (arXiv 2205.05198, table 5).
const publishedTraining = "a100_sxm"

// trainingSteps adds the confrontation with a table of training steps.
func trainingSteps(d *deps, o *measuredOptions, f *measured.File, res *accuracy.Result) error {
	system := o.system
	if system == "" {
		system = publishedTraining
		if f.Trained[0].System == "" {
			d.warnf("%s names no GPU: taken as %s (--system)", f.Name, system)
		}
	}
	p, err := accuracy.NewPlacer(d.Configs, accuracy.Models{})
	if err != nil {
		return err
	}
	t, err := p.TrainingSteps(f.Trained, system)
	if err != nil {
		return err
	}
	res.Training = t
	res.Cases = append(res.Cases, t.Cases()...)
	res.Skipped = append(res.Skipped, t.Skipped...)
	return nil
}
