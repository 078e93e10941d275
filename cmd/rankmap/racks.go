package main

import (
	"fmt"

	"rankmap/topology"
)

// rackGPUs are sold as racks whose trays of four share one NVLink domain, and the preset of each (NVIDIA GB200 NVL72, GB300
// NVL72, Vera Rubin NVL144).
var rackGPUs = map[string]string{"gb200": "gb200-nvl72", "gb300": "gb300-nvl72", "vr200": "vr-nvl72"}

// rackNote says that several nodes of such GPUs stand apart: what one node prints does not tell which of them share a rack.
// Empty where a domain spans nodes, there is one node, or the GPUs are others.
func rackNote(c *topology.Cluster) string {
	if c.NumNodes() < 2 {
		return ""
	}
	of := ""
	for id := range topology.GPUID(c.NumGPUs()) {
		s := c.Datasheet(id)
		d := c.DomainOf(id)
		if s == nil || rackGPUs[s.System] == "" || d < 0 || c.DomainNodes(d) > 1 {
			return ""
		}
		of = s.System
	}
	if of == "" {
		return ""
	}
	return fmt.Sprintf("every node is an NVLink domain of its own here: the source does not say which trays of %s share a rack; where they do, plan on --cluster %s, or name the racks in a cluster file",
		of, rackGPUs[of])
}
