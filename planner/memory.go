package planner

import (
	"rankmap/layout"
	"rankmap/model"
)

// memoryParts lists what a GPU holds, in a fixed order.
func memoryParts(m *model.Memory) []layout.MemoryPart {
	return []layout.MemoryPart{
		{Name: "weights", GB: gb(m.Weights)},
		{Name: "kv cache", GB: gb(m.KV)},
		{Name: "activations", GB: gb(m.Activations)},
		{Name: "logits", GB: gb(m.Logits)},
		{Name: "gradients", GB: gb(m.Gradients)},
		{Name: "optimizer", GB: gb(m.Optimizer)},
		{Name: "runtime", GB: gb(m.Overhead)},
	}
}
