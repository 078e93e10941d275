// Package hardware is the typed form of configs/hardware: what a GPU's datasheet says, and the fitted profiles that
// turn shapes and sizes into time. Every record names its source.
//
// One system has up to three files: SYSTEM.yaml (datasheet, this file), SYSTEM.collective.yaml and SYSTEM.kernels.yaml
// (fitted). Fabrics are in fabric-NAME.yaml.
package hardware

import (
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"strings"

	"gopkg.in/yaml.v3"

	"rankmap/internal/units"
)

// GPU is a datasheet. Rates are dense (no sparsity); links are one way.
type GPU struct {
	System       string             `yaml:"system"`       // key, such as "h200_sxm"
	Names        []string           `yaml:"names"`        // as drivers print them, "NVIDIA H200"
	Generation   string             `yaml:"generation"`   // "ampere", "hopper", "blackwell", ...
	SM           int                `yaml:"sm"`           // compute capability x 10: 90
	TFLOPS       map[string]float64 `yaml:"tflops"`       // dense peak by compute type: bf16, fp8, fp4, int8
	HBMGBps      float64            `yaml:"hbmGBps"`      // memory bandwidth, GB/s
	MemoryGB     float64            `yaml:"memoryGB"`     // capacity as marketed, 1e9 bytes
	MemoryMiB    float64            `yaml:"memoryMiB"`    // capacity as the driver reports it; 0 unknown
	SMs          int                `yaml:"sms"`          // streaming multiprocessors
	BoostGHz     float64            `yaml:"boostGHz"`     // boost clock
	ExpPerClock  float64            `yaml:"expPerClock"`  // exponentials a clock and SM; 0 = 16
	L2MB         float64            `yaml:"l2MB"`         // L2 cache
	NVLinks      int                `yaml:"nvlinks"`      // links a GPU, 0 = none
	NVLinkGBps   float64            `yaml:"nvlinkGBps"`   // one way for one link, datasheet
	NVLinkRaw    float64            `yaml:"nvlinkRaw"`    // one way for one link as nvlink -s prints, 0 unknown
	Multicast    bool               `yaml:"multicast"`    // NVSwitch reduces in the switch (NVLink SHARP)
	PCIeGen      int                `yaml:"pcieGen"`      // host interface
	PCIeWidth    int                `yaml:"pcieWidth"`    //
	PCIeGBps     float64            `yaml:"pcieGBps"`     // one way, as the link's raw rate
	HostGBps     float64            `yaml:"hostGBps"`     // one way between GPU and host memory where that is not PCIe (NVLink-C2C); 0 = PCIe
	SustainedClk float64            `yaml:"sustainedClk"` // default factor on tensor peak under lasting load; 0 = not known
	Estimate     string             `yaml:"estimate"`     // why the record is not a datasheet; empty when it is
	Source       string             `yaml:"source"`       // datasheet name and date
}

// Memory is the capacity: what the driver reports, which is more than the marketed number of 1e9 bytes (an 80 GB H100 has
// 81,559 MiB = 85.5e9 bytes), else the marketed one.
func (g *GPU) Memory() units.Bytes {
	if g.MemoryMiB > 0 {
		return units.Bytes(g.MemoryMiB * (1 << 20))
	}
	return units.Bytes(g.MemoryGB * 1e9)
}

// HBM is the memory bandwidth.
func (g *GPU) HBM() units.Bandwidth { return units.GBps(g.HBMGBps) }

// HostLink is what a GPU moves to or from its host's memory, one way: its own link, or PCIe less packet headers.
func (g *GPU) HostLink() units.Bandwidth {
	if g.HostGBps > 0 {
		return units.GBps(g.HostGBps)
	}
	return units.GBps(pcieShare * g.PCIeGBps)
}

// pcieShare is the payload of a PCIe packet: 256 bytes beside 24 of header and framing.
const pcieShare = 256.0 / 280

// NVLink is the one-way bandwidth of all the GPU's links together, datasheet.
func (g *GPU) NVLink() units.Bandwidth { return units.GBps(g.NVLinkGBps * float64(g.NVLinks)) }

// Catalog holds every known GPU.
type Catalog struct {
	gpus map[string]*GPU
}

// Load reads the datasheets below hardware/ of fsys. Unknown keys are errors.
func Load(fsys fs.FS) (*Catalog, error) {
	files, err := fs.Glob(fsys, "hardware/*.yaml")
	if err != nil {
		return nil, err
	}
	c := &Catalog{gpus: map[string]*GPU{}}
	var errs []error
	for _, f := range files {
		base := strings.TrimSuffix(f[len("hardware/"):], ".yaml")
		if strings.Contains(base, ".") || strings.HasPrefix(base, "fabric-") || strings.HasPrefix(base, "host-") {
			continue
		}
		g := new(GPU)
		if err := decode(fsys, f, g); err != nil {
			errs = append(errs, err)
			continue
		}
		if g.System != base {
			errs = append(errs, fmt.Errorf("%s: system is %q, want %q like the file", f, g.System, base))
		}
		c.gpus[g.System] = g
	}
	return c, errors.Join(errs...)
}

func decode(fsys fs.FS, name string, into any) error {
	r, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer r.Close()
	d := yaml.NewDecoder(r)
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// GPU returns a datasheet by key. The key may use "-" for "_" and leave out a form factor that is unique
// ("h200-sxm", "h200", "b200").
func (c *Catalog) GPU(name string) (*GPU, error) {
	k := strings.ReplaceAll(strings.ToLower(name), "-", "_")
	if g := c.gpus[k]; g != nil {
		return g, nil
	}
	var hit *GPU
	for _, s := range c.Systems() {
		if base, _, ok := strings.Cut(s, "_"); ok && base == k {
			if hit != nil {
				return nil, fmt.Errorf("gpu %q is ambiguous (known: %s)", name, strings.Join(c.Systems(), ", "))
			}
			hit = c.gpus[s]
		}
	}
	if hit == nil {
		return nil, fmt.Errorf("unknown gpu %q (known: %s)", name, strings.Join(c.Systems(), ", "))
	}
	return hit, nil
}

// ByName finds the datasheet whose driver name is the longest one contained in name ("NVIDIA H200"); nil if none.
func (c *Catalog) ByName(name string) *GPU {
	var best *GPU
	n := 0
	low := strings.ToLower(name)
	for _, s := range c.Systems() {
		for _, alias := range c.gpus[s].Names {
			if len(alias) > n && strings.Contains(low, strings.ToLower(alias)) {
				best, n = c.gpus[s], len(alias)
			}
		}
	}
	return best
}

// Systems lists the keys, sorted.
func (c *Catalog) Systems() []string {
	keys := make([]string, 0, len(c.gpus))
	for k := range c.gpus {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
