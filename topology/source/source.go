// Package source opens what a user names as a machine: presets with a count, files of a kind that is given or guessed,
// captures, and the machine it runs on. It is the one place that knows all readers. It joins what several sources say
// about one host and hands the hosts to package topology for merging.
package source

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"rankmap/internal/hardware"
	"rankmap/internal/strictyaml"
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

// Result is a machine and where it came from.
type Result struct {
	// Cluster is nil where no source describes a GPU of a node: then Partial is what is known.
	Cluster  *topology.Cluster
	Partial  *topology.View
	Name     string // "hgx-h100:2" or the file's name
	Bytes    []byte // what was read, for the digest
	Files    []string
	Warnings []string
	Findings []topology.Finding // where sources contradict each other, beyond what the cluster itself finds

	links  []topology.ViewLink // of the network as described, beside or (cabled) in place of what the cluster derives
	cabled bool
}

// Kinds of file that name a reader as KIND:FILE, in the order of help texts.
var kinds = []string{"smi", "nvlink", "ibv", "ibstat", "lspci", "nccl-xml", "ibnetdiscover", "slurm", "topograph", "yaml", "capture"}

// Kinds lists the file kinds that Load takes as KIND:FILE.
func Kinds() []string { return slices.Clone(kinds) }

// ErrNoGPU says that the sources describe no GPU, so that no cluster can be made of them.
var ErrNoGPU = errors.New("no source describes the GPUs of a node")

// Load opens arg for planning: "preset", "preset:N", "FILE" or "KIND:FILE", or several with commas between. A machine
// without any GPU is an error.
func Load(arg string, o Options) (*Result, error) {
	r, err := LoadAll(split(arg, o.Read), o)
	if err != nil {
		return nil, err
	}
	if r.Cluster == nil {
		return nil, fmt.Errorf("%s: %w: give the output of nvidia-smi topo -m, an NCCL XML or a cluster YAML of one node as well", arg, ErrNoGPU)
	}
	return r, nil
}

// split cuts a list at commas. A file whose name holds a comma is taken as one.
func split(arg string, read func(string) ([]byte, error)) []string {
	if !strings.Contains(arg, ",") {
		return []string{arg}
	}
	_, file := cutKind(arg)
	if _, err := read(file); err == nil {
		return []string{arg}
	}
	return strings.Split(arg, ",")
}

// LoadAll opens several sources and makes one machine of them: what is said about one host is joined, many hosts and
// descriptions of the network are merged.
func LoadAll(args []string, o Options) (*Result, error) {
	if len(args) == 1 && topology.IsPreset(o.Presets, args[0]) {
		return loadPreset(args[0], o)
	}
	a := &assembly{opts: o, res: &Result{Name: strings.Join(args, ",")}}
	var errs []error
	for _, arg := range args {
		if err := a.open(arg, len(args) == 1); err != nil {
			errs = append(errs, err)
		}
	}
	if err := joinErrors(errs); err != nil {
		return nil, err
	}
	if err := a.finish(); err != nil {
		return nil, err
	}
	return a.res, nil
}

// maxProblems bounds how many problems are told at once.
const maxProblems = 20

func joinErrors(errs []error) error {
	if len(errs) > maxProblems {
		errs = append(errs[:maxProblems:maxProblems], fmt.Errorf("and %d more", len(errs)-maxProblems))
	}
	return errors.Join(errs...)
}

// cutKind splits "KIND:FILE"; kind is empty when none of the known ones is given.
func cutKind(arg string) (kind, file string) {
	kind, file, explicit := strings.Cut(arg, ":")
	if !explicit || !slices.Contains(kinds, kind) {
		return "", arg
	}
	return kind, file
}

// open reads one source into parts.
func (a *assembly) open(arg string, alone bool) error {
	kind, file := cutKind(arg)
	if file == "" {
		return fmt.Errorf("%q names no file: want KIND:FILE", arg)
	}
	data, err := a.opts.Read(file)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) && kind == "" {
			return unknownSource(arg, err, a.opts.Presets)
		}
		return err
	}
	if kind == "" {
		kind = guess(data)
	}
	if alone {
		a.res.Name = file
	}
	a.res.Bytes = append(a.res.Bytes, data...)
	a.res.Files = append(a.res.Files, file)
	return a.read(kind, file, data)
}

// unknownSource says what a name that is no file may have meant.
func unknownSource(arg string, err error, presets fs.FS) error {
	kind, _, explicit := strings.Cut(arg, ":")
	switch {
	case topology.IsPreset(presets, arg):
		return fmt.Errorf("%s: a preset stands alone: leave out the other sources", arg)
	case explicit && !strings.ContainsAny(kind, "/.\\"):
		return fmt.Errorf("%q: %q is neither a preset nor a kind of file (presets: %s; kinds: %s)", arg, kind, strings.Join(topology.Presets(presets), ", "), strings.Join(kinds, ", "))
	case !strings.ContainsAny(arg, "/."):
		return fmt.Errorf("%q is neither a preset nor a file%s", arg, strictyaml.DidYouMean(arg, topology.Presets(presets)))
	}
	return err
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
	switch {
	case o.Fabric == "":
	case c.Fabric.Kind == "":
		c.Fabric.Kind = o.Fabric
	case c.Fabric.Kind != o.Fabric:
		return fmt.Errorf("--fabric %s: %s names its network itself, %s: leave the flag out, or write the machine out (rankmap discover --from %s -f cluster.yaml) and change fabric.kind", o.Fabric, r.Name, c.Fabric.Kind, r.Name)
	}
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
