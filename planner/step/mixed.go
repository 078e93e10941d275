package step

import (
	"math"

	"rankmap/internal/units"
	"rankmap/model"
)

// A mixed step carries the tokens of decoding sequences and a piece of a prompt through the same kernels. Matrix products
// read their weights once for both, which is what makes chunked prefill cheap beside decode (Agrawal et al., Sarathi-Serve,
// OSDI 2024, section 3); attention runs once for each kind.

// joinOps adds the computations of a chunk to those of decode, in place. Operations that run over all tokens of the step
// (products with weights, experts, elementwise) become one of both sizes; attention stays apart. chunked says for each
// result whether the chunk has a part in it.
func joinOps(ops, chunk []model.ComputeOp, chunked []bool) ([]model.ComputeOp, []bool) {
	chunked = chunked[:0]
	own := len(ops)
	for range ops {
		chunked = append(chunked, false)
	}
	for i := range chunk {
		c := &chunk[i]
		if j := partner(ops[:own], chunked, c); j >= 0 {
			join1(&ops[j], c)
			chunked[j] = true
			continue
		}
		ops, chunked = append(ops, *c), append(chunked, true)
	}
	return ops, chunked
}

// thin leaves the experts the tokens of the replicas that have a piece of a prompt; the exchange is paced by those.
func thin(chunk []model.ComputeOp, share float64) {
	if share <= 0 || share >= 1 {
		return
	}
	for i := range chunk {
		if o := &chunk[i]; o.Kind == model.MoE && o.Dispatched {
			o.MoETokens = max(1, int(math.Ceil(float64(o.MoETokens)*share)))
			o.FLOPs *= share
			o.Bytes = units.Bytes(float64(o.Bytes) * share)
		}
	}
}

// partner finds the operation of decode that runs over the same weights as one of the chunk; -1 = none.
func partner(ops []model.ComputeOp, taken []bool, c *model.ComputeOp) int {
	for j := range ops {
		o := &ops[j]
		if taken[j] || o.Name != c.Name || o.Kind != c.Kind || o.Times != c.Times || o.DType != c.DType {
			continue
		}
		switch c.Kind {
		case model.GEMM:
			if o.N == c.N && o.K == c.K {
				return j
			}
		case model.MoE:
			if o.Hidden == c.Hidden && o.Inter == c.Inter && o.Dispatched == c.Dispatched {
				return j
			}
		case model.Elementwise:
			return j
		}
	}
	return -1
}

// join1 makes one operation of two over the same weights.
func join1(o, c *model.ComputeOp) {
	switch o.Kind {
	case model.GEMM:
		// Traffic is a m + w: two sizes give the weights, which are read once. Of one size twice, activations and results of 2
		// bytes are the least that is not weights.
		w := float64(o.Bytes) - 2*float64(o.M)*float64(o.K+o.N)
		if d := float64(c.M - o.M); d != 0 {
			w = (float64(o.Bytes)*float64(c.M) - float64(c.Bytes)*float64(o.M)) / d
		}
		o.Bytes -= units.Bytes(max(0, min(w, float64(o.Bytes))))
		o.M += c.M
	case model.MoE:
		o.MoETokens += c.MoETokens
	}
	o.Bytes += c.Bytes
	o.FLOPs += c.FLOPs
	o.Kernels = max(o.Kernels, c.Kernels)
}

// joinCollectives does the same for the collectives of a step: one of both sizes where decode has it.
func joinCollectives(all, chunk []model.CollectiveOp, from int) []model.CollectiveOp {
	end := len(all)
next:
	for i := range chunk {
		c := &chunk[i]
		for j := from; j < end; j++ {
			o := &all[j]
			if o.Name != c.Name || o.Op != c.Op || o.Group != c.Group || o.DType != c.DType || o.Times != c.Times || o.Overlappable != c.Overlappable {
				continue
			}
			o.Bytes += c.Bytes
			if o.Exchange != nil && c.Exchange != nil {
				x := *o.Exchange
				x.TokensPerRank += c.Exchange.TokensPerRank
				o.Exchange = &x
			}
			continue next
		}
		all = append(all, *c)
	}
	return all
}

// Passage is one micro-batch on its way through the pipeline of an inference engine.
type Passage struct {
	Pace    Band // the slowest stage: how often a micro-batch can follow another
	Through Band // all stages: from entering to the sampled token
	Kernels int  // launches of the busiest stage
	Stages  int  // a token passes, each with a step of the host
	Ring    int  // micro-batches that follow each other round the pipeline: a token takes that many times Pace
}

// Pass prices a micro-batch of an inference engine on every stage: Input.Work is the batch of a replica, which is cut into
// one micro-batch for each stage as long as there are sequences; Input.Chunk goes with one of them. Overhead is not in it.
func Pass(in Input) (Passage, error) {
	in.Brief = true
	m := min(in.Strategy.PP, max(1, in.Work.Batch))
	w := in.Work
	if w.Phase == model.Decode {
		w.Batch = (w.Batch + m - 1) / m
	}
	all, err := stages(in, w)
	if err != nil {
		return Passage{}, err
	}
	p := Passage{Ring: in.Strategy.PP, Stages: in.Strategy.PP}
	for i := range all {
		if p.Through = p.Through.Add(all[i].Band); all[i].Time > p.Pace.Time {
			p.Pace = all[i].Band
		}
		p.Kernels = max(p.Kernels, all[i].launches)
	}
	if m < in.Strategy.PP { // too few to fill the pipeline: each waits for its own return
		p.Pace, p.Ring = p.Through, 1
	}
	return p, nil
}
