package whatif

import (
	"fmt"
	"strings"

	"rankmap/topology"
)

// cutOff says which nodes have lost all their NICs (a leaf or the NICs were dropped); nil when none has. Nodes for which no
// NIC was ever listed are not among them: there the rate is missing, which is another fault.
func cutOff(c *topology.Cluster) []bool {
	var out []bool
	for n := range topology.NodeID(c.NumNodes()) {
		_, class := c.Node(n)
		left := len(class.NICs) == 0
		for x := range class.NICs {
			left = left || class.NICs[x].Bad == ""
		}
		if left || c.NumNodes() == 1 {
			continue
		}
		if out == nil {
			out = make([]bool, c.NumNodes())
		}
		out[n] = true
	}
	return out
}

// island is the part of a machine with cut-off nodes that a plan can use: all nodes that still have a NIC, or one NVLink
// domain when that holds more usable GPUs. It is nil when no node is cut off, else says for each GPU whether it is inside;
// why names the nodes that are not.
func (m *Machine) island() (inside []bool, why string) {
	c := m.Cluster
	cut := cutOff(c)
	if cut == nil {
		return nil, ""
	}
	inside = make([]bool, c.NumGPUs())
	most := 0
	for id := range topology.GPUID(c.NumGPUs()) {
		if inside[id] = !cut[c.NodeOf(id)]; inside[id] && c.GPUBad(id) == "" {
			most++
		}
	}
	for _, d := range c.Domains {
		n := 0
		for _, id := range d {
			if c.GPUBad(id) == "" {
				n++
			}
		}
		if n > most {
			most = n
			clear(inside)
			for _, id := range d {
				inside[id] = true
			}
		}
	}
	var names []string
	out := map[topology.NodeID]bool{}
	for id := range topology.GPUID(c.NumGPUs()) {
		if n := c.NodeOf(id); !inside[id] && !out[n] {
			out[n] = true
			node, _ := c.Node(n)
			names = append(names, node.Name)
		}
	}
	if len(names) == 0 {
		return nil, ""
	}
	return inside, fmt.Sprintf("cut off from the rest, no NIC is left: %s", shorten(topology.CompressHosts(names)))
}

// shorten keeps a list of hosts readable.
func shorten(s string) string {
	if len(s) > 120 {
		return strings.ToValidUTF8(s[:120], "") + "..."
	}
	return s
}
