package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"rankmap/internal/hardware"
	"rankmap/report"
	"rankmap/topology"
	"rankmap/topology/capture"
	"rankmap/topology/ncclxml"
	"rankmap/topology/nvml"
	"rankmap/topology/source"
)

// discoverOptions are the flags of discover.
type discoverOptions struct {
	from    []string
	cluster clusterFlags
	capture string
	redact  bool
	salt    string
	out     output
}

const discoverExamples = `  rankmap discover
  rankmap discover --from smi:topo.txt --from nvlink:nvlink.txt --gpu h100-sxm -o json
  rankmap discover --from node.yaml --from slurm:topology.conf -f cluster.yaml
  rankmap discover --capture node1.tar.gz --redact`

func newDiscoverCmd(d *deps) *cobra.Command {
	o := &discoverOptions{}
	cmd := &cobra.Command{
		Use:   "discover",
		Short: "Find the GPUs, NICs, NVLinks and distances of this machine, or read them from files",
		Long: `discover describes a machine: this one, through the NVIDIA driver and sysfs, or one that files describe.
What several files say about one host is joined; several hosts and a description of the network become one cluster.

Sources: ` + strings.Join(source.Kinds(), ", ") + ` as KIND:FILE, or FILE alone: then its kind is guessed.
Exit code 4: a finding is an error. 2: a file was refused. 6: this machine cannot be read.`,
		Example: discoverExamples,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDiscover(cmd.Context(), d, o) },
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.from, "from", nil, "source, KIND:FILE or FILE; may be repeated (default: this machine)")
	f.StringVar(&o.capture, "capture", "", "also write what this machine answered to an archive that --from reads, such as node1.tar.gz")
	f.BoolVar(&o.redact, "redact", false, "replace host names, UUIDs, serial numbers, addresses and GUIDs by hashes")
	f.StringVar(&o.salt, "salt", "", "of --redact: the same salt gives the same hashes on all nodes of a cluster (default: random)")
	o.cluster.addDetails(f)
	o.out.addFlags(cmd, "table", "wide", "yaml", "json")
	f.Lookup("file").Usage = "write to a file instead of standard output; by suffix .yaml, .json, .txt, .xml (for NCCL_TOPO_FILE), .svg, .dot, .mmd, .html; - is standard output"
	return cmd
}

// runDiscover reads the sources, prints what they say and ends with 4 when a finding is an error.
func runDiscover(ctx context.Context, d *deps, o *discoverOptions) error {
	format, err := o.format(d)
	if err != nil {
		return err
	}
	cat, err := hardware.Load(d.Configs)
	if err != nil {
		return err
	}
	opts, err := o.cluster.options(d, cat)
	if err != nil {
		return err
	}
	res, err := o.read(ctx, d, opts)
	if err != nil {
		return err
	}
	for _, w := range res.Warnings {
		d.warnf("%s", sanitize(w))
	}
	view := res.View()
	data, err := renderTopology(format, res, view, d.Width)
	if err != nil {
		return err
	}
	if err := o.out.write(d, data, res.Files...); err != nil {
		return err
	}
	return tellErrors(d, view, format)
}

// maxTold bounds the findings on the talk stream.
const maxTold = 20

// tellErrors ends with 4 when a finding is an error. Where the result goes elsewhere than to a reader, the errors are
// told.
func tellErrors(d *deps, view *topology.View, format string) error {
	errs := 0
	for _, f := range view.Findings {
		if f.Severity != topology.SeverityError {
			continue
		}
		if errs++; format != "table" && format != "wide" && errs <= maxTold {
			d.warnf("%s", sanitize(f.String()))
		}
	}
	if errs == 0 {
		return nil
	}
	if errs > maxTold && format != "table" && format != "wide" {
		d.warnf("and %d more errors", errs-maxTold)
	}
	return silent(exitBelow)
}

// format is the output's: by -o, else by the suffix of -f.
func (o *discoverOptions) format(d *deps) (string, error) {
	suffix := strings.ToLower(strings.TrimPrefix(filepath.Ext(o.out.file), "."))
	if o.out.format == "" && o.out.file != "-" && suffix != "" {
		switch suffix {
		case "yml":
			return "yaml", nil
		case "txt":
			return "wide", nil
		case "yaml", "json", "xml", "svg", "dot", "mmd", "html":
			return suffix, nil
		}
		return "", inputErrf("%s: unknown suffix (known: .yaml, .json, .txt, .xml, .svg, .dot, .mmd, .html), or give -o", o.out.file)
	}
	return o.out.pick(d)
}

// read gets the machine: from files, or this one.
func (o *discoverOptions) read(ctx context.Context, d *deps, opts source.Options) (*source.Result, error) {
	if o.salt != "" && !o.redact {
		return nil, inputErrf("--salt belongs to --redact")
	}
	salt := []byte(o.salt)
	if o.redact && o.salt == "" {
		salt = make([]byte, 32)
		if _, err := rand.Read(salt); err != nil {
			return nil, err
		}
	}
	if len(o.from) > 0 {
		if o.capture != "" {
			return nil, inputErrf("--capture keeps what this machine answers: leave out --from")
		}
		res, err := source.LoadAll(o.from, opts)
		if err == nil && o.redact {
			err = res.Redact(salt, opts.Catalog)
		}
		return res, inputErr(err)
	}
	return o.live(ctx, d, opts, salt)
}

// live reads this machine, and keeps its answers where a capture is wanted.
func (o *discoverOptions) live(ctx context.Context, d *deps, opts source.Options, salt []byte) (*source.Result, error) {
	l := d.Live
	if l == nil {
		l = source.OSLive()
	}
	c, err := l.Capture(ctx)
	if err != nil {
		var no *nvml.Unavailable
		if errors.As(err, &no) {
			return nil, withHint(withCode(exitEnvironment, no), no.Hint)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, withHint(withCode(exitEnvironment, err), "see nvidia-smi; or describe a machine with --from smi:FILE")
	}
	if o.redact {
		c = capture.NewRedactor(salt, c.Host).Capture(c)
	}
	res, err := source.LoadCapture(c, "this machine", opts)
	if err != nil {
		return nil, withCode(exitEnvironment, err)
	}
	if o.capture != "" {
		var b bytes.Buffer
		if err := capture.Write(&b, c); err != nil {
			return nil, err
		}
		if err := writeFile(o.capture, b.Bytes(), 0o600); err != nil {
			return nil, err
		}
		d.warnf("captured to %s; read it with --from capture:%s", o.capture, o.capture)
	}
	return res, nil
}

// renderTopology prints in one of the formats.
func renderTopology(format string, res *source.Result, view *topology.View, width int) ([]byte, error) {
	var b bytes.Buffer
	if format == "json" {
		return marshalJSON(view)
	}
	if format == "table" || format == "wide" {
		return discoverTable(res, view, format == "wide", width)
	}
	c := res.Cluster
	if c == nil {
		if format == "yaml" {
			return nil, withHint(inputErrf("%s: %w: no cluster YAML can be made of it", res.Name, source.ErrNoGPU), "try -o json or -o table, or add --from smi:FILE")
		}
		return nil, inputErrf("%s: %w: no %s can be made of it", res.Name, source.ErrNoGPU, format)
	}
	var err error
	switch format {
	case "yaml":
		err = topology.WriteYAML(&b, c)
	case "xml":
		err = writeNCCL(&b, c)
	case "svg":
		err = report.TopologySVG(&b, c)
	case "dot":
		err = report.TopologyDOT(&b, c)
	case "mmd":
		err = report.TopologyMermaid(&b, c)
	case "html":
		err = topologyPage(&b, res, view)
	default:
		err = fmt.Errorf("no writer for %q", format)
	}
	return b.Bytes(), err
}

// writeNCCL writes the XML of the one kind of node that the machine has.
func writeNCCL(b *bytes.Buffer, c *topology.Cluster) error {
	used := map[int]bool{}
	for i := range c.Nodes {
		used[c.Nodes[i].Class] = true
	}
	if len(used) > 1 {
		return inputErrf("the machine has %d kinds of node: write the XML for each from its own source", len(used))
	}
	_, k := c.Node(0)
	return inputErr(ncclxml.Write(b, k, ncclxml.WriteOptions{Comment: []string{"written by rankmap discover for NCCL_TOPO_FILE"}}))
}
