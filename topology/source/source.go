// Package source opens what a user names as a machine: a preset with a count, or a file of a kind that is given or
// guessed. It is the one place that knows all readers, and hands their parts to package topology for merging.
package source

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"rankmap/internal/hardware"
	"rankmap/internal/units"
	"rankmap/topology"
)

// Options is what a source may need besides itself.
type Options struct {
	Catalog *hardware.Catalog
	Presets fs.FS                             // topologies/*.yaml
	Read    func(name string) ([]byte, error) // reads a file
	GPU     string                            // model where the source names none
	Nodes   int                               // copies of a one-node source, 0 = as the source says
	NICRate units.Bandwidth                   // where a NIC states none, 0 = unknown
	Fabric  topology.FabricKind               // where the source states none
}

// Result is a finished cluster and where it came from.
type Result struct {
	Cluster  *topology.Cluster
	Name     string // "hgx-h100:2" or the file's name
	Bytes    []byte // what was read, for the digest
	Files    []string
	Warnings []string
}

// Kinds lists the file kinds that Load takes as KIND:FILE.
func Kinds() []string { return []string{"yaml", "smi", "nccl-xml"} }

// Load opens arg: "preset", "preset:N", "FILE" or "KIND:FILE".
func Load(arg string, o Options) (*Result, error) {
	if topology.IsPreset(o.Presets, arg) {
		return loadPreset(arg, o)
	}
	kind, file, explicit := strings.Cut(arg, ":")
	if !explicit || !slices.Contains(Kinds(), kind) {
		kind, file = "", arg
	}
	data, err := o.Read(file)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(arg, "/.") {
			return nil, fmt.Errorf("%q is neither a preset nor a file (presets: %s)", arg, strings.Join(topology.Presets(o.Presets), ", "))
		}
		return nil, err
	}
	if kind == "" {
		kind = guess(data)
	}
	r := &Result{Name: file, Bytes: data, Files: []string{file}}
	if err := r.read(kind, file, data, o); err != nil {
		return nil, err
	}
	return r, nil
}

func loadPreset(arg string, o Options) (*Result, error) {
	name, count, err := topology.ParsePreset(arg)
	if err != nil {
		return nil, err
	}
	if o.GPU != "" {
		return nil, fmt.Errorf("--gpu %s: the preset %s names its GPU itself", o.GPU, name)
	}
	if o.Nodes > 0 {
		return nil, fmt.Errorf("--nodes %d: give the preset a count instead, %s:%d", o.Nodes, name, o.Nodes)
	}
	data, err := fs.ReadFile(o.Presets, "topologies/"+name+".yaml")
	if err != nil {
		return nil, err
	}
	c, err := topology.Preset(o.Presets, name, count, o.Catalog)
	if err != nil {
		return nil, err
	}
	r := &Result{Name: arg, Bytes: data}
	return r, r.finish(c, o)
}

// finish applies the flags that fill what the source leaves open.
func (r *Result) finish(c *topology.Cluster, o Options) (err error) {
	if o.NICRate > 0 {
		if c, err = c.WithNICRate(o.NICRate, "flag --nic-rate", o.Catalog); err != nil {
			return err
		}
	}
	r.Cluster = c
	return nil
}

// ParseFabric reads a fabric's name, whatever its case.
func ParseFabric(s string) (topology.FabricKind, error) {
	known := []topology.FabricKind{
		topology.FabricInfiniBand, topology.FabricRoCE, topology.FabricEFA, topology.FabricSlingshot, topology.FabricTCP,
	}
	var names []string
	for _, k := range known {
		if strings.EqualFold(string(k), s) {
			return k, nil
		}
		names = append(names, string(k))
	}
	return "", fmt.Errorf("unknown fabric %q (known: %s)", s, strings.Join(names, ", "))
}
