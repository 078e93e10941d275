package layout

import (
	"errors"
	"fmt"
	"slices"

	"rankmap/internal/parallel"
	"rankmap/topology"
)

// CompactRanks is from how many ranks on a document is written with rankBlocks and groupClasses instead of ranks and
// groups: 100,000 ranks then take some hundred kilobytes. Reading expands both.
const CompactRanks = 4096

// RankBlock is consecutive ranks: on each host of the list, one rank for each entry of GPUs, in order. Local ranks count
// up on each host; coordinates follow from the strategy.
type RankBlock struct {
	Hosts string    `yaml:"hosts" json:"hosts" strict:"required"` // host list, "node[0-2047]"
	GPUs  []RankGPU `yaml:"gpus" json:"gpus" strict:"required"`
}

// RankGPU is the GPU of one rank of a block.
type RankGPU struct {
	GPU  int      `yaml:"gpu" json:"gpu"`
	PCI  string   `yaml:"pci,omitempty" json:"pci,omitempty"`
	UUID string   `yaml:"uuid,omitempty" json:"uuid,omitempty"`
	NUMA *int     `yaml:"numa,omitempty" json:"numa,omitempty"`
	NICs []string `yaml:"nics,omitempty,flow" json:"nics,omitempty"`
}

// MarshalYAML writes one GPU on one line.
func (r RankGPU) MarshalYAML() (any, error) {
	type plain RankGPU
	return flow(plain(r))
}

// GroupClass is groups of one kind that are equal but for their members. Index lists which groups of the kind they are,
// as ranges "0-2047,4096": the kind's groups in the order of the strategy's arithmetic (for pp: neighbouring stages of
// each pipeline).
type GroupClass struct {
	Index string `yaml:"index" json:"index" strict:"required"`
	Group Group  `yaml:"group" json:"group" strict:"required"` // Members is empty
}

// Lists returns the rank lists of a kind under a strategy, in the order that GroupClass.Index counts.
func Lists(st parallel.Strategy, kind parallel.Dim) [][]int {
	lists := st.Groups(kind)
	if kind != parallel.PP {
		return lists
	}
	var pairs [][]int
	for _, l := range lists {
		for i := range len(l) - 1 {
			pairs = append(pairs, l[i:i+2:i+2])
		}
	}
	return pairs
}

// compact returns a copy of the document in compact form, or l itself when it is small or does not follow the
// strategy's arithmetic.
func (l *Layout) compact() *Layout {
	if len(l.Ranks) <= CompactRanks {
		return l
	}
	classes, ok := l.classes()
	if !ok {
		return l
	}
	c := *l
	c.RankBlocks, c.GroupClasses = l.blocks(), classes
	c.Ranks, c.Groups = nil, nil
	return &c
}

// blocks folds hosts with equal GPUs into host lists.
func (l *Layout) blocks() []RankBlock {
	var out []RankBlock
	var hosts []string
	var gpus []RankGPU
	flush := func() {
		if len(hosts) > 0 {
			out = append(out, RankBlock{Hosts: topology.CompressHosts(hosts), GPUs: gpus})
		}
		hosts, gpus = nil, nil
	}
	for i := 0; i < len(l.Ranks); {
		j := i
		var run []RankGPU
		for j < len(l.Ranks) && l.Ranks[j].Host == l.Ranks[i].Host {
			r := &l.Ranks[j]
			run = append(run, RankGPU{GPU: r.GPU, PCI: r.PCI, UUID: r.UUID, NUMA: r.NUMA, NICs: r.NICs})
			j++
		}
		if !slices.EqualFunc(run, gpus, sameGPU) || !listable(l.Ranks[i].Host) {
			flush()
			gpus = run
		}
		hosts = append(hosts, l.Ranks[i].Host)
		i = j
	}
	flush()
	return out
}

func sameGPU(a, b RankGPU) bool {
	numa := a.NUMA == b.NUMA || a.NUMA != nil && b.NUMA != nil && *a.NUMA == *b.NUMA
	return numa && a.GPU == b.GPU && a.PCI == b.PCI && a.UUID == b.UUID && slices.Equal(a.NICs, b.NICs)
}

// listable says whether a host list gives the name back.
func listable(host string) bool {
	back, err := topology.ExpandHosts(topology.CompressHosts([]string{host}))
	return err == nil && len(back) == 1 && back[0] == host
}

// classes folds groups that share everything but their members. ok is false when the groups are not the strategy's.
func (l *Layout) classes() ([]GroupClass, bool) {
	st := l.Strategy.Parallel()
	type key struct {
		kind                  parallel.Dim
		domain, path, slowest string
		concurrent, n         int
		first                 *Collective
	}
	at := map[key]int{}
	var out []GroupClass
	var index [][]int
	next := map[parallel.Dim]int{}
	lists := map[parallel.Dim][][]int{}
	for i := range l.Groups {
		g := &l.Groups[i]
		if _, ok := lists[g.Kind]; !ok {
			lists[g.Kind] = Lists(st, g.Kind)
		}
		n := next[g.Kind]
		if n >= len(lists[g.Kind]) || !slices.Equal(g.Members, lists[g.Kind][n]) || len(g.Collectives) == 0 {
			return nil, false
		}
		next[g.Kind]++
		k := key{g.Kind, g.Domain, g.Path, g.Slowest, g.Concurrent, len(g.Collectives), &g.Collectives[0]}
		c, ok := at[k]
		if !ok {
			c = len(out)
			at[k] = c
			class := *g
			class.Members = nil
			out = append(out, GroupClass{Group: class})
			index = append(index, nil)
		}
		index[c] = append(index[c], n)
	}
	for i := range out {
		out[i].Index = formatRanges(index[i])
	}
	return out, true
}

// expand is the inverse of compact.
func (l *Layout) expand() error {
	if len(l.RankBlocks) == 0 && len(l.GroupClasses) == 0 {
		return nil
	}
	if len(l.Ranks) > 0 || len(l.Groups) > 0 {
		return errors.New("rankBlocks and groupClasses stand in place of ranks and groups, not beside them")
	}
	st := l.Strategy.Parallel()
	if err := st.Check(); err != nil {
		return err
	}
	for i, b := range l.RankBlocks {
		hosts, err := topology.ExpandHosts(b.Hosts)
		if err != nil {
			return fmt.Errorf("rankBlocks %d: %w", i, err)
		}
		if len(hosts)*len(b.GPUs)+len(l.Ranks) > st.World() {
			return fmt.Errorf("rankBlocks %d: more ranks than the strategy's %d", i, st.World())
		}
		for _, h := range hosts {
			for j, g := range b.GPUs {
				r := len(l.Ranks)
				l.Ranks = append(l.Ranks, Rank{
					Rank: r, Host: h, LocalRank: j, GPU: g.GPU, PCI: g.PCI, UUID: g.UUID, NUMA: g.NUMA, NICs: g.NICs, Coords: CoordsOf(st, r),
				})
			}
		}
	}
	if err := l.expandGroups(st); err != nil {
		return err
	}
	l.RankBlocks, l.GroupClasses = nil, nil
	return nil
}

func (l *Layout) expandGroups(st parallel.Strategy) error {
	var kinds []parallel.Dim
	lists := map[parallel.Dim][][]int{}
	groups := map[parallel.Dim][]*Group{}
	for i := range l.GroupClasses {
		c := &l.GroupClasses[i]
		k := c.Group.Kind
		if _, ok := lists[k]; !ok {
			kinds = append(kinds, k)
			lists[k] = Lists(st, k)
			groups[k] = make([]*Group, len(lists[k]))
		}
		err := parseRanges(c.Index, len(lists[k]), func(n int) error {
			if groups[k][n] != nil {
				return fmt.Errorf("group %d stands in two classes", n)
			}
			groups[k][n] = &c.Group
			return nil
		})
		if err != nil {
			return fmt.Errorf("groupClasses %d (%s): %w", i, k, err)
		}
	}
	for _, k := range kinds {
		for n, g := range groups[k] {
			if g == nil {
				return fmt.Errorf("groupClasses: %s group %d of %d is missing", k, n, len(groups[k]))
			}
			full := *g
			full.Members = lists[k][n]
			l.Groups = append(l.Groups, full)
		}
	}
	return nil
}
