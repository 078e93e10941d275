// Package parallel holds the words of model parallelism: degrees, dimensions and their order, the kinds of group, and
// the arithmetic between a rank and its coordinates. It knows no model and no machine.
//
// GPUs of a plan = tp x pp x cp x dp. Attention uses tp x cp x dp ranks of a pipeline stage; experts use the same ranks
// as expertTP x ep x (expert replicas), with equal products. Both sides are always named.
package parallel

import (
	"errors"
	"fmt"
	"strings"
)

// Dim is a dimension of parallelism.
type Dim uint8

// The dimensions. DP counts every attention replica, those of attention-dp included.
const (
	TP Dim = iota
	CP
	EP
	DP
	PP
	ExpertTP // only as a group kind: the ranks that share one expert's matrices
	ExpertDP // only as a group kind: the ranks that hold the same experts
	numDims
)

var dimNames = [numDims]string{"tp", "cp", "ep", "dp", "pp", "expert-tp", "expert-dp"}

// String returns the dimension's name, such as "tp".
func (d Dim) String() string {
	if d < numDims {
		return dimNames[d]
	}
	return fmt.Sprintf("dim(%d)", uint8(d))
}

// MarshalText writes the name.
func (d Dim) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the name.
func (d *Dim) UnmarshalText(b []byte) error {
	for i, n := range dimNames {
		if n == strings.ToLower(string(b)) {
			*d = Dim(i)
			return nil
		}
	}
	return fmt.Errorf("unknown dimension %q (known: tp, cp, ep, dp, pp)", b)
}

// Strategy is one way to split a model. Zero degrees mean 1 after Normalize.
type Strategy struct {
	TP int // tensor parallel, attention and dense layers
	PP int // pipeline stages
	DP int // data parallel: attention replicas in all, those of attention-dp included
	CP int // context parallel
	EP int // expert parallel: how many ways the routed experts are dealt out; 1 = every rank group holds all
	// ExpertTP splits each expert's matrices. EP*ExpertTP divides TP*CP*DP.
	ExpertTP int
	// Order lists tp, cp, dp, pp (ep may stand anywhere), fastest varying first. Empty means tp, cp, ep, dp, pp.
	Order []Dim

	RedundantExperts int    // extra physical experts a layer, copies that a load balancer places (serving); 0 = none
	Interleave       int    // virtual pipeline stages a rank (training); 0 or 1 = none
	SequenceParallel bool   // Megatron sequence parallelism over the TP group
	ZeRO             int    // 0 plain, 1, 2, 3
	Recompute        string // "", "selective", "full" (training)
	// RecomputeLayers bounds full recomputation to the first layers of every virtual stage (Megatron's method "block"); 0 = all.
	RecomputeLayers int
	// OffloadLayers are the first layers whose kept results wait in the host's memory between the forward and the backward pass
	// (training without a pipeline; Megatron's cpu_offloading_num_layers); 0 = none.
	OffloadLayers int
	// FirstStage and LastStage are the layers of the first and of the last virtual stage, where these hold another number
	// than the others, as embedding and head are work too; 0 = as the others.
	FirstStage, LastStage int
	MicroBatch            int // sequences a micro-batch (training), or a pipeline micro-batch (serving)
}

// DefaultOrder is Megatron's default, fastest varying first.
var DefaultOrder = []Dim{TP, CP, EP, DP, PP}

// Normalize returns s with zero degrees set to 1 and an explicit order.
func (s Strategy) Normalize() Strategy {
	for _, p := range []*int{&s.TP, &s.PP, &s.DP, &s.CP, &s.EP, &s.ExpertTP, &s.Interleave} {
		if *p == 0 {
			*p = 1
		}
	}
	if len(s.Order) == 0 {
		s.Order = DefaultOrder
	}
	return s
}

// World is the number of ranks.
func (s Strategy) World() int { return s.TP * s.PP * s.DP * s.CP }

// StageRanks is the number of ranks of one pipeline stage.
func (s Strategy) StageRanks() int { return s.TP * s.DP * s.CP }

// AttentionDP is the number of attention replicas that share one set of experts: ep*expertTP/(tp*cp), at least 1.
func (s Strategy) AttentionDP() int { return max(1, s.EP*s.ExpertTP/(s.TP*s.CP)) }

// ExpertDP is how many copies of the experts a stage holds.
func (s Strategy) ExpertDP() int { return s.StageRanks() / (s.EP * s.ExpertTP) }

// Check reports every contradiction of the degrees, without a model or a machine.
func (s Strategy) Check() error {
	var errs []error
	for _, d := range []struct {
		name string
		v    int
	}{{"tp", s.TP}, {"pp", s.PP}, {"dp", s.DP}, {"cp", s.CP}, {"ep", s.EP}, {"expertTp", s.ExpertTP}} {
		if d.v < 1 {
			errs = append(errs, fmt.Errorf("%s is %d, want at least 1", d.name, d.v))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if s.StageRanks()%(s.EP*s.ExpertTP) != 0 {
		errs = append(errs, fmt.Errorf("ep %d x expertTp %d does not divide tp x cp x dp = %d", s.EP, s.ExpertTP, s.StageRanks()))
	}
	seen := map[Dim]int{}
	for _, d := range s.Order {
		seen[d]++
	}
	for _, d := range []Dim{TP, CP, DP, PP} {
		if seen[d] != 1 {
			errs = append(errs, fmt.Errorf("order %v names %s %d times, want once", s.Order, d, seen[d]))
		}
	}
	return errors.Join(errs...)
}

// String prints the degrees that are not 1, "tp8 pp2 dp4 ep32"; "1 GPU" when all are.
func (s Strategy) String() string {
	var b []string
	for _, d := range []struct {
		name string
		v    int
	}{{"tp", s.TP}, {"pp", s.PP}, {"dp", s.DP}, {"cp", s.CP}, {"ep", s.EP}, {"etp", s.ExpertTP}} {
		if d.v > 1 {
			b = append(b, fmt.Sprintf("%s%d", d.name, d.v))
		}
	}
	if s.RedundantExperts > 0 {
		b = append(b, fmt.Sprintf("+%d experts", s.RedundantExperts))
	}
	if len(b) == 0 {
		return "1 GPU"
	}
	return strings.Join(b, " ")
}
