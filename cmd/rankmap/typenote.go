package main

import (
	"fmt"
	"slices"
	"strings"

	"rankmap/compute"
	"rankmap/internal/hardware"
	"rankmap/layout"
	"rankmap/model"
)

// typeNotes names the weight types of a workload that the GPU's tensor cores do not multiply, and how they are priced.
func (b *priceBook) typeNotes(sheet *hardware.GPU, s *model.Spec, w *layout.Workload) ([]string, error) {
	m, err := b.models(sheet)
	if err != nil {
		return nil, err
	}
	phase := model.Prefill
	if w.Task == trainTask {
		phase = model.Train
	}
	var unpacked, notes []string
	for _, t := range weightTypesOf(s, w) {
		if t == "bf16" {
			if sheet.TFLOPS[t] == 0 {
				notes = append(notes, sheet.System+" has no bf16: priced at the rate of fp16, in which engines run such weights there")
			}
			continue
		}
		e, err := m[phase].Price(model.ComputeOp{Kind: model.GEMM, DType: t, Times: 1, M: 4096, N: 4096, K: 4096})
		if err == nil && e.Flags&compute.WeightOnly != 0 {
			unpacked = append(unpacked, t)
		}
	}
	if len(unpacked) > 0 {
		note := fmt.Sprintf("%s has no tensor cores for %s: such weights are unpacked and multiplied in bf16", sheet.System, strings.Join(unpacked, ", "))
		if w.Task == trainTask && w.LoRA == 0 {
			note += "; training frameworks refuse the type there"
		}
		notes = append(notes, note)
	}
	return notes, nil
}

// weightTypesOf lists the types that a workload's weights multiply in: as asked for, else bf16 in training, else as stored.
func weightTypesOf(s *model.Spec, w *layout.Workload) []string {
	switch {
	case w.Weights == "fp16":
		return []string{"bf16"}
	case w.Weights != "":
		return []string{w.Weights}
	case w.Task == trainTask:
		return []string{"bf16"}
	}
	var out []string
	for i := range s.Kinds {
		for j := range s.Kinds[i].Tensors {
			t := &s.Kinds[i].Tensors[j]
			f := t.Storage.Format
			name := f.String()
			if f == model.FP16 || f == model.FP32 {
				name = "bf16"
			}
			if t.Op != "" && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}
