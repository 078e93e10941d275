package validate

import (
	"errors"
	"fmt"
	"slices"

	"rankmap/internal/parallel"
	"rankmap/validate/nccl"
)

// Job is what a run works on: the part of a layout that can be measured.
type Job struct {
	Name   string     `json:"name"`
	Digest string     `json:"digest"` // of the layout's bytes
	Ranks  []JobRank  `json:"ranks"`
	Groups []JobGroup `json:"groups"`
}

// JobRank is one process and its GPU.
type JobRank struct {
	Rank      int    `json:"rank"`
	Host      string `json:"host"`
	LocalRank int    `json:"localRank"`
	GPU       int    `json:"gpu"`            // NVML index on the host
	UUID      string `json:"uuid,omitempty"` // wins over PCI, which wins over GPU
	PCI       string `json:"pci,omitempty"`

	NICs []string `json:"nics,omitempty"` // that the plan gives it
}

// JobGroup is the ranks of one collective. All groups of a kind are disjoint.
type JobGroup struct {
	Kind        parallel.Dim    `json:"kind"`
	Members     []int           `json:"members"`
	Collectives []JobCollective `json:"collectives"`
}

// JobCollective is one operation with its prediction. Times are microseconds for one call.
type JobCollective struct {
	Name         string      `json:"name"`
	Phase        string      `json:"phase,omitempty"`
	Op           parallel.Op `json:"op"`
	Bytes        int64       `json:"bytes"`
	DType        string      `json:"dtype"`
	TimesPerStep float64     `json:"timesPerStep"`
	Predicted    *Prediction `json:"predicted,omitempty"`
	// Kernel says which kernel the layout priced where that is not NCCL's, which is what gets measured: "vllm one-shot, 12.3 us".
	Kernel string `json:"kernel,omitempty"`
}

// Prediction is an estimate of one call.
type Prediction struct {
	Us        float64 `json:"us"`
	P10Us     float64 `json:"p10Us"`
	P90Us     float64 `json:"p90Us"`
	Algorithm string  `json:"algorithm,omitempty"`
	Protocol  string  `json:"protocol,omitempty"`
	Basis     string  `json:"basis,omitempty"`
}

// Question asks for a prediction.
type Question struct {
	Op       parallel.Op
	Bytes    int64
	DType    string
	Eager    bool
	Members  []int // ranks
	Siblings [][]int
	Library  string // NCCL version that runs, "2.28.9"
}

// Predictor prices what the layout did not: sizes of the sweep, eager launches, groups side by side. False means that
// it cannot; the row is then measured and not judged.
type Predictor func(Question) (Prediction, bool)

// World is the number of ranks.
func (j *Job) World() int { return len(j.Ranks) }

// Hosts lists the hosts in order of first rank.
func (j *Job) Hosts() []string {
	var hosts []string
	for _, r := range j.Ranks {
		if !slices.Contains(hosts, r.Host) {
			hosts = append(hosts, r.Host)
		}
	}
	return hosts
}

// Check reports every contradiction of the job.
func (j *Job) Check() error {
	var errs []error
	addf := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(j.Ranks) < 2 {
		addf("the layout has %d rank(s): nothing communicates, nothing to validate", len(j.Ranks))
	}
	for i, r := range j.Ranks {
		if r.Rank != i {
			addf("rank %d stands at place %d", r.Rank, i)
		}
	}
	used := map[parallel.Dim]map[int]bool{}
	for i, g := range j.Groups {
		if used[g.Kind] == nil {
			used[g.Kind] = map[int]bool{}
		}
		for _, m := range g.Members {
			switch {
			case m < 0 || m >= len(j.Ranks):
				addf("group %d (%s): member %d is outside 0..%d", i, g.Kind, m, len(j.Ranks)-1)
			case used[g.Kind][m]:
				addf("group %d (%s): rank %d is in two groups of the kind", i, g.Kind, m)
			}
			used[g.Kind][m] = true
		}
		if len(g.Members) < 2 {
			addf("group %d (%s): %d member(s), want at least 2", i, g.Kind, len(g.Members))
		}
		for _, c := range g.Collectives {
			if _, err := nccl.ParseDType(c.DType); err != nil {
				addf("group %d (%s): %s: %w", i, g.Kind, c.Name, err)
			}
			if c.Bytes < 1 {
				addf("group %d (%s): %s: %d bytes, want at least 1", i, g.Kind, c.Name, c.Bytes)
			}
		}
	}
	return errors.Join(errs[:min(len(errs), 20)]...)
}

// family is the groups of one kind: one ncclCommSplit makes a communicator for each.
type family struct {
	kind   parallel.Dim
	groups []JobGroup
}

// families lists the groups by kind, in order of first appearance. Groups that move nothing are left out.
func (j *Job) families() []family {
	var fs []family
	for _, g := range j.Groups {
		if len(g.Members) < 2 {
			continue
		}
		i := slices.IndexFunc(fs, func(f family) bool { return f.kind == g.Kind })
		if i < 0 {
			i = len(fs)
			fs = append(fs, family{kind: g.Kind})
		}
		fs[i].groups = append(fs[i].groups, g)
	}
	return fs
}
