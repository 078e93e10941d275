package layout

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rankmap/topology"
)

// Use is the part of the cluster that a plan was allowed: what later questions about the layout keep to. Per-GPU figures count
// GPUs where that is given, else all of the cluster that is not left out.
type Use struct {
	GPUs    int      `yaml:"gpus,omitempty" json:"gpus,omitempty"`            // exactly so many in the plan; at most so many later
	Hosts   []string `yaml:"hosts,omitempty,flow" json:"hosts,omitempty"`     // these alone: host lists such as node[0-3,7]
	Exclude []string `yaml:"exclude,omitempty,flow" json:"exclude,omitempty"` // left out: host lists, and GPUs such as node1/5
}

// Empty says that the whole cluster may be used.
func (u *Use) Empty() bool { return u == nil || u.GPUs == 0 && len(u.Hosts)+len(u.Exclude) == 0 }

// Barred says for each GPU of a cluster whether it is left out; nil when none is. missing lists the names that the cluster does
// not have: one made from another description may lack them.
func (u *Use) Barred(c *topology.Cluster) (out []bool, missing []string) {
	if u == nil || len(u.Hosts)+len(u.Exclude) == 0 {
		return nil, nil
	}
	out = make([]bool, c.NumGPUs())
	if len(u.Hosts) > 0 {
		only := make([]bool, c.NumNodes())
		for _, list := range u.Hosts {
			for _, h := range hostsOf(list) {
				if n, ok := c.FindNode(h); ok {
					only[n] = true
				} else {
					missing = append(missing, h)
				}
			}
		}
		for id := range out {
			out[id] = !only[c.NodeOf(topology.GPUID(id))]
		}
	}
	for _, x := range u.Exclude {
		if host, index, ok := strings.Cut(x, "/"); ok {
			if id, found := gpuAt(c, host, index); found {
				out[id] = true
			} else {
				missing = append(missing, x)
			}
			continue
		}
		for _, h := range hostsOf(x) {
			n, ok := c.FindNode(h)
			if !ok {
				missing = append(missing, h)
				continue
			}
			node, class := c.Node(n)
			for g := range class.GPUs {
				out[node.First+topology.GPUID(g)] = true
			}
		}
	}
	return out, missing
}

// hostsOf expands a host list; one that cannot be read names itself.
func hostsOf(list string) []string {
	if names, err := topology.ExpandHosts(list); err == nil {
		return names
	}
	return []string{list}
}

// gpuAt finds the GPU of a host with an index.
func gpuAt(c *topology.Cluster, host, index string) (topology.GPUID, bool) {
	n, ok := c.FindNode(host)
	g, err := strconv.Atoi(index)
	if !ok || err != nil {
		return 0, false
	}
	node, class := c.Node(n)
	for i := range class.GPUs {
		if id := node.First + topology.GPUID(i); c.GPUIdent(id).Index == g {
			return id, true
		}
	}
	return 0, false
}

// Then is what holds when a layout made under u is planned again under v: v's number of GPUs and hosts where given, and what
// either leaves out. nil when the whole cluster may be used.
func (u *Use) Then(v Use) *Use {
	if u != nil {
		if v.GPUs == 0 {
			v.GPUs = u.GPUs
		}
		if len(v.Hosts) == 0 {
			v.Hosts = u.Hosts
		}
		v.Exclude = slices.Concat(u.Exclude, slices.DeleteFunc(slices.Clone(v.Exclude), func(x string) bool { return slices.Contains(u.Exclude, x) }))
	}
	if v.Empty() {
		return nil
	}
	return &v
}

// Text says it in words: "at most 28 GPUs, only node[0-3], without node1/5".
func (u *Use) Text() string {
	var out []string
	if u.GPUs > 0 {
		out = append(out, fmt.Sprintf("at most %d GPUs", u.GPUs))
	}
	if len(u.Hosts) > 0 {
		out = append(out, "only "+strings.Join(u.Hosts, ", "))
	}
	if len(u.Exclude) > 0 {
		out = append(out, "without "+strings.Join(u.Exclude, ", "))
	}
	return strings.Join(out, ", ")
}

// check reports what cannot be: a negative number, empty or unreadable names.
func (u *Use) check() error {
	if u == nil {
		return nil
	}
	var errs []error
	if u.GPUs < 0 {
		errs = append(errs, fmt.Errorf("inputs: use: gpus is %d, want at least 1", u.GPUs))
	}
	for _, list := range [][]string{u.Hosts, u.Exclude} {
		for _, x := range list {
			host, _, _ := strings.Cut(x, "/")
			if _, err := topology.ExpandHosts(host); err != nil || host == "" {
				errs = append(errs, fmt.Errorf("inputs: use: %q: want a host list such as node[0-3,7], or HOST/INDEX", x))
			}
		}
	}
	return errors.Join(errs...)
}
