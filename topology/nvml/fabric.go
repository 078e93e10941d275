package nvml

import (
	"fmt"
	"strings"

	"rankmap/topology"
)

var fabricWords = []string{"not supported", "not started", "in progress", "completed"}

// fabric reads the identity of the NVLink fabric and its health. A ClusterUUID of zeros is no identity. The status
// means something only once the state is completed.
func (w *walker) fabric(dev int, g *topology.GPU) {
	f, ok := ask(w, dev, "fabric information", w.api.Fabric)
	if !ok {
		return
	}
	if f.State >= 0 && f.State < len(fabricWords) {
		g.FabricState = fabricWords[f.State]
	} else {
		g.FabricState = fmt.Sprintf("state %d", f.State)
	}
	if f.State == FabricCompleted && f.Status != 0 {
		g.FabricState = "failed"
		w.res.Unhealthy = append(w.res.Unhealthy, fmt.Sprintf("GPU %d: registration ended with code %d", dev, f.Status))
	}
	at := fmt.Sprintf("GPU%d ", dev)
	w.fact(at+"fabric state", g.FabricState)
	if f.State != FabricCompleted {
		return
	}
	if strings.Trim(f.ClusterUUID, "0-") == "" {
		w.fact(at+"fabric identity", "none (ClusterUUID is all zero)")
	} else {
		g.Clique = fmt.Sprintf("%s.%d", f.ClusterUUID, f.CliqueID)
		w.fact(at+"fabric identity", g.Clique)
	}
	for _, s := range health(f) {
		w.res.Unhealthy = append(w.res.Unhealthy, fmt.Sprintf("GPU %d: %s", dev, s))
	}
}

// healthBits are the fields of the health mask (NVML_GPU_FABRIC_HEALTH_MASK_*): position and width mask, the value that
// means trouble.
var healthBits = []struct {
	shift uint
	mask  uint32
	bad   uint32
	text  string
}{
	{0, 3, 1, "degraded bandwidth"},
	{2, 3, 1, "route recovery in progress"},
	{4, 3, 1, "route unhealthy"},
	{6, 3, 1, "access timeout recovery in progress"},
	{12, 3, 2, "no partition assigned"},
}

// configTrouble names the values of the field at bit 8 (NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_*).
var configTrouble = []string{"", "", "incorrect system GUID", "incorrect chassis serial number", "no partition", "insufficient NVLinks",
	"incompatible GPU firmware", "invalid location", "invalid GPU state"}

// health names what is wrong by the mask, or by the summary where the mask says nothing.
func health(f Fabric) []string {
	var out []string
	for _, b := range healthBits {
		if f.HealthMask>>b.shift&b.mask == b.bad {
			out = append(out, b.text)
		}
	}
	if v := int(f.HealthMask >> 8 & 15); v < len(configTrouble) && configTrouble[v] != "" {
		out = append(out, configTrouble[v])
	}
	if len(out) == 0 && f.Summary == 2 {
		out = append(out, "unhealthy")
	}
	if len(out) == 0 && f.Summary == 3 {
		out = append(out, "limited capacity")
	}
	return out
}

// cliques tells when GPUs of one tray belong to different cliques: they share switches and cannot reach each other.
func (w *walker) cliques() {
	seen := map[string]bool{}
	for i := range w.res.Node.GPUs {
		if c := w.res.Node.GPUs[i].Clique; c != "" {
			seen[c] = true
		}
	}
	if len(seen) > 1 {
		w.res.Warnings = append(w.res.Warnings, fmt.Sprintf("nvml: the GPUs of this host belong to %d NVLink cliques: links between cliques carry nothing", len(seen)))
	}
}
