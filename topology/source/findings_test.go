package source

import (
	"strings"
	"testing"

	"rankmap/topology/nvml"
	"rankmap/topology/sysfs"
)

func TestFindingsOfALiveMachine(t *testing.T) {
	m := newMachine(t, "broken-adapter", "NVIDIA A100-SXM4-80GB", 12)
	m.answer("fabric 0", nvml.Fabric{ClusterUUID: "7a7a7a7a-0000-4000-8000-0123456789ab", State: nvml.FabricCompleted, HealthMask: 1 << 4})
	extra := "link bus/pci/devices/0000:23:00.0/iommu_group\n\t../../../../kernel/iommu_groups/9\nfile kernel/iommu_groups/9/type\n\tDMA-FQ\n" +
		"hex bus/pci/devices/0000:22:00.0/config\n\t" + strings.Repeat("00", 0x100) + "0d0001001f001d00" + strings.Repeat("00", 64) + "\n"
	tree, err := sysfs.ParseArchive(append(m.tree.Text(), extra...), "extra")
	if err != nil {
		t.Fatal(err)
	}
	m.tree = tree
	r := m.load(t)
	for id, want := range map[string]string{
		"fabric-unhealthy": "GPU 0: route unhealthy",
		"nic-unreadable":   "mlx5_0: cannot read state (input/output error)",
		"iommu-translates": "type DMA-FQ",
		"acs-on":           "0000:22:00.0",
	} {
		if got := strings.Join(found(r, id), "\n"); !strings.Contains(got, want) || !strings.HasPrefix(got, m.host+": ") {
			t.Errorf("%s: got %q, want one with %q", id, got, want)
		}
	}
}

func TestEveryFindingHasANextStep(t *testing.T) {
	for _, k := range FindingKinds() {
		if k.Next == "" || k.Format == "" || k.ID == "" {
			t.Errorf("finding %+v", k)
		}
	}
}
