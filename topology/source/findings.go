package source

import (
	"fmt"
	"slices"

	"rankmap/topology"
)

// findingKinds is the table of what only the comparison of sources can find, beside that of package topology.
var findingKinds = []topology.FindingKind{
	{ID: "sources-differ", Severity: topology.SeverityWarning, Format: "%s", Next: "the sources describe different moments or one of them is wrong: look again at both"},
	{ID: "fabric-unhealthy", Severity: topology.SeverityError, Format: "the NVLink fabric reports: %s", Next: "see nvidia-smi -q, section Fabric; take the tray out of the partition until it is repaired"},
	{ID: "ports-down", Severity: topology.SeverityWarning, Format: "all %d ports are down: no usable network", Next: "check cables and the subnet manager; see ibstat"},
	{ID: "nic-unreadable", Severity: topology.SeverityWarning, Format: "%s", Next: "see dmesg for the adapter's driver; its other ports and adapters are not affected"},
	{ID: "iommu-translates", Severity: topology.SeverityNote, Format: "%s", Next: "peer-to-peer traffic may detour over the host bridge: see whether ACS can be off on the switches"},
	{ID: "acs-on", Severity: topology.SeverityWarning, Format: "ACS redirects peer-to-peer traffic at the PCIe bridges %s", Next: "turn ACS off on these bridges unless virtual machines need it"},
}

// FindingKinds lists the kinds of finding that comparing sources can give.
func FindingKinds() []topology.FindingKind { return slices.Clone(findingKinds) }

func finding(id, where string, args ...any) topology.Finding {
	for _, k := range findingKinds {
		if k.ID == id {
			return topology.Finding{ID: id, Severity: k.Severity, Where: where, Message: fmt.Sprintf(k.Format, args...), Next: k.Next}
		}
	}
	panic("source: no finding " + id)
}

// View is the machine-readable form of the result, with all findings, the worst first.
func (r *Result) View() *topology.View {
	v := r.Partial
	if r.Cluster != nil {
		v = topology.NewView(r.Cluster)
		if r.cabled {
			v.Links = nil
		}
		v.Links = append(v.Links, r.links...)
	}
	v.Findings = append(v.Findings, r.Findings...)
	slices.SortStableFunc(v.Findings, func(a, b topology.Finding) int { return int(a.Severity) - int(b.Severity) })
	return v
}
