package whatif

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rankmap/internal/units"
	"rankmap/topology"
)

// Changes is what differs from a machine as it is, as the user wrote it. Settings come first (the GPU before rates), then
// what is dropped, then what is degraded, whatever the order on the command line: so a degraded NIC stays degraded when
// all NICs get another rate.
type Changes struct {
	Set     []string // "nic.rate=800G"
	Drop    []string // "node3.gpu5", as topology.ParseDrop reads it
	Degrade []string // "node1.nic2=200G", "node3.gpu5=16", "node2.nvlink=50%", "leaf:su0.rail3=200G"
}

// Empty says that nothing is changed.
func (c Changes) Empty() bool { return len(c.Set)+len(c.Drop)+len(c.Degrade) == 0 }

// Texts lists the changes as asked.
func (c Changes) Texts() []string {
	var out []string
	out = append(out, c.Set...)
	for _, s := range c.Drop {
		out = append(out, "drop "+s)
	}
	for _, s := range c.Degrade {
		out = append(out, "degrade "+s)
	}
	return out
}

// Check reads the settings without a machine and reports every problem.
func (c Changes) Check() error {
	_, err := c.settings()
	return err
}

func (c Changes) settings() ([]Setting, error) {
	var out []Setting
	var errs []error
	seen := map[string]string{}
	for _, text := range c.Set {
		s, err := ParseSetting(text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if was, dup := seen[s.Key]; dup && was != s.Text {
			errs = append(errs, fmt.Errorf("set %s: %s and %s contradict each other", s.Key, was, s.Text))
		}
		seen[s.Key] = s.Text
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b Setting) int { return rankOf(a.Key) - rankOf(b.Key) })
	return out, errors.Join(errs...)
}

// rankOf is the place of a key in the order of application.
func rankOf(key string) int {
	return slices.IndexFunc(settings, func(s setting) bool { return s.key == key })
}

// Apply returns the changed machine and problem. All problems are reported at once. The machine remembers how to take the
// changes back, see Machine.Undo.
func (c Changes) Apply(m Machine, p *Problem) (Machine, *Problem, error) {
	set, err := c.settings()
	if err != nil {
		return m, p, err
	}
	q := *p
	m.undo = nil
	var errs []error
	for _, s := range set {
		if err := s.apply(&m, &q); err != nil {
			errs = append(errs, err)
		}
	}
	for _, text := range c.Drop {
		e, err := topology.ParseDrop(text, m.Cluster)
		if err == nil {
			err = m.edit(e, &q)
		}
		errs = append(errs, err)
	}
	for _, text := range c.Degrade {
		if err := m.degrade(text, &q); err != nil {
			errs = append(errs, fmt.Errorf("degrade %s: %w", text, err))
		}
	}
	return m, &q, errors.Join(errs...)
}

// Undo takes the changes of Apply back.
func (m Machine) Undo(p *Problem) (Machine, error) {
	undo := m.undo
	m.undo = nil
	m.limit = 0
	for _, u := range slices.Backward(undo) {
		if u.was != nil {
			m.Cluster = u.was
		} else if err := m.edit(u.edit, p); err != nil {
			return m, err
		}
	}
	m.undo = nil
	return m, nil
}

// degrade lowers a part: WHERE=RATE, WHERE=N% or WHERE=LINKS.
func (m *Machine) degrade(text string, p *Problem) error {
	where, val, ok := strings.Cut(text, "=")
	if !ok || where == "" || val == "" {
		return errors.New("want HOST.nicN=RATE, HOST.nic=RATE, HOST.gpuN=LINKS, HOST.nvlink=N% or leaf:NAME[.railN]=RATE; a rate may be a share such as 50%")
	}
	if leaf, ok := strings.CutPrefix(where, "leaf:"); ok {
		return m.degradeLeaf(leaf, val, p)
	}
	i := strings.LastIndex(where, ".")
	if i < 0 {
		return fmt.Errorf("%q: want HOST.nicN, HOST.nic, HOST.gpuN, HOST.nvlink or leaf:NAME", where)
	}
	host, part := where[:i], where[i+1:]
	node, ok := m.Cluster.FindNode(host)
	if !ok {
		return fmt.Errorf("no node %q", host)
	}
	_, class := m.Cluster.Node(node)
	switch {
	case part == "nvlink":
		share, err := percent(val)
		if err != nil {
			return err
		}
		was := class.LinkScale
		if was == 0 {
			was = 1
		}
		return m.edit(topology.Edit{Kind: topology.SetLinkScale, Node: host, Scale: share * was}, p)
	case part == "nic":
		for x := range class.NICs {
			if err := m.degradeNIC(node, x, val, p); err != nil {
				return err
			}
		}
		return nil
	case strings.HasPrefix(part, "nic"):
		x, err := strconv.Atoi(part[3:])
		if err != nil || x < 0 || x >= len(class.NICs) {
			return fmt.Errorf("node %q has no NIC %q (it has %d)", host, part[3:], len(class.NICs))
		}
		return m.degradeNIC(node, x, val, p)
	case strings.HasPrefix(part, "gpu"):
		g, err := strconv.Atoi(part[3:])
		if err != nil || g < 0 || g >= len(class.GPUs) {
			return fmt.Errorf("node %q has no GPU %q (it has %d)", host, part[3:], len(class.GPUs))
		}
		return m.degradeGPU(node, g, val, p)
	}
	return fmt.Errorf("%q: want nicN, nic, gpuN or nvlink after the host", part)
}

// degradeGPU leaves a GPU that many NVLinks, or that share of them.
func (m *Machine) degradeGPU(node topology.NodeID, g int, val string, p *Problem) error {
	n, _ := m.Cluster.Node(node)
	up := m.Cluster.LinksUp(n.First + topology.GPUID(g))
	links, err := strconv.Atoi(val)
	if strings.HasSuffix(val, "%") {
		share, e := percent(val)
		links, err = int(share*float64(up)+0.5), e
	}
	switch {
	case err != nil || links < 0:
		return fmt.Errorf("%q: want how many NVLinks stay up (it has %d), or a share such as 50%%", val, up)
	case links > up:
		return fmt.Errorf("%d NVLinks are more than the %d that are up", links, up)
	case links == up:
		return nil
	}
	return m.edit(topology.Edit{Kind: topology.SetLinks, Node: n.Name, GPU: g, Links: links}, p)
}

// degradeNIC lowers one NIC to a rate or a share of its own.
func (m *Machine) degradeNIC(node topology.NodeID, x int, val string, p *Problem) error {
	n, _ := m.Cluster.Node(node)
	now := m.Cluster.NICBandwidth(node, x)
	to, err := units.ParseRate(val)
	if strings.HasSuffix(val, "%") {
		share, e := percent(val)
		to, err = now*units.Bandwidth(share), e
	}
	if err != nil {
		return err
	}
	if to > now && now > 0 {
		return fmt.Errorf("%s is more than the NIC's %s", to, now)
	}
	if to == now {
		return nil
	}
	return m.edit(topology.Edit{Kind: topology.SetNICRate, Node: n.Name, NIC: x, GPU: -1, Peer: -1, Rail: -1, Rate: to}, p)
}

// degradeLeaf lowers the NICs cabled to a leaf, of one rail or of all.
func (m *Machine) degradeLeaf(leaf, val string, p *Problem) error {
	rail := -1
	if i := strings.LastIndex(leaf, ".rail"); i >= 0 {
		n, err := strconv.Atoi(leaf[i+len(".rail"):])
		if err != nil || n < 0 {
			return fmt.Errorf("%q: want a rail number at the end", leaf)
		}
		leaf, rail = leaf[:i], n
	}
	found := false
	for n := range topology.NodeID(m.Cluster.NumNodes()) {
		node, class := m.Cluster.Node(n)
		if node.Leaf != leaf {
			continue
		}
		for x := range class.NICs {
			if rail >= 0 && class.NICs[x].Rail != rail {
				continue
			}
			found = true
			if err := m.degradeNIC(n, x, val, p); err != nil {
				return err
			}
		}
	}
	if !found {
		if len(m.Cluster.Leaves()) == 0 {
			return fmt.Errorf("no NIC is cabled to leaf %q: the cluster names no leaf switches", leaf)
		}
		return fmt.Errorf("no NIC is cabled to leaf %q (there are %s)", leaf, strings.Join(m.Cluster.Leaves(), ", "))
	}
	return nil
}

// percent reads "50%".
func percent(s string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || !strings.HasSuffix(s, "%") || !(v > 0) || v > 100 {
		return 0, fmt.Errorf("%q: want a share such as 50%%", s)
	}
	return v / 100, nil
}
