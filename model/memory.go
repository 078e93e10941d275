package model

import (
	"math"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// MemoryOptions say what a GPU offers and how training stores its state.
type MemoryOptions struct {
	// Capacity is what the process may use of the GPU's memory; 0 = limits are not computed.
	Capacity units.Bytes
	// Overhead replaces the estimate of CUDA context, communicators and graphs; 0 = estimate.
	Overhead units.Bytes
	Training Training
}

// Memory is what one GPU of the fullest stage holds, by part. The parts add up to Total.
type Memory struct {
	Stage       int         `json:"stage" yaml:"stage"`
	Weights     units.Bytes `json:"weights" yaml:"weights"`
	KV          units.Bytes `json:"kv" yaml:"kv"` // cache and recurrent state of all sequences of the replica
	Activations units.Bytes `json:"activations" yaml:"activations"`
	Logits      units.Bytes `json:"logits" yaml:"logits"`
	Gradients   units.Bytes `json:"gradients" yaml:"gradients"`
	Optimizer   units.Bytes `json:"optimizer" yaml:"optimizer"`
	Overhead    units.Bytes `json:"overhead" yaml:"overhead"` // CUDA context, NCCL, graphs, scratch: an estimate
	// PerSequence is the cache of one sequence at the work's context on this GPU.
	PerSequence units.Bytes `json:"perSequence" yaml:"perSequence"`
	// MaxBatch sequences of the work's context fit, and MaxContext tokens for the work's batch; 0 without a capacity or
	// when not even the weights fit.
	MaxBatch   int `json:"maxBatch,omitempty" yaml:"maxBatch,omitempty"`
	MaxContext int `json:"maxContext,omitempty" yaml:"maxContext,omitempty"`
}

// Total is the sum of the parts.
func (m Memory) Total() units.Bytes {
	return m.Weights + m.KV + m.Activations + m.Logits + m.Gradients + m.Optimizer + m.Overhead
}

// Estimates of what a process holds beside tensors. No published figures: order of what nvidia-smi shows for PyTorch
// processes on H100 and H200.
const (
	cudaContext  = 600 << 20
	communicator = 200 << 20 // NCCL channels and buffers, for each group kind in use
	servingExtra = 512 << 20 // CUDA graphs and workspaces
	// trainScratch is at least what Transformer Engine keeps for weight gradients; see largest below.
	trainScratch = 1 << 30
)

// maxStackKinds is how many kinds of layer are summed without allocation.
const maxStackKinds = 64

// Memory returns what a GPU of the fullest pipeline stage holds for a step.
func (s *Spec) Memory(st parallel.Strategy, w Work, o MemoryOptions) Memory {
	x := s.shapeOf(&st, &w)
	var stack [maxStackKinds]kindMemory
	kinds := stack[:0]
	if len(s.Kinds) > maxStackKinds {
		kinds = make([]kindMemory, 0, len(s.Kinds))
	}
	d := x.degrees()
	largest := 0.0
	for i := range s.Kinds {
		km := s.kindMemory(&s.Kinds[i], &x, &w, &st, d, o.Training)
		largest = max(largest, km.largest)
		kinds = append(kinds, km)
	}
	var worst Memory
	for stage := range x.pp {
		m := s.stageMemory(kinds, &x, &st, &w, stage, o, largest)
		if stage == 0 || m.Total() > worst.Total() {
			worst = m
		}
	}
	if o.Capacity > 0 {
		s.limits(&worst, kinds, &x, &st, &w, o, largest)
	}
	return worst
}

// kindMemory is what one layer of a kind takes on a GPU.
type kindMemory struct {
	weights        float64 // bytes
	dense, experts float64 // parameters
	kv             float64 // bytes a sequence
	saved          float64 // bytes of activations kept for the backward pass, one micro-batch
	input          float64 // bytes kept by a layer whose forward pass runs again
	live           float64 // bytes of activations alive at once inside the layer (inference)
	largest        float64 // bytes of the largest weight in bf16
	adapters       float64 // trained parameters beside frozen weights
}

func (s *Spec) kindMemory(k *Kind, x *shape, w *Work, st *parallel.Strategy, d degrees, t Training) kindMemory {
	var m kindMemory
	for i := range k.Tensors {
		ts := &k.Tensors[i]
		share := ts.share(d)
		p := float64(ts.Params()) * share
		if ts.Part == PartExperts {
			m.experts += p
		} else {
			m.dense += p
			m.largest = max(m.largest, 2*p)
		}
		m.weights += float64(ts.as(x.store).bytes(*ts)) * share
	}
	if w.Phase == Train {
		m.saved, m.input, m.adapters = s.savedBytes(k, x, w, st, t), inputBytes(s, x), k.adapterParams(w.LoRA, d)
		return m
	}
	m.kv = k.Mixer.sequence(max(w.Context, w.Tokens), x.tp, x.cp, x.cache)
	m.live = s.liveBytes(k, x)
	return m
}

// liveBytes is what one layer holds at once for its tokens beside the residual stream: the widest of its inner results.
func (s *Spec) liveBytes(k *Kind, x *shape) float64 {
	t := float64(x.tokens)
	mix := 0.0
	switch m := &k.Mixer; m.Kind {
	case Attention, Compressed:
		mix = t * 2 * float64((2*ceilDiv(m.Heads, x.tp)+2*m.kvHeadsOn(x.tp))*m.HeadDim)
	case MLA:
		mix = t * 2 * float64(ceilDiv(m.Heads, x.tp)*(2*m.HeadDim+2*m.VHeadDim))
	case NoMixer:
	default:
		mix = t * 2 * float64(m.InProj+2*m.Inner) * unitShare(max(m.Heads, 1), x.tp)
	}
	f := &k.FFN
	wide := 2.0
	if f.Gated {
		wide = 3
	}
	ffn := t * 2 * wide * float64(ceilDiv(max(f.Inter, 0), x.tp))
	if f.Kind == Experts {
		tokens := x.tokens
		if x.exchange {
			tokens = x.own * x.ep * x.etp
		}
		in := s.Hidden
		if f.Latent > 0 {
			in = f.Latent
		}
		slots := float64(tokens) * float64(f.effectiveTopK()) / float64(x.ep)
		// Rows in and out of the experts, their inner width, and as much again for buffers of the exchange.
		ffn += slots * 2 * (2*float64(in) + wide*float64(ceilDiv(f.ExpertInter, x.etp)))
		if x.exchange {
			ffn += slots * 2 * float64(in)
		}
	}
	return max(mix, ffn)
}

func (s *Spec) stageMemory(kinds []kindMemory, x *shape, st *parallel.Strategy, w *Work, stage int, o MemoryOptions, largest float64) Memory {
	d := x.degrees()
	var weights, dense, experts, adapters, kv, saved, live, redoing float64
	layers := 0
	for i := range kinds {
		n := s.kindsOn(i, x.cut, stage)
		if n == 0 {
			continue
		}
		layers += n
		f := float64(n)
		weights += kinds[i].weights * f
		dense += kinds[i].dense * f
		experts += kinds[i].experts * f
		adapters += kinds[i].adapters * f
		kv += kinds[i].kv * f
		if r := s.redoneOn(i, x.cut, st, stage); w.Phase == Train && r > 0 {
			saved += kinds[i].saved*(f-float64(r)) + kinds[i].input*float64(r)
			redoing = max(redoing, kinds[i].saved)
		} else {
			off := float64(s.offloadedOn(i, x.cut, st, stage))
			saved += kinds[i].saved * (f - off)
			if off > 0 { // one layer is computed on while the next is on its way
				redoing = max(redoing, 2*kinds[i].saved)
			}
		}
		live = max(live, kinds[i].live)
	}
	for i := range s.outer {
		t := &s.outer[i]
		if !s.outerOn(t, stage, x.pp) {
			continue
		}
		if t.Part == PartEmbedding && stage == x.pp-1 && stage != 0 && !s.Tied {
			continue
		}
		share := t.share(d)
		weights += float64(t.as(x.store).bytes(*t)) * share
		dense += float64(t.Params()) * share
	}
	m := Memory{Stage: stage}
	rows := float64(max(w.Batch, 1))
	vocab := float64(ceilDiv(s.Vocab, x.tp))
	if w.Phase == Train {
		if w.LoRA.frozen() {
			s.frozenMemory(&m, x, st, o.Training.norm(), weights, adapters, layers)
		} else {
			s.stateMemory(&m, x, st, o.Training.norm(), dense, experts, layers)
		}
		// A layer whose forward pass runs again holds all its results while its backward pass runs.
		m.Activations = bytesOf(saved*inFlight(x, stage) + redoing)
		if stage == x.pp-1 {
			// bf16 logits and their fp32 copy.
			m.Logits = bytesOf(6 * float64(x.tokens) * vocab)
		}
		m.Overhead = o.Overhead
		if m.Overhead == 0 {
			m.Overhead = cudaContext + bytesOf(max(trainScratch, largest)) + s.communicators(x)
		}
		return m
	}
	m.Weights = bytesOf(weights)
	m.PerSequence = bytesOf(kv)
	m.KV = bytesOf(kv * float64(w.Batch))
	// Residual stream, its normalised copy and the layer's result.
	m.Activations = bytesOf(float64(x.tokens)*float64(s.Hidden)*2*3 + live)
	if stage == x.pp-1 {
		m.Logits = bytesOf(rows * (6*vocab + 2*vocab*float64(x.tp-1)))
	}
	m.Overhead = o.Overhead
	if m.Overhead == 0 {
		m.Overhead = cudaContext + servingExtra + s.communicators(x)
	}
	return m
}

func bytesOf(f float64) units.Bytes {
	if f > math.MaxInt64/4 {
		return math.MaxInt64 / 16
	}
	return units.Bytes(math.Ceil(f))
}

func (s *Spec) communicators(x *shape) units.Bytes {
	n := 0
	for _, d := range [...]int{x.tp, x.cp, x.pp} {
		if d > 1 {
			n++
		}
	}
	if x.exchange && x.ep*x.etp > 1 {
		n++
	}
	return units.Bytes(n) * communicator
}

// limits finds the largest batch and the largest context that fit beside the worst stage's fixed parts. A larger batch
// scales cache, activations and logits alike; a longer context grows the cache alone.
func (s *Spec) limits(m *Memory, kinds []kindMemory, x *shape, st *parallel.Strategy, w *Work, o MemoryOptions, largest float64) {
	batch := max(w.Batch, 1)
	fixed := m.Weights + m.Gradients + m.Optimizer + m.Overhead
	per := float64(m.KV+m.Activations+m.Logits) / float64(batch)
	if free := float64(o.Capacity - fixed); free > 0 && per > 0 {
		m.MaxBatch = int(min(free/per, 1<<30))
	}
	if w.Phase == Train {
		return
	}
	free := float64(o.Capacity-fixed-m.Activations-m.Logits) / float64(batch)
	kv := func(context int) float64 {
		sum := 0.0
		for i := range s.Kinds {
			if n := s.kindsOn(i, x.cut, m.Stage); n > 0 {
				sum += float64(n) * s.Kinds[i].Mixer.sequence(context, x.tp, x.cp, x.cache)
			}
		}
		return sum
	}
	limit := s.MaxContext
	if limit == 0 {
		limit = 1 << 24
	}
	lo, hi := 0, limit
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if kv(mid) <= free {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	m.MaxContext = lo
}
