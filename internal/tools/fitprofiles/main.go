// Fitprofiles computes the collective profiles of configs/hardware from measured tables.
//
//	go run ./internal/tools/fitprofiles --data ../shared/measured      writes SYSTEM.collective.yaml and fabric-NAME.yaml
//
// Profiles of systems without measurements ("like: ...") and host floors are written by hand.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"

	"rankmap/collective"
	"rankmap/configs"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
)

func main() {
	data := flag.String("data", "../shared/measured", "folder of the measured tables")
	out := flag.String("out", "configs/hardware", "folder to write profiles to")
	flag.Parse()
	if err := run(*data, *out); err != nil {
		fmt.Fprintln(os.Stderr, "fitprofiles:", err)
		os.Exit(1)
	}
}

const (
	source       = "fitted by internal/tools/fitprofiles to NCCL tables converted from ai-dynamo/aiconfigurator at 095f58a (Apache-2.0, see NOTICE)"
	fabricSource = "fitted by internal/tools/fitprofiles to published nccl-tests tables of healthy runs (sources: docs/accuracy.md)"
)

func run(data, out string) error {
	rows, err := readRows(measured.ReadCollectives, data, "public", "collectives.csv")
	if err != nil {
		return err
	}
	published, err := readRows(measured.ReadPublished, data, "public", "published_tables.csv")
	if err != nil {
		return err
	}
	cat, err := hardware.Load(configs.FS)
	if err != nil {
		return err
	}
	profiles, err := hardware.LoadProfiles(configs.FS)
	if err != nil {
		return err
	}
	bySystem := map[string][]collective.Point{}
	for i := range rows {
		if p, ok := point(&rows[i]); ok {
			bySystem[p.System] = append(bySystem[p.System], p)
		}
	}
	for _, sys := range sortedKeys(bySystem) {
		gpu, err := cat.GPU(sys)
		if err != nil {
			return err
		}
		p := collective.FitDomain(target(gpu), bySystem[sys], collective.DefaultTolerance)
		profiles = profiles.With(p)
		var b bytes.Buffer
		if err := hardware.WriteCollective(&b, p, "Fitted collective profile of "+sys+". Units: us, GB/s one way. Regenerate with make profiles."); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, sys+".collective.yaml"), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return fitFabrics(published, profiles, out)
}

// target states what is known of a system before any measurement.
func target(gpu *hardware.GPU) hardware.CollectiveProfile {
	p := hardware.CollectiveProfile{System: gpu.System, Link: "nvlink", LinkGBps: gpu.NVLink().GBps(), Multicast: gpu.Multicast, NVLSFromRanks: 8, Source: source}
	if gpu.NVLinks == 0 {
		p.Link, p.LinkGBps = "pcie", pcieNominal(gpu)
	}
	return p
}

// pcieNominal is the rate that efficiencies refer to: 64 GB/s for 16 lanes of generation 5, half for each older one.
func pcieNominal(gpu *hardware.GPU) float64 {
	v := 64.0 * float64(gpu.PCIeWidth) / 16
	for g := gpu.PCIeGen; g < 5; g++ {
		v /= 2
	}
	return v
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
