package fabric

import (
	"io"
	"strconv"
	"strings"

	"rankmap/topology"
)

// Slurm reads topology.conf (tree and block plugins, also the output of scontrol show topology) or topology.yaml.
// Parameter names are case-insensitive, "#" begins a comment, a trailing backslash joins lines (man topology.conf).
// Comments "# id=name" before an entry are Topograph's: the real name of a switch, or the NVLink domain of a block.
func Slurm(r io.Reader, name string) (*Result, error) {
	data, err := load(r, name, maxHand)
	if err != nil {
		return nil, err
	}
	if err := notSlurm(data, name); err != nil {
		return nil, err
	}
	if yamlTopology(data) {
		return slurmYAML(data, name)
	}
	n := &notes{name: name}
	c := &confReader{tree: newTree(n, KindSlurm+":"+name), alias: map[string]string{}}
	var joined string
	first := 0
	lines(data, func(no int, line string) {
		if joined == "" {
			first = no
		}
		if cut := strings.TrimRight(line, " \t"); strings.HasSuffix(cut, "\\") && !strings.Contains(cut, "#") {
			joined += strings.TrimSuffix(cut, "\\") + " "
			return
		}
		c.line(first, joined+line)
		joined = ""
	})
	if joined != "" {
		c.line(first, joined)
	}
	if c.entries == 0 && len(n.errs) == 0 {
		n.fail(1, "no SwitchName or BlockName entry: not a topology.conf")
	}
	d := c.finish()
	if err := n.err(); err != nil {
		return nil, err
	}
	switch {
	case len(d.Switches) > 0 && len(d.Blocks) > 0:
		d.Plugin = "tree+block"
	case len(d.Blocks) > 0:
		d.Plugin = "block"
	default:
		d.Plugin = "tree"
	}
	d.Default = true
	res := &Result{Kind: KindSlurm, Format: d.Plugin, Fabric: d, Warnings: n.texts(n.warns)}
	res.Facts = fabricFacts(d)
	return res, nil
}

// confReader reads the lines of a topology.conf.
type confReader struct {
	*tree
	entries int
	alias   map[string]string // Topograph's comments of the lines just above
}

// line reads one (joined) line.
func (c *confReader) line(no int, s string) {
	body, comment, has := strings.Cut(s, "#")
	if has && strings.TrimSpace(body) == "" {
		if id, real, ok := strings.Cut(strings.TrimSpace(comment), "="); ok && !strings.ContainsAny(id, " \t") {
			c.alias[id] = strings.TrimSpace(real)
		}
		return
	}
	body = strings.TrimSpace(body)
	if body == "" {
		return
	}
	keys := map[string]string{}
	var head string
	for _, f := range c.fields(no, body) {
		k, v, ok := strings.Cut(f, "=")
		k = strings.ToLower(k)
		if !ok {
			c.fail(no, "%q: want Parameter=value", clip(f))
			continue
		}
		if _, twice := keys[k]; twice {
			c.fail(no, "%s is stated twice in one line", clip(k))
		}
		if head == "" {
			head = k
		}
		keys[k] = strings.Trim(v, `"'`)
	}
	if head != "" {
		c.entry(no, head, keys)
	}
	clear(c.alias)
}

// fields splits a line at blanks. A blank after a comma inside a list is an error of Slurm's; the list is joined with
// a warning.
func (c *confReader) fields(no int, body string) []string {
	var out []string
	for _, f := range strings.Fields(body) {
		if len(out) > 0 && !strings.Contains(f, "=") && (strings.HasSuffix(out[len(out)-1], ",") || strings.HasPrefix(f, ",")) {
			c.warn(no, "blank inside a list before %q: Slurm would stop there, the list is joined", clip(f))
			out[len(out)-1] += f
			continue
		}
		out = append(out, f)
	}
	return out
}

// known are the parameters of an entry; the last ones are what scontrol show topology adds.
var known = map[string]bool{"switchname": true, "switches": true, "nodes": true, "linkspeed": true, "blockname": true, "blocksizes": true, "ringname": true,
	"level": true, "blockindex": true, "blocksize": true, "aggregatedblock": true, "type": true}

func (c *confReader) entry(no int, head string, keys map[string]string) {
	for k := range keys {
		if !known[k] {
			c.fail(no, "unknown parameter %q (known: SwitchName, Switches, Nodes, LinkSpeed, BlockName, BlockSizes)", clip(k))
		}
	}
	nodes := c.expand(no, keys["nodes"])
	switch head {
	case "switchname":
		kids := c.switches(no, keys["switches"])
		c.entries++
		if len(nodes) == 0 && len(kids) == 0 {
			c.warn(no, "switch %q has neither Nodes nor Switches", clip(keys["switchname"]))
		}
		if len(nodes) > 0 && len(kids) > 0 && keys["level"] == "" {
			c.warn(no, "switch %q has Nodes and Switches: Slurm takes one of them", clip(keys["switchname"]))
		}
		if keys["level"] != "" && len(kids) > 0 {
			nodes = nil // scontrol repeats the nodes of all switches below
		}
		for _, name := range c.switches(no, keys["switchname"]) {
			s := c.state(name, no, nodes, kids)
			s.label = c.alias[name]
		}
	case "blockname", "ringname":
		c.entries++
		name := keys[head]
		if len(nodes) == 0 {
			c.warn(no, "block %q has no Nodes", clip(name))
		}
		c.block(name, no, nodes)
		if d := c.alias[name]; d != "" {
			c.domain(d, nodes)
		}
	case "blocksizes":
		c.entries++
		c.sizes(no, keys["blocksizes"])
	case "aggregatedblock":
	default:
		c.fail(no, "an entry begins with SwitchName, BlockName or BlockSizes, not with %q", clip(head))
	}
}

// sizes reads BlockSizes.
func (t *tree) sizes(no int, list string) {
	for _, s := range strings.Split(list, ",") {
		v, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || v < 1 || v > maxHosts {
			t.fail(no, "block size %q: want node counts such as 4,8,16", clip(s))
			continue
		}
		t.desc.BlockSizes = append(t.desc.BlockSizes, v)
	}
}

// notSlurm names files that look like a topology.conf and are none.
func notSlurm(data []byte, name string) error {
	n := &notes{name: name}
	lines(data, func(no int, line string) {
		if len(n.errs) > 0 {
			return
		}
		body, _, _ := strings.Cut(line, "#")
		low := strings.ToLower(strings.TrimSpace(body))
		switch {
		case strings.Contains(line, "{%") || strings.Contains(line, "{{"):
			n.fail(no, "a Jinja (or Go) template, not a topology: render it first")
		case strings.Contains(line, "<%"):
			n.fail(no, "an ERB template, not a topology: render it first")
		case strings.Contains(body, "${"):
			n.fail(no, "a template with variables, not a topology: render it first")
		case strings.HasPrefix(low, "slurmctldhost") || strings.HasPrefix(low, "clustername=") || strings.HasPrefix(low, "partitionname=") || strings.HasPrefix(low, "nodename="):
			n.fail(no, "a slurm.conf, not a topology.conf")
		case no == 1 && strings.HasPrefix(low, "<"):
			n.fail(no, "XML, not a Slurm topology")
		}
	})
	return n.err()
}

// yamlTopology tells topology.yaml from topology.conf: its first line that is no comment begins a list or a mapping.
func yamlTopology(data []byte) bool {
	yes, seen := false, false
	lines(data, func(_ int, line string) {
		t := strings.TrimSpace(line)
		if seen || t == "" || t[0] == '#' {
			return
		}
		seen = true
		word, _ := cutBlank(t)
		yes = t[0] == '-' || t[0] == '[' || strings.HasSuffix(word, ":")
	})
	return yes
}

// fabricFacts counts what a description holds.
func fabricFacts(d *topology.FabricDesc) []topology.Fact {
	var out []topology.Fact
	for _, f := range []struct {
		what string
		n    int
	}{{"hosts", len(d.Hosts)}, {"switches", len(d.Switches)}, {"blocks", len(d.Blocks)}, {"NVLink domains", len(d.Domains)}} {
		if f.n > 0 {
			out = append(out, topology.Fact{What: "fabric " + f.what, Value: strconv.Itoa(f.n), Source: d.Source})
		}
	}
	return out
}
