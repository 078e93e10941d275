package main

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"rankmap/collective"
	"rankmap/compute"
	"rankmap/internal/engine"
	"rankmap/internal/units"
	"rankmap/model"
	"rankmap/planner"
)

// fusedSuffix after a library's name says that its all-reduces do the norm that follows as well.
const fusedSuffix = "+norm"

// kernelChoice is --kernels: whose all-reduce runs inside a node, and with "+norm" whether it does the norm after it too.
type kernelChoice struct{ name string }

func (k *kernelChoice) add(f *pflag.FlagSet) {
	f.StringVar(&k.name, "kernels", "engine", "whose all-reduce is priced inside a node: nccl, engine (the --target's own where it has one, else NCCL), or one of vllm, sglang, trtllm, symm (PyTorch symmetric memory), with a version such as vllm@0.19.0; +norm behind a library fuses the norm that follows (vllm+norm)")
}

// options turns the flag into the options of the price model, and into what the layout records: "" for NCCL as the default,
// "nccl" where the flag says so, else the library and its version.
func (k *kernelChoice) options(target *engine.Engine, cost string) (collective.Options, string, error) {
	base, fused := strings.CutSuffix(k.name, fusedSuffix)
	name, version, versioned := strings.Cut(base, "@")
	switch {
	case fused && (name == "nccl" || name == "symm"):
		return collective.Options{}, "", inputErrf("--kernels %s: no such kernel does the norm (known: engine, vllm, sglang, trtllm)", k.name)
	case versioned && (name == "engine" || name == "nccl" || version == ""):
		return collective.Options{}, "", inputErrf("--kernels %s: want a version after the name of a library alone, such as vllm@0.19.0", k.name)
	case name == "engine":
		if target == nil || cost != "calibrated" || !slices.Contains(collective.Frameworks(), target.Name) {
			if fused {
				return collective.Options{}, "", inputErrf("--kernels %s goes with --cost calibrated and a --target whose own all-reduce is known", k.name)
			}
			return collective.Options{}, "", nil
		}
		name, version = target.Name, target.Version
	case !slices.Contains(collective.Frameworks(), name):
		return collective.Options{}, "", inputErrf("--kernels %q is unknown (known: engine, %s)", base, strings.Join(collective.Frameworks(), ", "))
	case name == "nccl":
		return collective.Options{}, "nccl", nil
	case cost != "calibrated":
		return collective.Options{}, "", inputErrf("--kernels %s goes with --cost calibrated: the textbook knows no kernels", k.name)
	}
	record := name
	if version != "" {
		record += "@" + version
	}
	if fused {
		record += fusedSuffix
	}
	return collective.Options{Kernels: name, KernelVersion: version}, record, nil
}

// check refuses a version of a library that cannot be the measured one's kin, and an inference library in training. Versions
// between and near the measured ones are priced by them and flagged.
func (k *kernelChoice) check(o collective.Options, b *priceBook, task string) error {
	base, _ := strings.CutSuffix(k.name, fusedSuffix)
	if o.Kernels == "" {
		return nil
	}
	if base == "engine" {
		if known := b.measuredVersions(o.Kernels); !kin(known, o.KernelVersion) {
			return inputErrf("--target %s@%s: no %s %s is known (measured: %s): leave the version out for the newest rules", o.Kernels, o.KernelVersion, o.Kernels, o.KernelVersion, strings.Join(known, ", "))
		}
		return nil
	}
	if task == trainTask && o.Kernels != "symm" {
		return inputErrf("--kernels %s goes with inference: the all-reduce of %s has no place in a training step (want nccl or symm)", k.name, o.Kernels)
	}
	if o.KernelVersion == "" {
		return nil
	}
	if !engine.IsVersion(o.KernelVersion) {
		return inputErrf("--kernels %s: %q is no version: want numbers such as %s@0.19.0", k.name, o.KernelVersion, o.Kernels)
	}
	if measured := b.measuredVersions(o.Kernels); !kin(measured, o.KernelVersion) {
		return inputErrf("--kernels %s: no %s %s is known (measured: %s)", k.name, o.Kernels, o.KernelVersion, strings.Join(measured, ", "))
	}
	return nil
}

// kin says whether a version shares its first number with a measured one; no version and nothing measured count as yes.
func kin(measured []string, version string) bool {
	return version == "" || len(measured) == 0 || slices.ContainsFunc(measured, func(v string) bool { return engine.SameMajor(v, version) })
}

// measuredVersions lists the versions of a library whose all-reduce some profile holds, sorted.
func (b *priceBook) measuredVersions(library string) []string {
	var out []string
	for _, system := range b.profiles.Systems() {
		for _, c := range b.profiles.Collective(system).Custom {
			if c.Kernel == library {
				out = append(out, c.Libraries...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// fuse completes the options where the all-reduces do the norm as well: what that saves, from the prices of the norm's own kernel.
func (k *kernelChoice) fuse(o *collective.Options, b *priceBook, r *planner.Request) error {
	if !strings.HasSuffix(k.name, fusedSuffix) {
		return nil
	}
	if r.Workload.Task == string(planner.TrainStep) {
		return inputErrf("--kernels %s goes with inference: training's norms keep their inputs for the backward pass", k.name)
	}
	sheet, err := oneGPU(r.Cluster, b.cat)
	if err != nil {
		return err
	}
	kernels, err := b.models(sheet)
	if err != nil {
		return err
	}
	o.Fused, err = normOf(kernels[model.Decode])
	return err
}

// normOf asks a GPU's kernel prices for what an element-wise kernel takes to start, and for the memory rate that it reaches.
func normOf(m *compute.Model) (collective.Norm, error) {
	const bytes = units.Bytes(1e9)
	start, err := m.Price(model.ComputeOp{Kind: model.Elementwise, Name: "norm", Kernels: 1})
	if err != nil {
		return collective.Norm{}, err
	}
	move, err := m.Price(model.ComputeOp{Kind: model.Elementwise, Name: "norm", Bytes: bytes})
	if err != nil || move.Time <= 0 {
		return collective.Norm{}, err
	}
	return collective.Norm{LaunchUs: start.Time.Micros(), MemoryGBps: float64(bytes) / 1000 / move.Time.Micros()}, nil
}
