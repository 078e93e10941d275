package validate

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// NodeFacts is what the driver says about a node's GPUs without a CUDA call.
type NodeFacts struct {
	Driver, CUDA string
	GPUs         []GPUFacts
}

// GPUFacts is one GPU. Empty text means that the driver does not say.
type GPUFacts struct {
	UUID, PCI, Name string
	MIG             string // "Enabled", "Disabled"
	ComputeMode     string // "Default", "Exclusive_Process", "Prohibited"
	FabricState     string // "Completed", "In Progress", "Not Supported"
	FabricStatus    string // "Success" or an error
	UsedMiB         int64
	FreeMiB         int64
	Processes       []GPUProcess
	ECCUncorrected  int64 // volatile
	RemapPending    string
	RemapFailure    string
	Slowdown        []string // active reasons beside idle and the user's own limits
	LinkWidth       int
	LinkWidthMax    int
}

// GPUProcess is somebody who computes on a GPU.
type GPUProcess struct {
	PID     int
	UsedMiB int64
}

// Inspector asks the driver about this node. It must not create a CUDA context.
type Inspector interface {
	Inspect(ctx context.Context) (*NodeFacts, error)
}

// ErrNoInspector means that there is nothing to ask with; the checks are then skipped.
var ErrNoInspector = errors.New("nvidia-smi is not at any of its usual places")

// SMI asks nvidia-smi, by absolute path.
type SMI struct {
	Paths []string // nil means smiPaths
}

// smiPaths are where drivers, containers and distributions put it.
var smiPaths = []string{"/usr/bin/nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi", "/usr/local/bin/nvidia-smi", "/run/nvidia/driver/usr/bin/nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi"}

const maxSMI = 16 << 20

// Inspect runs "nvidia-smi -q -x".
func (s SMI) Inspect(ctx context.Context) (*NodeFacts, error) {
	paths := s.Paths
	if paths == nil {
		paths = smiPaths
	}
	for _, p := range paths {
		if st, err := os.Stat(p); err != nil || st.IsDir() || st.Mode()&0o111 == 0 {
			continue
		}
		cmd := exec.CommandContext(ctx, p, "-q", "-x")
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		cmd.WaitDelay = time.Second
		var out, said capped
		out.max, said.max = maxSMI, 4<<10
		cmd.Stdout, cmd.Stderr = &out, &said
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("%s -q -x: %w: %s", p, err, strings.TrimSpace(clip(out.String()+said.String(), 500)))
		}
		return parseSMI(&out)
	}
	return nil, ErrNoInspector
}

// capped keeps the first max bytes.
type capped struct {
	bytes.Buffer
	max int
}

func (c *capped) Write(p []byte) (int, error) {
	c.Buffer.Write(p[:min(len(p), c.max-c.Len())])
	return len(p), nil
}

// smiLog mirrors the elements that are used of nvidia-smi's XML (nvsmi_device v12 and before; unknown ones are ignored).
type smiLog struct {
	Driver string `xml:"driver_version"`
	CUDA   string `xml:"cuda_version"`
	GPUs   []struct {
		ID   string `xml:"id,attr"`
		Name string `xml:"product_name"`
		UUID string `xml:"uuid"`
		MIG  string `xml:"mig_mode>current_mig"`
		Mode string `xml:"compute_mode"`
		Fab  struct {
			State  string `xml:"state"`
			Status string `xml:"status"`
		} `xml:"fabric"`
		Used  string `xml:"fb_memory_usage>used"`
		Free  string `xml:"fb_memory_usage>free"`
		Procs []struct {
			PID  string `xml:"pid"`
			Type string `xml:"type"`
			Used string `xml:"used_memory"`
		} `xml:"processes>process_info"`
		SRAM    string `xml:"ecc_errors>volatile>sram_uncorrectable"`
		SRAM2   string `xml:"ecc_errors>volatile>sram_uncorrectable_parity"`
		DRAM    string `xml:"ecc_errors>volatile>dram_uncorrectable"`
		Remap   smiRow `xml:"remapped_rows"`
		Reasons anyXML `xml:"clocks_event_reasons"`
		OldName anyXML `xml:"clocks_throttle_reasons"`
		Width   struct {
			Max string `xml:"max_link_width"`
			Now string `xml:"current_link_width"`
		} `xml:"pci>pci_gpu_link_info>link_widths"`
	} `xml:"gpu"`
}

type smiRow struct {
	Pending string `xml:"remapped_row_pending"`
	Failure string `xml:"remapped_row_failure"`
}

// anyXML keeps the direct children as name and text.
type anyXML struct {
	Items []struct {
		XMLName xml.Name
		Text    string `xml:",chardata"`
	} `xml:",any"`
}

// slowdownReasons are the reasons that a healthy node does not show, by the end of their element name.
var slowdownReasons = []string{"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown"}

// maxSMIDepth bounds nesting: encoding/xml does not limit the depth of elements that it skips.
const maxSMIDepth = 32

func parseSMI(r io.Reader) (*NodeFacts, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSMI))
	if err != nil {
		return nil, err
	}
	if err := checkDepth(data); err != nil {
		return nil, fmt.Errorf("nvidia-smi -q -x: %w", err)
	}
	var l smiLog
	if err := xml.Unmarshal(data, &l); err != nil {
		return nil, fmt.Errorf("nvidia-smi -q -x: %w", err)
	}
	n := &NodeFacts{Driver: l.Driver, CUDA: l.CUDA}
	for _, g := range l.GPUs {
		f := GPUFacts{
			UUID: g.UUID, PCI: strings.ToLower(g.ID), Name: g.Name, MIG: g.MIG, ComputeMode: g.Mode,
			FabricState: g.Fab.State, FabricStatus: g.Fab.Status, UsedMiB: count(g.Used), FreeMiB: count(g.Free),
			ECCUncorrected: count(g.SRAM) + count(g.SRAM2) + count(g.DRAM), RemapPending: g.Remap.Pending, RemapFailure: g.Remap.Failure,
			LinkWidth: int(count(g.Width.Now)), LinkWidthMax: int(count(g.Width.Max)),
		}
		for _, p := range g.Procs {
			if strings.Contains(p.Type, "C") { // C computes, G draws
				f.Processes = append(f.Processes, GPUProcess{int(count(p.PID)), count(p.Used)})
			}
		}
		for _, it := range append(g.Reasons.Items, g.OldName.Items...) {
			for _, s := range slowdownReasons {
				if strings.HasSuffix(it.XMLName.Local, "reason_"+s) && strings.TrimSpace(it.Text) == "Active" {
					f.Slowdown = append(f.Slowdown, strings.ReplaceAll(s, "_", " "))
				}
			}
		}
		n.GPUs = append(n.GPUs, f)
	}
	return n, nil
}

func checkDepth(data []byte) error {
	d := xml.NewDecoder(bytes.NewReader(data))
	depth := 0
	for {
		t, err := d.RawToken()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch t.(type) {
		case xml.StartElement:
			if depth++; depth > maxSMIDepth {
				return fmt.Errorf("elements nested more than %d deep", maxSMIDepth)
			}
		case xml.EndElement:
			depth--
		}
	}
}

// count reads the number at the beginning of "143771 MiB", "16x", "0"; anything else ("N/A") is 0.
func count(s string) int64 {
	s = strings.TrimSpace(s)
	end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(s)
	}
	v, err := strconv.ParseInt(s[:end], 10, 64)
	if err != nil {
		return 0
	}
	return v
}
