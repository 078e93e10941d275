package topology

import (
	"fmt"
	"sort"
	"strings"
)

// Severity ranks findings.
type Severity uint8

// The severities, worst first.
const (
	SeverityError   Severity = iota // the machine is not what it should be: discover exits 4
	SeverityWarning                 // worth acting on before a large run
	SeverityNote                    // good to know when reading predictions
)

var severityNames = []string{"error", "warning", "note"}

// String returns the severity's name.
func (s Severity) String() string {
	if int(s) < len(severityNames) {
		return severityNames[s]
	}
	return fmt.Sprintf("severity(%d)", uint8(s))
}

// MarshalText writes the name.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name.
func (s *Severity) UnmarshalText(b []byte) error {
	return unmarshalName(s, string(b), severityNames, "severity")
}

// FindingKind is one row of the table of findings.
type FindingKind struct {
	ID       string
	Severity Severity
	Format   string // of the message
	Next     string // what to do
}

// findingKinds is the table. Its order is the order of findings of one severity.
var findingKinds = []FindingKind{
	{"node-bad", SeverityError, "the node is marked bad: %s", "leave the node out until it is repaired"},
	{"gpu-bad", SeverityError, "the GPU is marked bad: %s", "reset or replace it; plans leave it out until then"},
	{"nvlink-missing", SeverityError, "%d of %d NVLinks are up", "see nvidia-smi nvlink -s and -e for the link that is down; reseat or replace the board, or plan around it"},
	{"nvlink-down", SeverityError, "%d NVLinks to GPU %d are down", "see nvidia-smi nvlink -s and -e; check the bridge or the board"},
	{"nvlink-slow", SeverityError, "NVLinks to GPU %d run at %s each, want %s", "see nvidia-smi nvlink -s and -e for replays and errors; reset the GPU"},
	{"fabric-in-progress", SeverityError, "the NVLink fabric reports %q", "wait for or restart the fabric manager; CUDA fails with error 802 until it reports completed"},
	{"pcie-width", SeverityError, "PCIe runs %d lanes of %d", "reseat the card or its riser; see lspci -vv, LnkSta"},
	{"nic-bad", SeverityError, "NIC %s is marked bad: %s", "leave it out with NCCL_IB_HCA until it is repaired"},
	{"nic-down", SeverityError, "NIC %s, the nearest to a GPU, is %s", "check cable and switch port; see ibstat"},
	{"nic-slow", SeverityError, "NIC %s runs at %s, others of its kind at %s", "check cable, port width and speed; see ibstat"},
	{"nvlink-none", SeverityWarning, "no NVLink, while other GPUs of the node have %d", "nothing if only some pairs were bought with a bridge; else see nvidia-smi nvlink -s and reseat it"},
	{"clique-split", SeverityWarning, "the GPUs of one tray belong to %d NVLink cliques", "intended for partitions; else check the fabric manager's configuration"},
	{"nic-idle", SeverityWarning, "NIC %s is %s; no GPU is nearest to it", "nothing if the port is meant to be unused; else check its cable"},
	{"gpu-far-from-nics", SeverityWarning, "no NIC nearer than %s", "its traffic crosses host bridges: prefer other GPUs for ranks that talk between nodes"},
	{"mig-on", SeverityWarning, "MIG is on", "turn it off with nvidia-smi -mig 0: collectives need whole GPUs"},
	{"p2p-off", SeverityWarning, "peer-to-peer copies are off", "check IOMMU, ACS and the driver's P2P support; collectives go through host memory"},
	{"nodes-unequal", SeverityWarning, "%d nodes are not like the other %d: %s", "compare the classes; a collective runs at the pace of the slowest node"},
	{"gpus-mixed", SeverityWarning, "GPUs of %d models: %s", "place each group on one model"},
	{"pcie-generation", SeverityNote, "PCIe runs at generation %d of %d", "normal for an idle GPU; look again under load"},
	{"distances-unknown", SeverityNote, "PCIe distances are unknown (virtualised): the hypervisor shows a flat tree", "give NCCL the provider's topology file and rankmap the same"},
	{"nvlink-unknown", SeverityNote, "the source cannot show NVLink", "give nvidia-smi topo -m (not -mp)"},
	{"model-unknown", SeverityNote, "the source names no GPU model", "give --gpu"},
	{"nic-rate-unknown", SeverityNote, "NIC rates are not stated", "give --nic-rate for plans over several nodes"},
	{"nics-none", SeverityNote, "no usable NIC", "plans over several nodes need one"},
}

// FindingKinds lists every kind of finding, in order.
func FindingKinds() []FindingKind { return append([]FindingKind(nil), findingKinds...) }

// Finding is something to know about the machine's health.
type Finding struct {
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	Where    string   `json:"where"` // "node3/5", "node[0-7]/5" where equal nodes share it, or "cluster"
	Message  string   `json:"message"`
	Next     string   `json:"next"`
	kind     int
}

// String prints one line: severity, place, message, next step.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s: %s (%s); %s", f.Severity, f.Where, f.Message, f.ID, f.Next)
}

// Findings examines a finished cluster. Nodes of one class share a finding. The worst come first; the order is the
// same each time.
func (c *Cluster) Findings() []Finding {
	h := health{c: c, hosts: c.hostsByClass()}
	for i := range c.Classes {
		if len(h.hosts[i]) > 0 {
			h.class(i)
		}
	}
	h.nodes()
	h.cluster()
	sort.SliceStable(h.found, func(i, j int) bool {
		a, b := &h.found[i], &h.found[j]
		if a.Severity != b.Severity {
			return a.Severity < b.Severity
		}
		if a.kind != b.kind {
			return a.kind < b.kind
		}
		return CompareNames(a.Where, b.Where) < 0
	})
	return h.found
}

type health struct {
	c     *Cluster
	hosts [][]string
	found []Finding
}

func (h *health) add(id, where string, args ...any) {
	for i, k := range findingKinds {
		if k.ID == id {
			h.found = append(h.found, Finding{ID: id, Severity: k.Severity, Where: where, Message: fmt.Sprintf(k.Format, args...), Next: k.Next, kind: i})
			return
		}
	}
	panic("topology: no finding " + id)
}

func (c *Cluster) hostsByClass() [][]string {
	hosts := make([][]string, len(c.Classes))
	for i := range c.Nodes {
		hosts[c.Nodes[i].Class] = append(hosts[c.Nodes[i].Class], c.Nodes[i].Name)
	}
	return hosts
}

// where names a part of all nodes of a class; part is empty for the nodes themselves.
func (h *health) where(class int, part string) string {
	s := CompressHosts(h.hosts[class])
	if len(s) > 80 {
		s = fmt.Sprintf("%s and %d like it", h.hosts[class][0], len(h.hosts[class])-1)
	}
	if part != "" {
		s += "/" + part
	}
	return s
}

func (h *health) class(i int) {
	k, d := &h.c.Classes[i], &h.c.derived[i]
	for g := range k.GPUs {
		h.gpu(i, g)
	}
	h.links(i)
	h.nics(i)
	cliques := map[string]bool{}
	for g := range k.GPUs {
		cliques[k.GPUs[g].Clique] = true
	}
	if len(cliques) > 1 {
		h.add("clique-split", h.where(i, ""), len(cliques))
	}
	if k.Virtual {
		h.add("distances-unknown", h.where(i, ""))
	}
	if k.Wiring == NVLinkUnknown {
		h.add("nvlink-unknown", h.where(i, ""))
	}
	if k.GPUs[0].Model == "" && k.GPUs[0].Name == "" {
		h.add("model-unknown", h.where(i, ""))
	}
	if d.usable.empty() {
		h.add("nics-none", h.where(i, ""))
	} else if d.uplink == 0 {
		h.add("nic-rate-unknown", h.where(i, ""))
	}
}

func (h *health) gpu(i, g int) {
	k, d := &h.c.Classes[i], &h.c.derived[i]
	u, info := &k.GPUs[g], &d.gpus[g]
	where := h.where(i, fmt.Sprint(g))
	if u.Bad != "" {
		h.add("gpu-bad", where, u.Bad)
	}
	if s := strings.ToLower(u.FabricState); s == "in progress" || s == "not started" || s == "failed" || s == "failure" {
		h.add("fabric-in-progress", where, u.FabricState)
	}
	if w := u.PCIe; w.Width > 0 && w.Width < w.MaxWidth {
		h.add("pcie-width", where, w.Width, w.MaxWidth)
	}
	if w := u.PCIe; w.Gen > 0 && w.Gen < w.MaxGen {
		h.add("pcie-generation", where, w.Gen, w.MaxGen)
	}
	if u.MIG {
		h.add("mig-on", where)
	}
	if u.NoP2P {
		h.add("p2p-off", where)
	}
	nearer := false // some GPU of the node has a NIC below its own host bridge
	for o := range d.gpus {
		p := d.gpus[o].nicPath
		nearer = nearer || p == PathPIX || p == PathPXB || p == PathPHB
	}
	if p := info.nicPath; p == PathSYS || p == PathNODE && nearer {
		h.add("gpu-far-from-nics", where, p)
	}
}

// links reports links that are missing by the datasheet (behind NVSwitch every link of a GPU should be up), by
// comparison (a GPU with fewer than the most of its node, where wirings are even), or by the source's own word.
func (h *health) links(i int) {
	k, d := &h.c.Classes[i], &h.c.derived[i]
	most := 0
	for g := range d.gpus {
		most = max(most, d.gpus[g].linksUp)
	}
	even := k.Wiring == NVLinkSwitched || k.Wiring == NVLinkCubeMesh || k.Wiring == NVLinkDirect && len(d.parts) == 1
	for g := range d.gpus {
		want := most
		if sheet := d.gpus[g].sheet; sheet != nil && k.Wiring == NVLinkSwitched {
			want = sheet.NVLinks
		}
		up := d.gpus[g].linksUp
		switch {
		case k.Wiring == NVLinkUnknown || most == 0 || up >= want:
		case even:
			h.add("nvlink-missing", h.where(i, fmt.Sprint(g)), up, want)
		case up == 0: // bridges: a machine may be built with some pairs only
			h.add("nvlink-none", h.where(i, fmt.Sprint(g)), want)
		}
	}
	for _, l := range k.NVLinks {
		where := h.where(i, fmt.Sprint(l.A))
		if l.Down > 0 {
			h.add("nvlink-down", where, l.Down, l.B)
		}
		sheet := d.gpus[l.A].sheet
		if l.Count > 0 && sheet != nil && linkFactor(sheet, l.PerLink) < 0.98 {
			h.add("nvlink-slow", where, l.B, l.PerLink, perLink(sheet, 0))
		}
	}
}

func (h *health) nics(i int) {
	k := &h.c.Classes[i]
	near := make([]bool, len(k.NICs)) // nearest to some GPU, were all ports up
	for g := range k.GPUs {
		if k.NICPaths == nil {
			break
		}
		best := PathSYS
		for n := range k.NICs {
			if p := k.NICPaths[g][n]; p.IsPCIe() && p < best {
				best = p
			}
		}
		for n := range k.NICs {
			near[n] = near[n] || k.NICPaths[g][n] == best && best < PathNODE
		}
	}
	most := map[string]float64{}
	for n := range k.NICs {
		if near[n] {
			most[k.NICs[n].LinkLayer] = max(most[k.NICs[n].LinkLayer], k.NICs[n].Rate.GBps())
		}
	}
	for n := range k.NICs {
		x := &k.NICs[n]
		label := x.Device
		if label == "" {
			label = x.Name
		}
		where := h.where(i, "")
		switch {
		case x.Bad != "":
			h.add("nic-bad", where, label, x.Bad)
		case stateDown(x.State) && near[n]:
			h.add("nic-down", where, label, x.State)
		case stateDown(x.State):
			h.add("nic-idle", where, label, x.State)
		case near[n] && x.Rate > 0 && x.Rate.GBps() <= most[x.LinkLayer]/2:
			h.add("nic-slow", where, label, x.Rate, fmt.Sprint(most[x.LinkLayer], " GB/s"))
		}
		if x.PCIe.Width > 0 && x.PCIe.Width < x.PCIe.MaxWidth {
			h.add("pcie-width", h.where(i, label), x.PCIe.Width, x.PCIe.MaxWidth)
		}
	}
}

func (h *health) nodes() {
	for i := range h.c.Nodes {
		if n := &h.c.Nodes[i]; n.Bad != "" {
			h.add("node-bad", n.Name, n.Bad)
		}
	}
}

// cluster compares the classes: the most frequent one is taken as what nodes should be.
func (h *health) cluster() {
	common := 0
	for i := range h.hosts {
		if len(h.hosts[i]) > len(h.hosts[common]) {
			common = i
		}
	}
	var models []string
	seen := map[string]bool{}
	for i := range h.hosts {
		if len(h.hosts[i]) == 0 {
			continue
		}
		if i != common {
			h.add("nodes-unequal", h.where(i, ""), len(h.hosts[i]), len(h.hosts[common]), h.c.Classes[common].differences(&h.c.Classes[i]))
		}
		for g := range h.c.Classes[i].GPUs {
			if m := h.c.Classes[i].GPUs[g].Model; m != "" && !seen[m] {
				seen[m] = true
				models = append(models, m)
			}
		}
	}
	if len(models) > 1 {
		sort.Strings(models)
		h.add("gpus-mixed", "cluster", len(models), strings.Join(models, ", "))
	}
}

// differences says in a few words in what b is not like k.
func (k *NodeClass) differences(b *NodeClass) string {
	var d []string
	say := func(what string, x, y any) {
		if fmt.Sprint(x) != fmt.Sprint(y) {
			d = append(d, fmt.Sprintf("%s %v, not %v", what, y, x))
		}
	}
	say("GPUs", len(k.GPUs), len(b.GPUs))
	say("model", k.GPUs[0].Model, b.GPUs[0].Model)
	say("wiring", k.Wiring, b.Wiring)
	say("NICs", len(k.NICs), len(b.NICs))
	if len(d) == 0 && len(k.GPUs) == len(b.GPUs) {
		for g := range k.GPUs {
			say(fmt.Sprintf("GPU %d PCIe width", g), k.GPUs[g].PCIe.Width, b.GPUs[g].PCIe.Width)
		}
		for n := range k.NICs {
			say(fmt.Sprintf("NIC %d rate", n), k.NICs[n].Rate, b.NICs[n].Rate)
			say(fmt.Sprintf("NIC %d state", n), k.NICs[n].State, b.NICs[n].State)
		}
		say("NVLinks", k.linkTotal(), b.linkTotal())
	}
	if len(d) == 0 {
		return "details of distances or states"
	}
	return strings.Join(d[:min(3, len(d))], "; ")
}

func (k *NodeClass) linkTotal() int {
	n := 0
	for _, l := range k.NVLinks {
		n += l.Count
	}
	return n
}
