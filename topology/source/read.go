package source

import (
	"bytes"
	"fmt"
	"strings"

	"rankmap/topology"
	"rankmap/topology/fabric"
	"rankmap/topology/ncclxml"
	"rankmap/topology/smi"
)

// guess names the kind of a file by its content; text that nothing else claims goes to the topo -m reader, which says
// what a foreign text is.
func guess(data []byte) string {
	head := data[:min(len(data), 1<<16)]
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		return "capture"
	case ncclxml.Sniff(head) != "":
		return "nccl-xml"
	case isClusterYAML(head):
		return "yaml"
	}
	if k := fabric.Sniff(head); k != "" {
		return k
	}
	if bytes.Contains(head, []byte("(UUID: ")) && bytes.Contains(head, []byte("GPU ")) && bytes.Contains(data, []byte("Link ")) && !bytes.Contains(data, []byte("GPU1")) {
		return "nvlink"
	}
	return "smi"
}

// isClusterYAML recognises the cluster document by one of the keys that begin it.
func isClusterYAML(head []byte) bool {
	for line := range bytes.Lines(head) {
		if bytes.HasPrefix(line, []byte("apiVersion:")) || bytes.HasPrefix(line, []byte("classes:")) {
			return true
		}
	}
	return false
}

// part is what one source says about one host: its GPUs and NICs, or only some facts about them.
type part struct {
	kind, file string
	host       string // stated by the source itself, else empty
	byFile     string // what the file's name suggests
	class      *topology.NodeClass
	clique     string
	links      *smi.LinkStatus
	node       *topology.DiscoveredNode // further statements of a cluster YAML
	facts      []topology.Fact          // without the host in front
}

// base says that the part describes the GPUs of a host by itself.
func (p *part) base() bool { return p.class != nil && len(p.class.GPUs) > 0 }

// read fills the assembly from one file.
func (a *assembly) read(kind, file string, data []byte) error {
	r := bytes.NewReader(data)
	switch kind {
	case "yaml":
		return a.readYAML(file, data)
	case "smi":
		res, err := smi.Read(r, file)
		if err != nil {
			return err
		}
		for _, w := range res.Warnings {
			a.warn(w.String())
		}
		for i := range res.Nodes {
			n := &res.Nodes[i]
			a.add(part{kind: kind, file: file, host: n.Name, class: n, facts: factsOf(res.Facts, n.Name, i)})
		}
	case "nvlink":
		st, err := smi.ReadNVLinkStatus(r, file)
		if err != nil {
			return err
		}
		for _, w := range st.Warnings {
			a.warn(w.String())
		}
		a.add(part{kind: kind, file: file, links: st, facts: factsOf(st.Facts(""), "", 0)})
	case "nccl-xml":
		res, err := ncclxml.Read(r, file)
		if err != nil {
			return err
		}
		a.warn(res.Warnings...)
		for i := range res.Hosts {
			h := &res.Hosts[i]
			host := ""
			if len(res.Hosts) > 1 {
				host = h.Name
			}
			a.add(part{kind: kind, file: file, host: host, class: &h.Class, clique: h.Clique, facts: factsOf(res.Facts, h.Name, i)})
		}
	case "capture":
		return a.readCapture(file, data)
	default:
		res, err := fabric.Read(kind, r, file)
		if err != nil {
			return err
		}
		a.warn(res.Warnings...)
		if res.Node != nil {
			a.add(part{kind: kind, file: file, class: res.Node, facts: res.Facts})
		}
		if res.Fabric != nil {
			a.fabrics = append(a.fabrics, res.Fabric)
			for _, o := range res.Others {
				a.warn(fmt.Sprintf("%s: the topology %q is used, %q is not", file, res.Fabric.Name, o.Name))
			}
		}
	}
	return nil
}

// readYAML takes a cluster document apart into its nodes, or keeps it whole where it is the only source.
func (a *assembly) readYAML(file string, data []byte) error {
	c, err := topology.ReadYAML(bytes.NewReader(data), file, a.opts.Catalog)
	if err != nil {
		return err
	}
	a.yaml = append(a.yaml, yamlFile{file, c})
	return nil
}

type yamlFile struct {
	file    string
	cluster *topology.Cluster
}

// yamlParts makes a part of each node of a cluster.
func yamlParts(y yamlFile) []part {
	c := y.cluster
	var out []part
	for i := range c.Nodes {
		n, k := c.Node(topology.NodeID(i))
		class := *k
		class.GPUs, class.NICs = append([]topology.GPU(nil), k.GPUs...), append([]topology.NIC(nil), k.NICs...)
		for g := range class.GPUs {
			id, u := c.GPUIdent(n.First+topology.GPUID(g)), &class.GPUs[g]
			u.Index, u.PCI, u.UUID, u.NUMA, u.CPUAffinity = id.Index, id.PCI, id.UUID, id.NUMA, id.CPUAffinity
			if cl := u.Clique; strings.HasPrefix(cl, ".") {
				u.Clique = n.Clique + cl
			}
		}
		for x := range class.NICs {
			id, u := c.NICIdent(topology.NodeID(i), x), &class.NICs[x]
			u.Index, u.Name, u.Device, u.PCI, u.GUID, u.NetDev, u.NUMA = id.Index, id.Name, id.Device, id.PCI, id.UUID, id.NetDev, id.NUMA
		}
		host := n.Name
		if len(c.Nodes) == 1 && host == "node0" {
			host = "" // the name that a node without one gets
		}
		p := part{kind: "yaml", file: y.file, host: host, class: &class, clique: n.Clique,
			node: &topology.DiscoveredNode{Leaf: n.Leaf, Pod: n.Pod, Rack: n.Rack, Bad: n.Bad}}
		if i == 0 {
			for _, f := range c.Facts {
				p.facts = append(p.facts, topology.Fact{What: strings.TrimPrefix(f.What, n.Name+"/"), Value: f.Value, Source: f.Source})
			}
		}
		out = append(out, p)
	}
	return out
}

// factsOf picks the facts of one host of a file and takes the host's name off their front. Readers call a host without
// a name by its position.
func factsOf(all []topology.Fact, name string, position int) []topology.Fact {
	if name == "" {
		name = fmt.Sprintf("node%d", position)
	}
	var out []topology.Fact
	for _, f := range all {
		what, ok := strings.CutPrefix(f.What, name+"/")
		if !ok {
			if strings.HasPrefix(f.What, "/") {
				what = f.What[1:]
			} else if position > 0 || strings.Contains(f.What, "/GPU") || strings.Contains(f.What, "/NIC") {
				continue
			}
		}
		out = append(out, topology.Fact{What: what, Value: f.Value, Source: f.Source})
	}
	return out
}
