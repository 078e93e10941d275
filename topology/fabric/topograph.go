package fabric

import (
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

// Topograph reads Topograph's models (YAML with switches and blocks, or the older capacity_blocks) and the network
// graph of its NetQ provider (JSON). The scheduler files Topograph writes are Slurm's: see Slurm.
func Topograph(r io.Reader, name string) (*Result, error) {
	data, err := load(r, name, maxDump)
	if err != nil {
		return nil, err
	}
	if c := firstByte(data); c == '{' || c == '[' {
		return netqGraph(data, name)
	}
	if len(data) > maxHand {
		return nil, fmt.Errorf("%s: a model larger than %d MiB", name, maxHand>>20)
	}
	root, err := yamlRoot(data, name)
	if err != nil {
		return nil, err
	}
	n := &notes{name: name}
	t := newTree(n, KindTopograph+":"+name)
	m := &modelReader{tree: t}
	m.read(root)
	d := t.finish()
	if err := n.err(); err != nil {
		return nil, err
	}
	d.Plugin, d.Default = "tree", true
	res := &Result{Kind: KindTopograph, Format: "model", Fabric: d, Warnings: n.texts(n.warns)}
	res.Facts = fabricFacts(d)
	return res, nil
}

func firstByte(data []byte) byte {
	for _, c := range data {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c
		}
	}
	return 0
}

// modelReader reads a model.
type modelReader struct {
	*tree
	blockHosts map[string][]string // capacity block -> hosts
}

func (m *modelReader) read(root *yaml.Node) {
	sw, blocks, capacity := get(root, "switches"), get(root, "blocks"), get(root, "capacity_blocks")
	if sw == nil && blocks == nil && capacity == nil {
		m.fail(root.Line, "no switches, blocks or capacity_blocks: not a Topograph model")
		return
	}
	for _, p := range pairs(root) {
		switch p.key {
		case "switches", "blocks", "capacity_blocks", "nodes", "topology", "metadata", "name":
		default:
			m.warn(p.line, "key %q is not known: ignored", clip(p.key))
		}
	}
	m.blockHosts = map[string][]string{}
	m.capacity(capacity)
	m.switches(sw, nil)
	m.blockList(blocks)
	m.nodeMap(get(root, "nodes"))
}

// capacity reads the older capacity_blocks: name, type, nvlink, nodes.
func (m *modelReader) capacity(y *yaml.Node) {
	if y == nil {
		return
	}
	for _, e := range m.entries(y) {
		hosts := m.names(get(e.val, "nodes"))
		m.block(e.key, e.line, hosts)
		m.blockHosts[e.key] = hosts
		if d := text(e.val, "nvlink"); d != "" {
			m.domain(d, hosts)
		} else {
			m.domainOf(e.val, hosts)
		}
	}
}

// entries lists named entries: a mapping of names, or a list of mappings with a name.
func (m *modelReader) entries(y *yaml.Node) []pair {
	if y == nil || y.Kind == yaml.MappingNode {
		return pairs(y)
	}
	var out []pair
	for _, c := range y.Content {
		id := text(c, "name")
		if c.Kind == yaml.ScalarNode {
			id = c.Value
		}
		if id == "" {
			m.fail(c.Line, "want an entry with a name")
			continue
		}
		out = append(out, pair{id, c.Line, c})
	}
	return out
}

// switches reads switches, which may nest.
func (m *modelReader) switches(y *yaml.Node, up *treeSwitch) {
	for _, e := range m.entries(y) {
		if up != nil {
			m.child(up, e.key, e.line)
		}
		if e.val.Kind != yaml.MappingNode {
			continue // a bare name, or an empty mapping value
		}
		var nodes []string
		for _, c := range content(get(e.val, "capacity_blocks")) {
			hosts, ok := m.blockHosts[c.Value]
			if !ok {
				m.fail(c.Line, "switch %q: unknown capacity block %q", clip(e.key), clip(c.Value))
			}
			nodes = append(nodes, hosts...)
		}
		nodes = append(nodes, m.names(get(e.val, "nodes"))...)
		s := m.state(e.key, e.line, nodes, nil)
		m.domainOf(e.val, m.names(get(e.val, "nodes")))
		if kids := get(e.val, "switches"); kids != nil {
			if kids.Kind == yaml.MappingNode {
				m.switches(kids, s)
				continue
			}
			for _, k := range kids.Content {
				if k.Kind == yaml.MappingNode {
					m.switches(&yaml.Node{Kind: yaml.SequenceNode, Line: k.Line, Content: []*yaml.Node{k}}, s)
					continue
				}
				for _, name := range m.tree.switches(k.Line, k.Value) {
					m.child(s, name, k.Line)
				}
			}
		}
	}
}

// blockList reads blocks: the nodes below a switch, with annotations or labels for the NVLink domain.
func (m *modelReader) blockList(y *yaml.Node) {
	if y == nil {
		return
	}
	for i, b := range y.Content {
		if b.Kind != yaml.MappingNode {
			m.fail(b.Line, "want a block with switch and nodes")
			continue
		}
		hosts := m.names(get(b, "nodes"))
		id := text(b, "name")
		if sw := text(b, "switch"); sw != "" {
			s := m.at(sw, b.Line)
			s.stated = true
			s.nodes = append(s.nodes, hosts...)
			if id == "" {
				id = sw
			}
		} else {
			m.warn(b.Line, "a block of %d nodes has no switch: its place in the network is not stated", len(hosts))
		}
		if id == "" {
			id = fmt.Sprintf("block%d", i+1)
		}
		m.blocks = append(m.blocks, group{id, b.Line, hosts})
		m.domainOf(b, hosts)
	}
}

// nodeMap reads nodes with attributes of their own (name: {switch, nvlink, ...}).
func (m *modelReader) nodeMap(y *yaml.Node) {
	if y == nil || y.Kind != yaml.MappingNode {
		return
	}
	for _, p := range pairs(y) {
		hosts := m.expand(p.line, p.key)
		if sw := text(p.val, "switch"); sw != "" {
			s := m.at(sw, p.line)
			s.stated = true
			s.nodes = append(s.nodes, hosts...)
		}
		if d := text(p.val, "nvlink"); d != "" {
			m.domain(d, hosts)
			continue
		}
		m.domainOf(p.val, hosts)
	}
}

// domainKeys are the annotations and labels that name an NVLink domain, by their last part and an own word before it:
// accelerator.topology.test/domain, network.topology.nvidia.com/accelerator, nvidia.com/gpu.clique.
func domainKey(key string) bool {
	k := strings.ToLower(key)
	last := k[strings.LastIndexByte(k, '/')+1:]
	switch last {
	case "accelerator", "nvlink", "gpu.clique", "nvlink-domain", "nvlinkdomain", "accelerated-network":
		return true
	case "domain":
		return strings.Contains(k, "accelerator") || strings.Contains(k, "nvl")
	}
	return false
}

// domainOf adds hosts to the NVLink domain that an entry's attributes, annotations or labels name.
func (m *modelReader) domainOf(y *yaml.Node, hosts []string) {
	if len(hosts) == 0 {
		return
	}
	for _, where := range []string{"annotations", "labels", "attributes", "metadata"} {
		for _, p := range pairs(get(y, where)) {
			if domainKey(p.key) && p.val.Kind == yaml.ScalarNode && p.val.Value != "" {
				m.domain(p.val.Value, hosts)
				return
			}
		}
	}
}
