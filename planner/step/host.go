package step

import (
	"rankmap/internal/units"
	"rankmap/model"
)

// EagerOp is the time in which a host starts one operation of a training step when each is issued from Python: forward,
// its autograd node, and the kernels that an operation hides (reshapes, casts). Read off the 10 steps with tp 4 of vTrain's
// single-node table (A100, micro-batches of one sequence of 1,024 tokens), which take 3.0 to 3.5 ms a layer at either hidden size,
// so that no GPU limit binds.
const EagerOp = units.Duration(60e-6)

// How much less and more than EagerOp a host takes: 42 us an operation on the Xeon of H200 (3.8 ms for the 90 of a GPT layer), 5 ms a
// layer where eight ranks of vTrain's A100 machine wait for the slowest of their hosts, against 3.2.
const fastHost, slowHost = 0.7, 1.5

// waitForHost stretches a stage to the time that the host needs to start its operations, or, where each waits for the one before
// it, by that time: on H200 a layer whose operations took the host 3 to 4 ms took 2 to 4 ms longer with CUDA_LAUNCH_BLOCKING=1,
// large or small (docs/measurements/h200/2026-11-30-training/host.csv).
func (r *Result) waitForHost(op units.Duration, blocking bool) {
	host := units.Duration(r.launches) * op
	if host <= r.Time && !blocking {
		return
	}
	fast, slow := host*fastHost, host*slowHost
	wait := Band{rest(host, r.Time), rest(fast, r.P10), rest(slow, r.P90)}
	if blocking {
		wait = Band{host, fast, slow}
	}
	r.add(Part{Name: "host", Kind: "overhead", Band: wait})
}

// loopShare is how many launches from a loop inside one operation take a host as long as one operation: a product or a cast
// that Transformer Engine's C++ code starts, some 20 us, against one from Python (EagerOp).
const loopShare = 3.5

// hostOps is how many operations the host starts for all executions of an operation in training: a product, an attention
// core (two backward: the core and its preparation), or as many as its list says.
func hostOps(op *model.ComputeOp) int {
	n := max(1, op.Kernels)
	if op.Backward && (op.Kind == model.AttnPrefill || op.Kind == model.MLAPrefill) {
		n = 2
	}
	n *= op.Times
	if op.Looped {
		n = int(float64(n) / loopShare)
	}
	return n
}
