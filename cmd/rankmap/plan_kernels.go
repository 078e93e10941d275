package main

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"rankmap/collective"
	"rankmap/internal/engine"
)

// kernelChoice is --kernels: whose all-reduce runs inside a node.
type kernelChoice struct{ name string }

func (k *kernelChoice) add(f *pflag.FlagSet) {
	f.StringVar(&k.name, "kernels", "engine", "whose all-reduce is priced inside a node: nccl, engine (the --target's own where it has one, else NCCL), or one of vllm, sglang, trtllm, symm (PyTorch symmetric memory), with a version such as vllm@0.19.0")
}

// options turns the flag into the options of the price model, and into what the layout records: "" for NCCL as the default,
// "nccl" where the flag says so, else the library and its version.
func (k *kernelChoice) options(target *engine.Engine, cost string) (collective.Options, string, error) {
	name, version, versioned := strings.Cut(k.name, "@")
	switch {
	case versioned && (name == "engine" || name == "nccl" || version == ""):
		return collective.Options{}, "", inputErrf("--kernels %s: want a version after the name of a library alone, such as vllm@0.19.0", k.name)
	case name == "engine":
		if target == nil || cost != "calibrated" || !slices.Contains(collective.Frameworks(), target.Name) {
			return collective.Options{}, "", nil
		}
		name, version = target.Name, target.Version
	case !slices.Contains(collective.Frameworks(), name):
		return collective.Options{}, "", inputErrf("--kernels %q is unknown (known: engine, %s)", k.name, strings.Join(collective.Frameworks(), ", "))
	case name == "nccl":
		return collective.Options{}, "nccl", nil
	case cost != "calibrated":
		return collective.Options{}, "", inputErrf("--kernels %s goes with --cost calibrated: the textbook knows no kernels", k.name)
	}
	record := name
	if version != "" {
		record += "@" + version
	}
	return collective.Options{Kernels: name, KernelVersion: version}, record, nil
}
