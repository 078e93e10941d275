package source

import (
	"bytes"
	"errors"
	"fmt"

	"rankmap/topology"
	"rankmap/topology/ncclxml"
	"rankmap/topology/smi"
)

// guess names the kind of a file by its content; text that nothing else claims goes to the topo -m reader, which says
// what a foreign text is.
func guess(data []byte) string {
	head := data[:min(len(data), 8192)]
	switch {
	case ncclxml.Sniff(head) != "":
		return "nccl-xml"
	case bytes.Contains(head, []byte("apiVersion:")) || bytes.Contains(head, []byte("\nclasses:")) || bytes.HasPrefix(head, []byte("classes:")):
		return "yaml"
	}
	return "smi"
}

// read fills the result from one file.
func (r *Result) read(kind, file string, data []byte, o Options) error {
	switch kind {
	case "yaml":
		if o.Nodes > 0 || o.GPU != "" {
			return fmt.Errorf("%s: a cluster YAML states its nodes and GPUs itself: leave out --nodes and --gpu", file)
		}
		c, err := topology.ReadYAML(bytes.NewReader(data), file, o.Catalog)
		if err != nil {
			return err
		}
		return r.finish(c, o)
	case "smi":
		res, err := smi.Read(bytes.NewReader(data), file)
		if err != nil {
			return err
		}
		for _, w := range res.Warnings {
			r.Warnings = append(r.Warnings, w.String())
		}
		return r.fromNodes(file, res.Nodes, res.Facts, o)
	case "nccl-xml":
		res, err := ncclxml.Read(bytes.NewReader(data), file)
		if err != nil {
			return err
		}
		r.Warnings = append(r.Warnings, res.Warnings...)
		var nodes []topology.NodeClass
		for _, h := range res.Hosts {
			nodes = append(nodes, h.Class)
		}
		return r.fromNodes(file, nodes, res.Facts, o)
	}
	return fmt.Errorf("%s: no reader for kind %q", file, kind)
}

// fromNodes makes a cluster of node descriptions: one node taken o.Nodes times, or the several that the file holds.
func (r *Result) fromNodes(file string, nodes []topology.NodeClass, facts []topology.Fact, o Options) error {
	if len(nodes) == 0 {
		return fmt.Errorf("%s: describes no node", file)
	}
	if len(nodes) > 1 && o.Nodes > 1 {
		return fmt.Errorf("%s: describes %d nodes: leave out --nodes", file, len(nodes))
	}
	for i := range nodes {
		if nodes[i].Name == "" {
			nodes[i].Name = fmt.Sprintf("node%d", i)
		}
		if err := nameGPUs(file, &nodes[i], o); err != nil {
			return err
		}
	}
	fabric := topology.Fabric{Kind: o.Fabric}
	if len(nodes) == 1 {
		c, err := topology.Replicate(nodes[0], max(1, o.Nodes), fabric, o.Catalog)
		if err != nil {
			return err
		}
		c.Facts = append(c.Facts, facts...)
		return r.finish(c, o)
	}
	c := &topology.Cluster{Name: file, Fabric: fabric}
	for i, n := range nodes {
		c.Classes = append(c.Classes, n)
		c.Nodes = append(c.Nodes, topology.Node{Name: n.Name, Class: i})
	}
	c.Facts = facts
	if err := c.Finish(o.Catalog); err != nil {
		return err
	}
	return r.finish(c, o)
}

// nameGPUs applies --gpu where the source names no model, and refuses it where the source names another.
func nameGPUs(file string, n *topology.NodeClass, o Options) error {
	if o.GPU == "" {
		return nil
	}
	sheet, err := o.Catalog.GPU(o.GPU)
	if err != nil {
		return fmt.Errorf("--gpu: %w", err)
	}
	var errs []error
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if g.Model == "" && g.Name != "" {
			if s := o.Catalog.ByName(g.Name); s != nil {
				g.Model = s.System
			}
		}
		switch g.Model {
		case "", sheet.System:
			g.Model = sheet.System
		default:
			errs = append(errs, fmt.Errorf("%s: GPU %d is a %s by the source, --gpu says %s", file, g.Index, g.Model, sheet.System))
		}
	}
	return errors.Join(errs...)
}
