package fabric

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"rankmap/topology"
)

// treeSwitch is one switch of a hand-written tree.
type treeSwitch struct {
	name, label string
	line        int
	nodes       []string
	kids        []string
	has         map[string]bool // the children
	stated      bool            // has an entry of its own
	parents     []string
	tier        int
}

// tree collects switches, blocks and domains from Slurm or Topograph files and turns them into a description.
type tree struct {
	*notes
	desc     *topology.FabricDesc
	sw       map[string]*treeSwitch
	order    []*treeSwitch
	blocks   []group
	blockAt  map[string]int      // line of each block's name
	domains  map[string][]string // domain -> hosts
	domOrder []string
	left     int // names that may still be made
}

// group is a block with its line.
type group struct {
	name  string
	line  int
	hosts []string
}

func newTree(n *notes, source string) *tree {
	return &tree{notes: n, desc: &topology.FabricDesc{Source: source}, sw: map[string]*treeSwitch{}, domains: map[string][]string{}, left: maxHosts}
}

// expand expands a host list against the file's budget of names and reports errors at a line.
func (t *tree) expand(line int, list string) []string {
	got, err := topology.ExpandHostsUpTo(list, t.left)
	if err != nil {
		t.fail(line, "host list %v", err)
		return nil
	}
	t.left -= len(got)
	return got
}

// switches expands a list of switch names.
func (t *tree) switches(line int, list string) []string {
	got, err := topology.ExpandHostsUpTo(list, min(t.left, maxSwitches))
	if err != nil {
		t.fail(line, "switch list %v", err)
		return nil
	}
	t.left -= len(got)
	return got
}

// at returns the switch of a name, made on first sight.
func (t *tree) at(name string, line int) *treeSwitch {
	s := t.sw[name]
	if s == nil {
		if len(t.order) == maxSwitches {
			if len(t.errs) == 0 {
				t.fail(line, "more than %d switches", maxSwitches)
			}
			return &treeSwitch{name: name, line: line}
		}
		s = &treeSwitch{name: name, line: line}
		t.sw[name] = s
		t.order = append(t.order, s)
	}
	return s
}

// state records a switch's own entry.
func (t *tree) state(name string, line int, nodes, kids []string) *treeSwitch {
	s := t.at(name, line)
	if s.stated {
		t.fail(line, "switch %q is stated twice, first in line %d", clip(name), s.line)
		return s
	}
	s.stated, s.line = true, line
	s.nodes = append(s.nodes, nodes...)
	for _, k := range kids {
		t.child(s, k, line)
	}
	return s
}

// child hangs a switch below another.
func (t *tree) child(s *treeSwitch, kid string, line int) {
	if s.has[kid] {
		t.warn(line, "switch %q lists %q twice", clip(s.name), clip(kid))
		return
	}
	if s.has == nil {
		s.has = map[string]bool{}
	}
	s.has[kid] = true
	s.kids = append(s.kids, kid)
	k := t.at(kid, line)
	if k.parents = append(k.parents, s.name); len(k.parents) == 2 {
		t.warn(line, "switch %q has two parents, %q and %q", clip(kid), clip(k.parents[0]), clip(s.name))
	}
}

// block records a block.
func (t *tree) block(name string, line int, hosts []string) {
	if l, twice := t.blockAt[name]; twice {
		t.fail(line, "block %q is stated twice, first in line %d", clip(name), l)
		return
	}
	if t.blockAt == nil {
		t.blockAt = map[string]int{}
	}
	t.blockAt[name] = line
	t.blocks = append(t.blocks, group{name, line, hosts})
}

// domain adds hosts to an NVLink domain.
func (t *tree) domain(name string, hosts []string) {
	if _, ok := t.domains[name]; !ok {
		t.domOrder = append(t.domOrder, name)
	}
	t.domains[name] = append(t.domains[name], hosts...)
}

// finish checks the tree and fills the description.
func (t *tree) finish() *topology.FabricDesc {
	t.cycles()
	if len(t.errs) > 0 {
		return t.desc
	}
	t.tiers()
	where := map[string]*treeSwitch{}
	block := map[string]string{}
	var names []string
	for _, s := range t.order {
		for _, h := range s.nodes {
			switch o := where[h]; {
			case o == nil:
				where[h] = s
				names = append(names, h)
			case o == s:
				t.warn(s.line, "node %q is listed twice below switch %q", clip(h), clip(s.name))
			default:
				t.warn(s.line, "node %q is below two switches, %q (line %d) and %q", clip(h), clip(o.name), o.line, clip(s.name))
			}
		}
	}
	blockLine := map[string]group{}
	for _, b := range t.blocks {
		for _, h := range b.hosts {
			if o, ok := blockLine[h]; ok {
				if o.name != b.name {
					t.warn(b.line, "node %q is in two blocks, %q (line %d) and %q", clip(h), clip(o.name), o.line, clip(b.name))
				}
				continue
			}
			blockLine[h] = b
			block[h] = b.name
			if where[h] == nil {
				names = append(names, h)
			}
		}
	}
	t.prefixes()
	t.roots()
	d := t.desc
	dom := t.fillDomains(where, block, &names)
	sort.Slice(names, func(i, j int) bool { return topology.CompareNames(names[i], names[j]) < 0 })
	d.Hosts = make([]topology.DescHost, len(names))
	for i, n := range names {
		d.Hosts[i] = topology.DescHost{Name: n, Block: block[n], Domain: dom[n]}
		if s := where[n]; s != nil {
			d.Hosts[i].Leaf = s.name
		}
	}
	t.fillSwitches(where)
	for _, b := range t.blocks {
		d.Blocks = append(d.Blocks, topology.DescGroup{Name: b.name, Hosts: sortedHosts(b.hosts)})
	}
	return d
}

// fillDomains fills the NVLink domains and returns each host's; hosts that only a domain names are added to names.
func (t *tree) fillDomains(where map[string]*treeSwitch, block map[string]string, names *[]string) map[string]string {
	dom := map[string]string{}
	for _, n := range t.domOrder {
		hosts := sortedHosts(t.domains[n])
		t.desc.Domains = append(t.desc.Domains, topology.DescGroup{Name: n, Hosts: hosts})
		for _, h := range hosts {
			if o := dom[h]; o != "" && o != n {
				t.warn(0, "node %q is in two NVLink domains, %q and %q", clip(h), clip(o), clip(n))
				continue
			}
			if dom[h] = n; where[h] == nil && block[h] == "" {
				*names = append(*names, h)
			}
		}
	}
	return dom
}

// fillSwitches fills the switches and their links.
func (t *tree) fillSwitches(where map[string]*treeSwitch) {
	count := map[*treeSwitch]int{}
	for _, s := range where {
		count[s]++
	}
	d := t.desc
	for _, s := range t.order {
		d.Switches = append(d.Switches, topology.DescSwitch{Name: s.name, Label: s.label, Tier: s.tier, Hosts: count[s]})
		for _, k := range s.kids {
			d.Links = append(d.Links, topology.DescLink{A: k, B: s.name, Count: 1})
		}
	}
	sortSwitches(d)
}

// sortSwitches puts switches and links in the order the description promises; of bundles between the same two switches
// the faster comes first.
func sortSwitches(d *topology.FabricDesc) {
	slices.SortFunc(d.Switches, func(a, b topology.DescSwitch) int {
		return cmp.Or(cmp.Compare(a.Tier, b.Tier), topology.CompareNames(a.Name, b.Name))
	})
	slices.SortFunc(d.Links, func(a, b topology.DescLink) int {
		return cmp.Or(topology.CompareNames(a.A, b.A), topology.CompareNames(a.B, b.B), cmp.Compare(b.Rate, a.Rate))
	})
}

func sortedHosts(hosts []string) []string {
	out := slices.Clone(hosts)
	sort.Slice(out, func(i, j int) bool { return topology.CompareNames(out[i], out[j]) < 0 })
	return slices.Compact(out)
}

// cycles reports switches that contain themselves, and entries nobody states.
func (t *tree) cycles() {
	const (
		fresh = iota
		open
		done
	)
	state := make(map[*treeSwitch]int, len(t.order))
	for _, root := range t.order {
		if state[root] != fresh {
			continue
		}
		type frame struct {
			s    *treeSwitch
			next int
		}
		stack := []frame{{root, 0}} // a chain of switches may be as long as the file
		state[root] = open
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if f.next == len(f.s.kids) {
				state[f.s] = done
				stack = stack[:len(stack)-1]
				continue
			}
			k := t.sw[f.s.kids[f.next]]
			f.next++
			if k == nil {
				continue // beyond the limit of switches
			}
			switch state[k] {
			case fresh:
				state[k] = open
				stack = append(stack, frame{k, 0})
			case open:
				t.fail(f.s.line, "switches in a circle: %q is above and below %q", clip(k.name), clip(f.s.name))
			}
		}
	}
}

// tiers gives each switch the height above its hosts: 0 with nodes or no children, else one above the highest child.
func (t *tree) tiers() {
	wait := map[*treeSwitch]int{}
	var ready []*treeSwitch
	for _, s := range t.order {
		if wait[s] = len(s.kids); len(s.kids) == 0 {
			ready = append(ready, s)
		}
	}
	for len(ready) > 0 {
		s := ready[0]
		ready = ready[1:]
		for _, p := range s.parents {
			up := t.sw[p]
			up.tier = max(up.tier, s.tier+1)
			if wait[up]--; wait[up] == 0 {
				ready = append(ready, up)
			}
		}
	}
}

// roots reports forests, leaves outside every tree, and switches that no entry states.
func (t *tree) roots() {
	var roots, alone, missing []string
	line := 0
	for _, s := range t.order {
		if !s.stated {
			missing = append(missing, s.name)
			if line == 0 {
				line = s.line
			}
		}
		if len(s.parents) > 0 {
			continue
		}
		if len(s.kids) == 0 {
			alone = append(alone, s.name)
		} else {
			roots = append(roots, s.name)
		}
	}
	if len(missing) > 0 {
		t.warn(line, "%d switches are listed as children and have no entry of their own: %s", len(missing), some(missing))
	}
	if len(roots)+len(alone) > 1 {
		switch {
		case len(roots) == 0:
			t.warn(0, "no common root: %d leaf switches without a switch above them (%s); no path between them is stated", len(alone), some(alone))
		case len(alone) == 0:
			t.warn(0, "no common root: %d trees (%s); no path between them is stated", len(roots), some(roots))
		default:
			t.warn(0, "no common root: %d trees (%s) and %d leaf switches in none (%s); no path between them is stated", len(roots), some(roots), len(alone), some(alone))
		}
	}
}

// prefixes reports host lists where the prefix of a part seems lost, "rack-n[1-4],n[5-8]": a part's prefix is the end
// of another part's in the same file, and is used far less.
func (t *tree) prefixes() {
	type use struct {
		count, line int
		sw, first   string
	}
	uses := map[string]*use{}
	var order []string
	add := func(name string, line int, sw string) {
		p := strings.TrimRight(name, "0123456789")
		u := uses[p]
		if u == nil {
			u = &use{line: line, sw: sw, first: name}
			uses[p] = u
			order = append(order, p)
		}
		u.count++
	}
	for _, s := range t.order {
		for _, h := range s.nodes {
			add(h, s.line, s.name)
		}
	}
	for _, b := range t.blocks {
		for _, h := range b.hosts {
			add(h, b.line, b.name)
		}
	}
	for _, p := range order {
		for _, q := range order {
			if p != "" && len(q) > len(p) && strings.HasSuffix(q, p) && !alnum(q[len(q)-len(p)-1]) && uses[p].count*4 <= uses[q].count {
				u := uses[p]
				t.warn(u.line, "%q: %d names begin with %q where %d of the file begin with %q: the prefix seems lost in the host list (names are kept as written, first %q)", clip(u.sw), u.count, clip(p), uses[q].count, clip(q), clip(u.first))
				break
			}
		}
		if len(order) > 1000 {
			break // a file of single names, nothing to compare
		}
	}
}

func alnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// some joins the first names of a list.
func some(names []string) string {
	const show = 6
	if len(names) <= show {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:show], ", "), len(names)-show)
}
