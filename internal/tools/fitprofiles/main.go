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
	score := flag.Bool("score", false, "print the cross-validation instead of writing")
	detail := flag.Bool("detail", false, "with -score: by system, operation and size")
	flag.Parse()
	if err := run(*data, *out, *score, *detail); err != nil {
		fmt.Fprintln(os.Stderr, "fitprofiles:", err)
		os.Exit(1)
	}
}

const (
	source       = "fitted by internal/tools/fitprofiles to NCCL tables converted from ai-dynamo/aiconfigurator at 095f58a (Apache-2.0, see NOTICE)"
	fabricSource = "fitted by internal/tools/fitprofiles to published nccl-tests tables of healthy runs (sources: docs/accuracy.md)"
)

// siblings are systems of one generation with the same links; their measurements speak for each other.
var siblings = map[string][]string{"h100_sxm": {"h200_sxm"}, "h200_sxm": {"h100_sxm"}, "b200_sxm": {"gb200"}, "gb200": {"b200_sxm"}}

func run(data, out string, score, detail bool) error {
	rows, err := readRows(measured.ReadCollectives, data, "public", "collectives.csv")
	if err != nil {
		return err
	}
	published, err := readRows(measured.ReadPublished, data, "public", "published_tables.csv")
	if err != nil {
		return err
	}
	exchanges, err := readRows(measured.ReadDeepEP, data, "public", "deepep.csv")
	if err != nil {
		return err
	}
	nvl, err := readRows(measured.ReadNVLinkAllToAll, data, "public", "nvl_alltoall.csv")
	if err != nil {
		return err
	}
	exchanges = append(exchanges, nvl...)
	symmetric, err := readSymmetric(data)
	if err != nil {
		return err
	}
	d := &dataset{points: map[string][]collective.Point{}}
	if d.catalog, err = hardware.Load(configs.FS); err != nil {
		return err
	}
	if d.profiles, err = hardware.LoadProfiles(configs.FS); err != nil {
		return err
	}
	for i := range rows {
		if p, ok := point(&rows[i]); ok {
			d.points[p.System] = append(d.points[p.System], p)
		}
	}
	for _, sys := range sortedKeys(d.points) {
		p, err := d.fit(sys, d.points[sys])
		if err != nil {
			return err
		}
		d.profiles = d.profiles.With(p)
	}
	fs, err := d.crossValidate()
	if err != nil {
		return err
	}
	if score {
		fs.print(os.Stdout, detail)
		return scoreFabrics(os.Stdout, published, d.profiles, detail)
	}
	for _, sys := range sortedKeys(d.points) {
		p := d.profiles.Collective(sys)
		p.Bands = fs.bands(sys)
		gpu, err := d.catalog.GPU(sys)
		if err != nil {
			return err
		}
		addKernels(p, gpu, rows, exchanges, symmetric)
		var b bytes.Buffer
		if err := hardware.WriteCollective(&b, p, "Fitted collective profile of "+sys+". Units: us, GB/s one way. Regenerate with make profiles."); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, sys+".collective.yaml"), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	if err := writeHosts(published, d, out); err != nil {
		return err
	}
	return writeFabrics(published, d.profiles, out)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
