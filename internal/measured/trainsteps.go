package measured

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"rankmap/internal/units"
)

// TrainingStep is one published training run of a GPT network with its shape, its layout, and what was measured: the time
// of a step, or the memory of the fullest GPU.
type TrainingStep struct {
	Line                                      int
	Model, System                             string // System is empty where the table names no GPU
	Hidden, MLP, Layers, Heads, SeqLen, Vocab int
	GPUs, TP, PP, DP, Interleave              int
	Batch, MicroBatch                         int    // sequences
	Recompute                                 string // "none", "selective", "full"
	SequenceParallel                          bool
	Time                                      units.Duration // 0 = not measured
	States, Activations                       units.Bytes    // weights, gradients and optimizer; activations; 0 = not measured
}

// trainingColumns are those without which a file is no table of training steps.
var trainingColumns = []string{"model", "hidden", "layers", "heads", "seq", "vocab", "gpus", "tp", "pp", "dp", "batch", "microbatch", "recompute", "step_s"}

// recomputations maps the spellings of the tables to ours.
var recomputations = map[string]string{"": "none", "none": "none", "full": "full", "selective": "selective", "attention only": "selective"}

// ReadTrainingSteps reads a CSV table of training steps by its header; columns may come in any order among others. Errors:
// missing columns, sizes that are not whole numbers of at least 1, rows that measure nothing.
func ReadTrainingSteps(r io.Reader, name string) ([]TrainingStep, error) {
	t, cols, err := table(r, name)
	if err != nil {
		return nil, err
	}
	if !hasAll(cols, trainingColumns) {
		return nil, fmt.Errorf("%s:1: not a table of training steps: want the columns %s", name, strings.Join(trainingColumns, ","))
	}
	var out []TrainingStep
	err = t.each(name, func(line int, vals []string) error {
		s, err := trainingStep(&record{cols: cols, vals: vals})
		if err != nil {
			return err
		}
		s.Line = line
		out = append(out, s)
		return nil
	})
	return out, err
}

// trainingStep reads a row.
func trainingStep(r *record) (TrainingStep, error) {
	text := func(col string) string {
		if _, ok := r.cols[col]; !ok {
			return ""
		}
		return strings.Clone(strings.TrimSpace(r.str(col)))
	}
	s := TrainingStep{Model: text("model"), System: text("system"), SequenceParallel: text("sequence_parallel") == "yes"}
	var errs []error
	for _, f := range []struct {
		col  string
		into *int
		free bool
	}{
		{"hidden", &s.Hidden, false}, {"layers", &s.Layers, false}, {"heads", &s.Heads, false}, {"seq", &s.SeqLen, false}, {"vocab", &s.Vocab, false},
		{"gpus", &s.GPUs, false}, {"tp", &s.TP, false}, {"pp", &s.PP, false}, {"dp", &s.DP, false}, {"batch", &s.Batch, false}, {"microbatch", &s.MicroBatch, false},
		{"interleave", &s.Interleave, true}, {"mlp", &s.MLP, true},
	} {
		v := text(f.col)
		if v == "" && f.free {
			continue
		}
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > 1<<30 {
			errs = append(errs, fmt.Errorf("%s is %q, want a whole number of at least 1", f.col, v))
		}
		*f.into = n
	}
	var ok bool
	if s.Recompute, ok = recomputations[text("recompute")]; !ok {
		errs = append(errs, fmt.Errorf("recompute is %q, want none, full, selective or attention only", text("recompute")))
	}
	positive := func(col string) float64 {
		v := text(col)
		if v == "" {
			return 0
		}
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || !(f > 0) || math.IsInf(f, 0) || f > 1e12 {
			errs = append(errs, fmt.Errorf("%s is %q, want a number above 0", col, v))
			return 0
		}
		return f
	}
	s.Time = units.Duration(positive("step_s"))
	s.States = units.Bytes(positive("params_optimizer_gib") * (1 << 30))
	s.Activations = units.Bytes(positive("activations_gib") * (1 << 30))
	if len(errs) == 0 && s.Time == 0 && s.States == 0 && s.Activations == 0 {
		errs = append(errs, errors.New("the row measures neither a step nor memory"))
	}
	return s, errors.Join(errs...)
}
