package validate

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"rankmap/internal/measured"
)

// nodesOf lists the hosts that ranks report, in order of first rank, with that rank.
func nodesOf(world int, fs map[int]facts) (hosts []string, lead map[string]int) {
	lead = map[string]int{}
	for r := range world {
		f, ok := fs[r]
		if !ok || f.Host == "" {
			continue
		}
		if _, seen := lead[f.Host]; !seen {
			lead[f.Host] = r
			hosts = append(hosts, f.Host)
		}
	}
	return hosts, lead
}

// compareNodes checks what the nodes of a run say of themselves against each other. NCCL has not been started: unequal NICs
// let it hang instead of fail.
func compareNodes(job *Job, fs map[int]facts) []measured.Finding {
	hosts, lead := nodesOf(job.World(), fs)
	if len(hosts) < 2 {
		return nil
	}
	var out []measured.Finding
	add := func(id, format string, args ...any) { out = append(out, newFinding(id, format, args...)) }
	at := func(h string) NetFacts { return fs[lead[h]].Net }
	// differ groups the nodes by a property; "" means unknown and counts for nothing.
	differ := func(of func(h string) string) (string, bool) {
		by := map[string][]string{}
		var keys []string
		for _, h := range hosts {
			k := of(h)
			if k == "" {
				continue
			}
			if by[k] == nil {
				keys = append(keys, k)
			}
			by[k] = append(by[k], h)
		}
		slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(len(by[b]), len(by[a])) })
		var parts []string
		for _, k := range keys {
			parts = append(parts, fmt.Sprintf("%s on %s", k, list(by[k])))
		}
		return strings.Join(parts, "; "), len(keys) > 1
	}
	simple := func(id string, of func(h string) string) {
		if text, yes := differ(of); yes {
			add(id, "%s", text)
		}
	}
	simple("driver-versions", func(h string) string { return at(h).Driver })
	simple("gpu-models", func(h string) string { return fs[lead[h]].Name })
	simple("net-plugins", func(h string) string { return cmp.Or(strings.Join(at(h).Plugins, ", "), "no net plugin") })
	if text, yes := differ(func(h string) string { return describeNICs(at(h).NICs) }); yes {
		id := "nics-differ"
		if !slices.ContainsFunc(hosts, func(h string) bool { return !at(h).Unequal }) {
			id = "nics-differ-allowed"
		}
		add(id, "%s", text)
	} else {
		simple("nic-names", func(h string) string {
			var names []string
			for _, n := range at(h).NICs {
				names = append(names, fmt.Sprintf("%s:%d", n.Name, n.Port))
			}
			return strings.Join(names, ",")
		})
	}
	simple("mtu-differ", func(h string) string {
		var mtus []int
		for _, n := range at(h).NICs {
			if n.MTU > 0 && n.active() && !slices.Contains(mtus, n.MTU) {
				mtus = append(mtus, n.MTU)
			}
		}
		if len(mtus) == 0 && at(h).Socket.MTU > 0 {
			return fmt.Sprintf("%d (%s)", at(h).Socket.MTU, at(h).Socket.Name)
		}
		slices.Sort(mtus)
		return strings.Trim(fmt.Sprint(mtus), "[]")
	})
	var down []string
	for _, h := range hosts {
		for _, n := range at(h).NICs {
			if !n.active() {
				down = append(down, fmt.Sprintf("%s %s:%d is %s", h, n.Name, n.Port, n.State))
			}
		}
	}
	if len(down) > 0 {
		add("nic-down", "%s", list(down))
	}
	if absent := missingNICs(job, fs); len(absent) > 0 {
		add("nic-missing", "%s", list(absent))
	}
	var used []string
	for _, h := range hosts {
		used = append(used, fmt.Sprintf("%s: %s %s", h, cmp.Or(at(h).Socket.Name, "none"), at(h).Socket.Addr))
	}
	add("interfaces", "%s", list(used))
	return out
}

// missingNICs lists NICs that the layout gives to ranks and that their nodes do not have.
func missingNICs(job *Job, fs map[int]facts) []string {
	var out []string
	seen := map[string]bool{}
	for r, want := range job.Ranks {
		f := fs[r]
		if len(f.Net.NICs) == 0 {
			continue
		}
		for _, name := range want.NICs {
			name = nicName(name)
			key := f.Host + " " + name
			if seen[key] || slices.ContainsFunc(f.Net.NICs, func(n NICFacts) bool { return n.Name == name }) {
				continue
			}
			seen[key] = true
			out = append(out, fmt.Sprintf("%s has no %s (rank %d)", f.Host, name, r))
		}
	}
	return out
}

// nicName is the device's name on its node, of a layout's "node0/mlx5_0" or "mlx5_0:1".
func nicName(s string) string {
	s = s[strings.LastIndexByte(s, '/')+1:]
	s, _, _ = strings.Cut(s, ":")
	return s
}

// commonIface suggests an interface name that all nodes have in one subnet, other than the chosen one; "" when there is none.
func commonIface(hosts []string, at func(string) NetFacts) string {
	subnet := func(f IfaceFacts) netip.Prefix {
		p, err := netip.ParsePrefix(f.Addr)
		if err != nil || p.Addr().IsLoopback() {
			return netip.Prefix{}
		}
		return p.Masked()
	}
	for _, f := range at(hosts[0]).Ifaces {
		want := subnet(f)
		if !want.IsValid() || f.Name == at(hosts[0]).Socket.Name {
			continue
		}
		distinct := map[string]bool{}
		for _, h := range hosts {
			for _, g := range at(h).Ifaces {
				if g.Name == f.Name && subnet(g) == want {
					distinct[g.Addr] = true
				}
			}
		}
		if len(distinct) == len(hosts) {
			return f.Name
		}
	}
	return ""
}

// network fills the report's words about the network from the nodes.
func network(e *measured.Environment, world int, fs map[int]facts) {
	hosts, lead := nodesOf(world, fs)
	if len(hosts) < 2 {
		return
	}
	e.Fabric = "TCP"
	for _, n := range fs[lead[hosts[0]]].Net.NICs {
		if !n.active() {
			continue
		}
		e.NICs++
		e.NICGbps = n.Gbps
		e.Fabric = n.Link
		if n.Link == "Ethernet" {
			e.Fabric = "RoCE"
		}
	}
}
