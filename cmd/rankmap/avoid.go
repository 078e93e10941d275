package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"rankmap/planner"
	"rankmap/topology"
)

// avoidFlags say which GPUs a plan may use.
type avoidFlags struct {
	hosts   []string
	exclude []string
	barred  []bool // by GPU: left out by the layout that is kept; nil = none
}

func (a *avoidFlags) add(f *pflag.FlagSet) {
	f.StringSliceVar(&a.hosts, "hosts", nil, "use only these hosts; host lists such as node[0-3,7] are read")
	f.StringSliceVar(&a.exclude, "exclude", nil, "leave out hosts or GPUs, such as node3,node1/5")
}

// skip tells a request what its plan must leave idle: what the flags exclude, which per-GPU figures do not count, and what
// discovery marked as bad. Notes name each of the latter.
func (a *avoidFlags) skip(r *planner.Request) ([]string, error) {
	c := r.Cluster
	out := make([]bool, c.NumGPUs())
	var errs []error
	any := false
	if len(a.hosts) > 0 {
		only, err := a.hostSet(c)
		errs = append(errs, err)
		for id := range topology.GPUID(c.NumGPUs()) {
			node, _ := c.Node(c.NodeOf(id))
			out[id] = !only[node.Name]
			any = any || out[id]
		}
	}
	for _, x := range joinLists(a.exclude) {
		ids, err := gpusNamed(c, x)
		if err != nil {
			errs = append(errs, fmt.Errorf("--exclude %q: %w", x, err))
		}
		for _, id := range ids {
			out[id], any = true, true
		}
	}
	for id := range a.barred {
		if a.barred[id] {
			out[id], any = true, true
		}
	}
	r.Barred = 0
	for _, left := range out {
		if left {
			r.Barred++
		}
	}
	var notes []string
	for id := range topology.GPUID(c.NumGPUs()) {
		if why := c.GPUBad(id); why != "" && !out[id] {
			out[id], any = true, true
			notes = append(notes, fmt.Sprintf("%s is avoided: %s", c.GPUName(id), why))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, inputErr(err)
	}
	if r.Skip = nil; any {
		r.Skip = func(id topology.GPUID) bool { return out[id] }
	}
	return notes, nil
}

func (a *avoidFlags) hostSet(c *topology.Cluster) (map[string]bool, error) {
	only := map[string]bool{}
	var errs []error
	for _, list := range joinLists(a.hosts) {
		names, err := topology.ExpandHosts(list)
		if err != nil {
			errs = append(errs, fmt.Errorf("--hosts: %w", err))
			continue
		}
		for _, n := range names {
			if _, ok := c.FindNode(n); !ok {
				errs = append(errs, fmt.Errorf("--hosts: the cluster has no host %q (first: %s)", n, c.Nodes[0].Name))
			}
			only[n] = true
		}
	}
	return only, errors.Join(errs...)
}

// joinLists mends what the flag parser cut at commas inside brackets: "node[0-3", "7]" is one list.
func joinLists(parts []string) []string {
	var out []string
	open := false
	for _, p := range parts {
		if open {
			out[len(out)-1] += "," + p
		} else {
			out = append(out, p)
		}
		last := out[len(out)-1]
		open = strings.Count(last, "[") > strings.Count(last, "]")
	}
	return out
}

// gpusNamed finds "host/5", or every GPU of the hosts of a list.
func gpusNamed(c *topology.Cluster, name string) ([]topology.GPUID, error) {
	if host, index, ok := strings.Cut(name, "/"); ok {
		n, found := c.FindNode(host)
		g, err := strconv.Atoi(index)
		if found && err == nil {
			node, class := c.Node(n)
			for i := range class.GPUs {
				if c.GPUIdent(node.First+topology.GPUID(i)).Index == g {
					return []topology.GPUID{node.First + topology.GPUID(i)}, nil
				}
			}
		}
		return nil, fmt.Errorf("the cluster has no such GPU (want HOST/INDEX, such as %s)", c.GPUName(0))
	}
	hosts, err := topology.ExpandHosts(name)
	if err != nil {
		return nil, err
	}
	var out []topology.GPUID
	for _, h := range hosts {
		n, ok := c.FindNode(h)
		if !ok {
			return nil, fmt.Errorf("the cluster has no host %q (first: %s)", h, c.Nodes[0].Name)
		}
		node, class := c.Node(n)
		for i := range class.GPUs {
			out = append(out, node.First+topology.GPUID(i))
		}
	}
	return out, nil
}
