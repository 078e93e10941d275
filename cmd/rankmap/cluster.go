package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"rankmap/internal/hardware"
	"rankmap/internal/units"
	"rankmap/topology"
	"rankmap/topology/source"
)

// clusterFlags say which machine.
type clusterFlags struct {
	cluster string
	gpu     string
	nodes   int
	nicRate string
	fabric  string
}

func (c *clusterFlags) add(f *pflag.FlagSet) {
	f.StringVar(&c.cluster, "cluster", "", "machine: a preset with a count such as hgx-h100:2, or a file (topo -m text, NCCL XML, cluster YAML), optionally KIND:FILE")
	f.StringVar(&c.gpu, "gpu", "", "GPU model where the source names none, such as h200-sxm")
	f.IntVar(&c.nodes, "nodes", 0, "how many such nodes (a file that describes one node)")
	f.StringVar(&c.nicRate, "nic-rate", "", "rate of one NIC where the source states none, such as 400G")
	f.StringVar(&c.fabric, "fabric", "", "network between nodes: InfiniBand, RoCE, EFA, Slingshot or TCP")
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
	o := source.Options{Catalog: cat, Presets: d.Configs, GPU: c.gpu, Nodes: c.nodes}
	if c.nodes < 0 {
		return nil, sourceInfo{}, inputErrf("--nodes is %d, want at least 1", c.nodes)
	}
	if c.nicRate != "" {
		r, err := units.ParseRate(c.nicRate)
		if err != nil {
			return nil, sourceInfo{}, inputErr(fmt.Errorf("--nic-rate: %w", err))
		}
		o.NICRate = r
	}
	if c.fabric != "" {
		k, err := source.ParseFabric(c.fabric)
		if err != nil {
			return nil, sourceInfo{}, inputErr(err)
		}
		o.Fabric = k
	}
	o.Read = func(name string) ([]byte, error) { return readAll(d, name, maxDump) }
	res, err := source.Load(c.cluster, o)
	if err != nil {
		return nil, sourceInfo{}, inputErr(err)
	}
	info := sourceInfo{name: res.Name, digest: digest(res.Bytes), files: res.Files, notes: res.Warnings}
	return res.Cluster, info, nil
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

// readAll reads a whole file of at most limit bytes.
func readAll(d *deps, name string, limit int64) ([]byte, error) {
	r, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s: is larger than %d MiB", name, limit>>20)
	}
	if len(data) == 0 {
		return nil, fmt.Errorf("%s: is empty", name)
	}
	return data, nil
}
