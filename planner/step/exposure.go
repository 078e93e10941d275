package step

import (
	"strings"

	"rankmap/collective"
	"rankmap/model"
)

// backwardShare is the part of a micro-batch that a backward pass takes: two products for each of the forward pass
// (Narayanan et al., SC21, section 2.2), without recomputation.
const backwardShare = 2.0 / 3

// besideRate is how fast a transfer that NVLink bounds goes beside a large matrix product, whose blocks hold the
// multiprocessors that would copy: all-reduces of 16 to 256 MiB took 1.5 to 1.7 times as long beside products of 4,096 rows on
// two H200, which themselves took no longer (contention.csv, default channels). What a NIC bounds needs few of them.
const besideRate = 0.6

// hidden is transfers that run beside computation.
type hidden struct {
	alone Band // as long as they take with nothing beside
	cover Band // of computation that hides them
}

// peerToPeer says that a transfer stays on NVLink: the copies of user buffers reach no further (Transformer Engine,
// examples/pytorch/comm_gemm_overlap: tensor-parallel GPUs must be connected over NVLink).
func peerToPeer(est *collective.Estimate) bool {
	return strings.HasPrefix(est.Bottleneck, "NVLink") && !strings.Contains(est.Bottleneck, "between nodes")
}

// add files a transfer that takes b in all.
func (o *hidden) add(b Band, est *collective.Estimate) {
	o.alone = o.alone.Add(b)
	if strings.HasPrefix(est.Bottleneck, "NVLink") {
		b = b.Scale(1 / besideRate)
	}
	o.cover = o.cover.Add(b)
}

// copied files a transfer that copy engines make, which take nothing from computation (user buffers).
func (o *hidden) copied(b Band) { o.alone, o.cover = o.alone.Add(b), o.cover.Add(b) }

// exposed is what is left of the transfers after a computation, at least tail.
func (o *hidden) exposed(beside, tail Band) Band {
	if o.cover.Time <= 0 {
		return tail
	}
	f := float64(o.alone.Time / o.cover.Time)
	left := Band{rest(o.cover.Time, beside.Time), rest(o.cover.P10, beside.P90), rest(o.cover.P90, beside.P10)}.Scale(f)
	return Band{max(left.Time, tail.Time), max(left.P10, tail.P10), max(left.P90, tail.P90)}
}

// exposure adds up what data parallelism moves once a step, as it can hide: gradients beside the last backward pass,
// parameters beside the first forward pass. The last bucket of gradients is complete only when that pass ends, and the first
// layers need their parameters before it starts: one bucket of each is never hidden.
type exposure struct {
	gradients, parameters hidden
	lastBucket, first     Band // the longest bucket of each
	alone                 Band // what nothing hides
}

// add files a collective of a step with its price.
func (e *exposure) add(op *model.CollectiveOp, est *collective.Estimate) {
	one := Band{est.Time, est.P10, est.P90}
	all := one.Scale(float64(op.Times))
	switch {
	case !op.Overlappable:
		e.alone = e.alone.Add(all)
	case op.Name == model.ParameterGather:
		e.parameters.add(all, est)
		e.first = longer(e.first, one)
	default:
		e.gradients.add(all, est)
		e.lastBucket = longer(e.lastBucket, one)
	}
}

// exposed is what remains beside a micro-batch of the slowest stage.
func (e *exposure) exposed(in *TrainInput, pace Band) Band {
	if in.Serial {
		return e.alone.Add(e.gradients.alone).Add(e.parameters.alone)
	}
	back := pace.Scale(backwardShare)
	return e.alone.Add(e.gradients.exposed(back, e.lastBucket)).Add(e.parameters.exposed(pace.Add(back.Scale(-1)), e.first))
}

func longer(a, b Band) Band {
	if b.Time > a.Time {
		return b
	}
	return a
}
