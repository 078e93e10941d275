package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"rankmap/configs"
	"rankmap/internal/accuracy"
)

// training writes the confrontation with the published training steps of the Megatron-LM sequence-parallelism paper.
func training(w io.Writer, file string) error {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	files, err := read(file)
	if err != nil {
		return err
	}
	p, err := accuracy.NewPlacer(configs.FS, accuracy.Models{})
	if err != nil {
		return err
	}
	t, err := p.TrainingSteps(files[0].Trained, "a100_sxm")
	if err != nil {
		return err
	}
	fmt.Fprint(w, "## Training steps\n\nThe eight end-to-end points of the Megatron-LM sequence-parallelism paper (arXiv 2205.05198, table 5; A100 80 GB) and its memory\n"+
		"bars (figure 1), which other validators of training models score on. The shipped factor of the sustained clock was read off\nthese rows; the last columns price each model with the factor that the other three give.\n\n")
	return t.WriteMarkdown(w)
}
