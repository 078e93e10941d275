package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"rankmap/internal/hardware"
	"rankmap/internal/units"
	"rankmap/topology"
	"rankmap/topology/source"
)

// clusterFlags say which machine.
type clusterFlags struct {
	cluster string // several sources with commas between
	gpu     string
	nodes   int
	nicRate string
	fabric  string
	set     func(flag string) bool
}

func (c *clusterFlags) add(f *pflag.FlagSet) {
	f.Var((*commaList)(&c.cluster), "cluster", "machine: a preset with a count such as hgx-h100:2, or files as of rankmap discover --from (topo -m text, NCCL XML, cluster YAML, capture, network), each FILE or KIND:FILE; several are joined")
	c.addDetails(f)
}

// commaList is a flag that may be repeated; its values are joined with commas.
type commaList string

// String returns the values so far.
func (l *commaList) String() string { return string(*l) }

// Type is what help texts call the value.
func (l *commaList) Type() string { return "source" }

// Set adds a value.
func (l *commaList) Set(v string) error {
	if *l != "" {
		v = string(*l) + "," + v
	}
	*l = commaList(v)
	return nil
}

// addDetails registers what fills the gaps of a source.
func (c *clusterFlags) addDetails(f *pflag.FlagSet) {
	c.set = f.Changed
	f.StringVar(&c.gpu, "gpu", "", "GPU model where the source names none, such as h200-sxm")
	f.IntVar(&c.nodes, "nodes", 0, "how many such nodes (a file that describes one node)")
	f.StringVar(&c.nicRate, "nic-rate", "", "rate of one NIC, such as 400G: needed where the source states none")
	f.StringVar(&c.fabric, "fabric", "", "network between nodes where the source names none: InfiniBand, RoCE, EFA, Slingshot or TCP")
}

// maxInput bounds a hand-written input; fabric dumps and layouts may be larger.
const (
	maxInput = 4 << 20
	maxDump  = 256 << 20
)

// load reads the machine and names its source.
func (c *clusterFlags) load(d *deps, cat *hardware.Catalog) (*topology.Cluster, sourceInfo, error) {
	if c.cluster == "" {
		return nil, sourceInfo{}, withHint(inputErrf("no machine given: --cluster is missing"),
			"try --cluster hgx-h100:2, or rankmap plan --example")
	}
	o, err := c.options(d, cat)
	if err != nil {
		return nil, sourceInfo{}, err
	}
	res, err := source.Load(c.cluster, o)
	if err != nil {
		return nil, sourceInfo{}, inputErr(err)
	}
	info := sourceInfo{name: validName(res.Name), digest: digest(res.Bytes), files: res.Files, notes: res.Warnings}
	if note := rackNote(res.Cluster); note != "" {
		info.notes = append(slices.Clone(info.notes), note)
	}
	return res.Cluster, info, nil
}

// options turns the flags into what package source takes.
func (c *clusterFlags) options(d *deps, cat *hardware.Catalog) (source.Options, error) {
	o := source.Options{Catalog: cat, Presets: d.Configs, GPU: c.gpu, Nodes: c.nodes}
	if c.nodes < 0 || c.nodes == 0 && c.set != nil && c.set("nodes") {
		return o, inputErrf("--nodes is %d, want at least 1", c.nodes)
	}
	if c.nicRate != "" {
		r, err := units.ParseRate(c.nicRate)
		if err != nil {
			return o, inputErr(fmt.Errorf("--nic-rate: %w", err))
		}
		o.NICRate = r
	}
	if c.fabric != "" {
		k, err := source.ParseFabric(c.fabric)
		if err != nil {
			return o, inputErr(err)
		}
		o.Fabric = k
	}
	o.Read = func(name string) ([]byte, error) { return readAll(d, name, maxDump) }
	return o, nil
}

// sourceInfo is where an input came from.
type sourceInfo struct {
	name   string
	digest string
	files  []string // paths that were read
	notes  []string
}

// digest is SHA-256 in hex.
func digest(b []byte) string {
	s := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(s[:])
}

// validName is a file's name as documents hold it: what is not UTF-8 is replaced, so that they can be read again.
func validName(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

// named puts the file before what went wrong with it.
func named(name string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return fmt.Errorf("%s: %w", name, at.Err)
	}
	if strings.HasPrefix(err.Error(), name+":") {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// readAll reads a whole file of at most limit bytes.
func readAll(d *deps, name string, limit int64) ([]byte, error) {
	r, err := d.Open(name)
	if err != nil {
		return nil, named(name, err)
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, named(name, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s: is larger than %d MiB", name, limit>>20)
	}
	if len(data) == 0 {
		return nil, fmt.Errorf("%s: is empty", name)
	}
	return data, nil
}
