package fabric

import (
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"rankmap/topology"
)

// slurmYAML reads topology.yaml (Slurm 25.05 on): a list of named topologies, each of one plugin. The one that holds for
// the cluster is Result.Fabric, as Slurm chooses it (the first with cluster_default: true); without one it is the first.
func slurmYAML(data []byte, name string) (*Result, error) {
	root, err := yamlRoot(data, name)
	if err != nil {
		return nil, err
	}
	n := &notes{name: name}
	if root.Kind != yaml.SequenceNode || len(root.Content) == 0 {
		n.fail(root.Line, "want a list of topologies, each beginning with \"- topology: NAME\"")
		return nil, n.err()
	}
	var all []*topology.FabricDesc
	seen := map[string]int{}
	for _, y := range root.Content {
		d := yamlTopologyEntry(n, y, name)
		if d == nil {
			continue
		}
		if l, twice := seen[d.Name]; twice {
			n.fail(y.Line, "topology %q is stated twice, first in line %d", clip(d.Name), l)
		}
		seen[d.Name] = y.Line
		all = append(all, d)
	}
	if err := n.err(); err != nil {
		return nil, err
	}
	best, marked := 0, 0
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Default {
			best = i
			marked++
		}
	}
	switch {
	case marked == 0:
		n.warn(0, "no topology has cluster_default: true: taken is the first, %q", all[0].Name)
		all[0].Default = true
	case marked > 1:
		n.warn(0, "%d topologies have cluster_default: true: Slurm takes the first, %q", marked, all[best].Name)
		for i := range all {
			all[i].Default = i == best
		}
	}
	res := &Result{Kind: KindSlurm, Format: "yaml", Fabric: all[best], Warnings: n.texts(n.warns)}
	for i, d := range all {
		if i != best {
			res.Others = append(res.Others, d)
		}
	}
	res.Facts = fabricFacts(res.Fabric)
	return res, nil
}

// yamlBool are the words that Slurm takes for a boolean.
var yamlBool = map[string]bool{"true": true, "yes": true, "y": true, "on": true, "1": true, "false": false, "no": false, "n": false, "off": false, "0": false}

// plugins are the keys that say what a topology is.
var plugins = map[string]bool{"tree": true, "block": true, "flat": true, "ring": true, "torus3d": true}

// yamlTopologyEntry reads one named topology; nil after an error.
func yamlTopologyEntry(n *notes, y *yaml.Node, name string) *topology.FabricDesc {
	if y.Kind != yaml.MappingNode || text(y, "topology") == "" {
		n.fail(y.Line, "want a topology beginning with \"- topology: NAME\"")
		return nil
	}
	t := newTree(n, KindSlurm+":"+name)
	t.desc.Name = text(y, "topology")
	before := len(n.errs)
	var strange []pair
	for _, p := range pairs(y) {
		switch {
		case p.key == "topology":
		case p.key == "cluster_default":
			v, ok := yamlBool[strings.ToLower(p.val.Value)]
			if !ok {
				n.fail(p.line, "cluster_default %q: want true or false", clip(p.val.Value))
			}
			t.desc.Default = v
		case plugins[p.key]:
			if t.desc.Plugin != "" {
				n.fail(p.line, "topology %q is %s and %s, want one", clip(t.desc.Name), t.desc.Plugin, p.key)
				continue
			}
			t.desc.Plugin = p.key
			t.plugin(p)
		default:
			strange = append(strange, p)
		}
	}
	for _, p := range strange {
		if t.desc.Plugin == "" {
			n.fail(p.line, "unknown key %q (known: topology, cluster_default, tree, block, flat, ring, torus3d)", clip(p.key))
		} else {
			n.warn(p.line, "unknown key %q: ignored", clip(p.key))
		}
	}
	if t.desc.Plugin == "" {
		n.fail(y.Line, "topology %q has no tree, block, flat, ring or torus3d", clip(t.desc.Name))
	}
	if len(n.errs) > before {
		return t.desc
	}
	return t.finish()
}

// plugin reads what stands below a plugin's key.
func (t *tree) plugin(p pair) {
	switch p.key {
	case "flat": // true, or a mapping of options: nothing is said about the network
		if p.val.Kind == yaml.SequenceNode {
			t.fail(p.line, "flat: want true or a mapping of options")
		}
	case "tree":
		list := get(p.val, "switches")
		if list == nil {
			t.fail(p.line, "tree: want a list \"switches\"")
			return
		}
		for _, s := range list.Content {
			id := text(s, "switch")
			if id == "" {
				t.fail(s.Line, "want a switch beginning with \"- switch: NAME\"")
				continue
			}
			for _, k := range pairs(s) {
				switch k.key {
				case "switch", "children", "nodes":
				default:
					t.warn(k.line, "switch %q: unknown key %q: ignored (known: switch, children, nodes)", clip(id), clip(k.key))
				}
			}
			t.state(id, s.Line, t.names(get(s, "nodes")), t.names(get(s, "children")))
		}
	case "block":
		for _, v := range content(get(p.val, "block_sizes")) {
			t.sizes(v.Line, v.Value)
		}
		if get(p.val, "blocks") == nil {
			t.fail(p.line, "block: want a list \"blocks\"")
		}
		t.groups(get(p.val, "blocks"), "block")
	default:
		t.generic(p.val, p.key)
	}
}

// content lists the items of a sequence; a scalar is its own item.
func content(y *yaml.Node) []*yaml.Node {
	switch {
	case y == nil:
		return nil
	case y.Kind == yaml.ScalarNode:
		return []*yaml.Node{y}
	}
	return y.Content
}

// groups reads a list of named node sets.
func (t *tree) groups(y *yaml.Node, key string) {
	if y == nil {
		return
	}
	for _, b := range y.Content {
		id := text(b, key)
		if id == "" {
			t.fail(b.Line, "want an entry beginning with \"- %s: NAME\"", key)
			continue
		}
		t.block(id, b.Line, t.names(get(b, "nodes")))
	}
}

// generic collects node sets from plugins whose shape the planner does not use (ring, torus3d): every mapping with
// nodes is a group, named by its first scalar key.
func (t *tree) generic(y *yaml.Node, key string) {
	if y.Kind == yaml.MappingNode && get(y, "nodes") != nil {
		id := key + strconv.Itoa(len(t.blocks)+1)
		if p := pairs(y)[0]; p.key != "nodes" && p.val.Kind == yaml.ScalarNode {
			id = p.val.Value
		}
		t.blocks = append(t.blocks, group{id, y.Line, t.names(get(y, "nodes"))})
		return
	}
	for _, p := range pairs(y) {
		t.generic(p.val, key)
	}
	if y.Kind == yaml.SequenceNode {
		for _, c := range y.Content {
			t.generic(c, key)
		}
	}
}
