package step

import (
	"rankmap/internal/units"
	"rankmap/model"
)

// bucketElements is how many parameters a gradient bucket holds: Megatron-LM's default, max(40e6, 1e6 x dp)
// (megatron/core/distributed/distributed_data_parallel.py).
func bucketElements(dp int) int64 { return max(40_000_000, 1_000_000*int64(dp)) }

// bucketed cuts a gradient or parameter collective into equal buckets, as training engines issue it.
func bucketed(op model.CollectiveOp, dp int) model.CollectiveOp {
	size := int64(2)
	if op.DType == "fp32" {
		size = 4
	}
	limit := bucketElements(dp) * size
	if n := (int64(op.Bytes) + limit - 1) / limit; n > 1 {
		op.Times *= int(n)
		op.Bytes = units.Bytes((int64(op.Bytes)/n + 255) &^ 255)
	}
	return op
}
