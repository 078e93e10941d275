package validate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// smiXML is written by hand in the form of nvidia-smi -q -x: one healthy GPU, one with everything wrong.
const smiXML = `<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <driver_version>580.1</driver_version>
  <cuda_version>13.0</cuda_version>
  <attached_gpus>2</attached_gpus>
  <gpu id="00000000:1A:00.0">
    <product_name>Test GPU</product_name>
    <uuid>GPU-aa</uuid>
    <mig_mode><current_mig>Disabled</current_mig><pending_mig>Disabled</pending_mig></mig_mode>
    <compute_mode>Default</compute_mode>
    <fabric><state>Completed</state><status>Success</status><cliqueId>0</cliqueId></fabric>
    <fb_memory_usage><total>1000 MiB</total><used>3 MiB</used><free>997 MiB</free></fb_memory_usage>
    <pci><pci_gpu_link_info><link_widths><max_link_width>16x</max_link_width><current_link_width>16x</current_link_width></link_widths></pci_gpu_link_info></pci>
    <clocks_event_reasons><clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle><clocks_event_reason_hw_slowdown>Not Active</clocks_event_reason_hw_slowdown></clocks_event_reasons>
    <processes><process_info><pid>9</pid><type>G</type><used_memory>4 MiB</used_memory></process_info></processes>
  </gpu>
  <gpu id="00000000:1B:00.0">
    <product_name>Test GPU</product_name>
    <uuid>GPU-bb</uuid>
    <mig_mode><current_mig>Enabled</current_mig></mig_mode>
    <compute_mode>Prohibited</compute_mode>
    <fabric><state>In Progress</state><status>N/A</status></fabric>
    <fb_memory_usage><used>900 MiB</used><free>100 MiB</free></fb_memory_usage>
    <ecc_errors><volatile><sram_uncorrectable_parity>2</sram_uncorrectable_parity><dram_uncorrectable>1</dram_uncorrectable></volatile></ecc_errors>
    <remapped_rows><remapped_row_pending>Yes</remapped_row_pending><remapped_row_failure>No</remapped_row_failure></remapped_rows>
    <pci><pci_gpu_link_info><link_widths><max_link_width>16x</max_link_width><current_link_width>8x</current_link_width></link_widths></pci_gpu_link_info></pci>
    <clocks_throttle_reasons><clocks_throttle_reason_hw_thermal_slowdown>Active</clocks_throttle_reason_hw_thermal_slowdown></clocks_throttle_reasons>
    <processes><process_info><pid>77</pid><type>C</type><used_memory>890 MiB</used_memory></process_info></processes>
  </gpu>
</nvidia_smi_log>`

func TestParseSMI(t *testing.T) {
	n, err := parseSMI(strings.NewReader(smiXML))
	if err != nil {
		t.Fatal(err)
	}
	want := &NodeFacts{Driver: "580.1", CUDA: "13.0", GPUs: []GPUFacts{
		{UUID: "GPU-aa", PCI: "00000000:1a:00.0", Name: "Test GPU", MIG: "Disabled", ComputeMode: "Default", FabricState: "Completed",
			FabricStatus: "Success", UsedMiB: 3, FreeMiB: 997, LinkWidth: 16, LinkWidthMax: 16},
		{UUID: "GPU-bb", PCI: "00000000:1b:00.0", Name: "Test GPU", MIG: "Enabled", ComputeMode: "Prohibited", FabricState: "In Progress",
			FabricStatus: "N/A", UsedMiB: 900, FreeMiB: 100, Processes: []GPUProcess{{77, 890}}, ECCUncorrected: 3, RemapPending: "Yes",
			RemapFailure: "No", Slowdown: []string{"hw thermal slowdown"}, LinkWidth: 8, LinkWidthMax: 16},
	}}
	if !reflect.DeepEqual(n, want) {
		t.Errorf("got %+v\nwant %+v", n, want)
	}
	for name, bad := range map[string]string{
		"cut off": smiXML[:900], "not XML": "No devices were found", "deep": strings.Repeat("<a>", 100) + strings.Repeat("</a>", 100),
	} {
		if _, err := parseSMI(strings.NewReader(bad)); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestSMIRuns(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
		return p
	}
	good := script("good", "test \"$1 $2\" = '-q -x' || exit 9\ncat <<'END'\n"+smiXML+"\nEND\n")
	n, err := SMI{Paths: []string{filepath.Join(dir, "none"), good}}.Inspect(context.Background())
	if err != nil || len(n.GPUs) != 2 {
		t.Errorf("%+v, %v", n, err)
	}
	bad := script("bad", "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18\n")
	if _, err := (SMI{Paths: []string{bad}}).Inspect(context.Background()); err == nil || !strings.Contains(err.Error(), "version mismatch") {
		t.Errorf("error %v", err)
	}
	if _, err := (SMI{Paths: []string{dir}}).Inspect(context.Background()); !errors.Is(err, ErrNoInspector) {
		t.Errorf("error %v", err)
	}
}

func FuzzParseSMI(f *testing.F) {
	f.Add([]byte(smiXML))
	f.Add([]byte("<nvidia_smi_log><gpu id=\"x\"></gpu></nvidia_smi_log>"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := parseSMI(strings.NewReader(string(b)))
		if err == nil {
			for i := range n.GPUs {
				n.GPUs[i].judge(i, nil, false, false)
			}
		}
	})
}
