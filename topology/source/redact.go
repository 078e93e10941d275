package source

import (
	"path"
	"slices"
	"strings"

	"rankmap/internal/hardware"
	"rankmap/topology"
	"rankmap/topology/capture"
)

// Redact replaces host names, UUIDs, GUIDs, addresses and switch names by hashes. cat is that of the options.
func (r *Result) Redact(salt []byte, cat *hardware.Catalog) error {
	var hosts []string
	if r.Cluster != nil {
		for i := range r.Cluster.Nodes {
			hosts = append(hosts, ownName(r.Cluster.Nodes[i].Name)...)
		}
	} else {
		for i := range r.Partial.Nodes {
			hosts = append(hosts, ownName(r.Partial.Nodes[i].Name)...)
		}
	}
	x := redaction{r: capture.NewRedactor(salt, hosts...), known: map[string]bool{}, files: r.Files}
	for _, h := range hosts {
		x.known[h] = true
	}
	for i := range r.Warnings {
		r.Warnings[i] = x.text(r.Warnings[i])
	}
	x.findings(r.Findings)
	r.Name = x.text(r.Name)
	if r.Cluster == nil {
		x.view(r.Partial)
		return nil
	}
	for i := range r.links {
		l := &r.links[i]
		host, nic, slash := strings.Cut(l.A, "/")
		if slash && x.known[host] {
			l.A = x.r.Host(host) + "/" + nic
		} else {
			l.A = x.r.Name("switch", l.A)
		}
		l.B = x.r.Name("switch", l.B)
	}
	c := r.Cluster.Clone()
	x.cluster(c)
	r.Cluster = c
	return c.Finish(cat)
}

// ownName is a host's name unless rankmap made it.
func ownName(name string) []string {
	if digits, ok := strings.CutPrefix(name, "node"); ok && strings.Trim(digits, "0123456789") == "" {
		return nil
	}
	return []string{name}
}

// redaction holds one Redact.
type redaction struct {
	r     *capture.Redactor
	known map[string]bool // hosts
	files []string
}

// text replaces the folders of the sources, then identities.
func (x *redaction) text(s string) string {
	for _, f := range x.files {
		s = strings.ReplaceAll(s, f, path.Base(strings.ReplaceAll(f, "\\", "/")))
	}
	return x.r.Text(s)
}

func (x *redaction) host(name string) string {
	if x.known[name] {
		return x.r.Host(name)
	}
	return name
}

// clique hashes the identity of an NVLink fabric: a UUID with a number, a number relative to the node's, or a name.
func (x *redaction) clique(s string) string {
	if t := x.text(s); t != s || strings.HasPrefix(s, ".") {
		return t
	}
	return x.r.Name("domain", s)
}

func (x *redaction) cluster(c *topology.Cluster) {
	c.Name = x.text(c.Name)
	for i := range c.Classes {
		k := &c.Classes[i]
		k.Name = x.text(k.Name)
		for g := range k.GPUs {
			u := &k.GPUs[g]
			u.UUID, u.Clique, u.Bad = x.text(u.UUID), x.clique(u.Clique), x.text(u.Bad)
		}
		for n := range k.NICs {
			u := &k.NICs[n]
			u.GUID, u.NetDev, u.Bad = x.guid(u.GUID), x.text(u.NetDev), x.text(u.Bad)
		}
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		n.Name, n.Clique, n.Bad = x.host(n.Name), x.clique(n.Clique), x.text(n.Bad)
		n.Leaf, n.Pod, n.Rack = x.r.Name("switch", n.Leaf), x.r.Name("switch", n.Pod), x.r.Name("rack", n.Rack)
		n.GPUIdents, n.NICIdents = slices.Clone(n.GPUIdents), slices.Clone(n.NICIdents)
		for g := range n.GPUIdents {
			n.GPUIdents[g].UUID = x.text(n.GPUIdents[g].UUID)
		}
		for k := range n.NICIdents {
			n.NICIdents[k].UUID, n.NICIdents[k].NetDev = x.guid(n.NICIdents[k].UUID), x.text(n.NICIdents[k].NetDev)
		}
	}
	for i := range c.Fabric.Tiers {
		t := &c.Fabric.Tiers[i]
		t.Switches = slices.Clone(t.Switches)
		for s := range t.Switches {
			t.Switches[s] = x.r.Name("switch", t.Switches[s])
		}
	}
	for i := range c.Facts {
		f := &c.Facts[i]
		f.What, f.Value, f.Source = x.text(f.What), x.text(f.Value), x.text(f.Source)
		if strings.HasPrefix(f.What, "fabric ") || strings.Contains(f.What, "GUID") {
			f.Value = x.guid(f.Value)
		}
	}
}

// guid hashes a GUID in whatever form, also without leading zeros.
func (x *redaction) guid(s string) string {
	digits := strings.TrimPrefix(strings.ToLower(s), "0x")
	if len(digits) >= 8 && strings.Trim(digits, "0123456789abcdef") == "" {
		return x.r.Text(strings.Repeat("0", max(0, 16-len(digits))) + digits)
	}
	return x.text(s)
}

func (x *redaction) findings(all []topology.Finding) {
	for i := range all {
		all[i].Where, all[i].Message = x.text(all[i].Where), x.text(all[i].Message)
	}
}

func (x *redaction) view(v *topology.View) {
	v.Name = x.text(v.Name)
	for i := range v.Nodes {
		n := &v.Nodes[i]
		n.Name, n.Clique = x.host(n.Name), x.clique(n.Clique)
		n.Leaf, n.Pod, n.Rack = x.r.Name("switch", n.Leaf), x.r.Name("switch", n.Pod), x.r.Name("rack", n.Rack)
		for k := range n.NICs {
			n.NICs[k].GUID, n.NICs[k].NetDev = x.guid(n.NICs[k].GUID), x.text(n.NICs[k].NetDev)
		}
	}
	switches := map[string]bool{}
	for i := range v.Switches {
		switches[v.Switches[i].Name] = true
		v.Switches[i].Name = x.r.Name("switch", v.Switches[i].Name)
	}
	end := func(s string) string {
		if switches[s] {
			return x.r.Name("switch", s)
		}
		host, rest, slash := strings.Cut(s, "/")
		if slash {
			return x.host(host) + "/" + x.guid(rest)
		}
		return x.host(s)
	}
	for i := range v.Links {
		v.Links[i].A, v.Links[i].B = end(v.Links[i].A), end(v.Links[i].B)
	}
	if v.Fabric != nil {
		for t := range v.Fabric.Tiers {
			v.Fabric.Tiers[t].Switches = nil // they are listed above
		}
	}
	x.findings(v.Findings)
	for i := range v.Facts {
		f := &v.Facts[i]
		f.What, f.Value, f.Source = x.text(f.What), x.text(f.Value), x.text(f.Source)
	}
}
