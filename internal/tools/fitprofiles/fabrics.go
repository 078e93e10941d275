package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"rankmap/collective"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// fabricKinds are the networks that get a profile, RDMA first: it is the prior of the others and the answer for a fabric
// that has none.
var fabricKinds = []struct {
	name, note string
	kinds      []string
}{
	{"rdma", "InfiniBand, RoCE and EFA together: used when the fabric is not known", nil},
	{"infiniband", "", []string{"InfiniBand"}},
	{"roce", "", []string{"RoCE"}},
	{"efa", "EFA of the p5 generation and later; p4d measured 100 us more latency", []string{"EFA"}},
	{"slingshot", "", []string{"Slingshot"}},
	{"tcp", "GPUDirect-TCPX and TCPXO: two tables of two machines, an example rather than a profile", []string{"TCP"}},
}

// sourced is a point with the site that published it.
type sourced struct {
	collective.Point
	site string
}

// networkPoints sorts the published points over several nodes by fabric, RDMA fabrics also under "rdma".
func networkPoints(rows []measured.Row) map[string][]sourced {
	out := map[string][]sourced{}
	for i := range rows {
		p, ok := point(&rows[i])
		if !ok || p.Nodes < 2 || oldEFA(&rows[i]) {
			continue
		}
		site, _, _ := strings.Cut(rows[i].Origin, ":") // the repository: its files come from the same people
		s := sourced{p, site}
		out[p.Fabric] = append(out[p.Fabric], s)
		if p.Fabric == "InfiniBand" || p.Fabric == "RoCE" || p.Fabric == "EFA" {
			out["rdma"] = append(out["rdma"], s)
		}
	}
	return out
}

// oldEFA recognises the first generation of EFA (p4d: 100 Gb/s adapters, one for two GPUs).
func oldEFA(r *measured.Row) bool {
	return r.Fabric == "EFA" && r.NICRate <= units.Gbps(100) && r.NICs < r.GPUsPerNode
}

func plain(s []sourced, keep func(*sourced) bool) []collective.Point {
	var out []collective.Point
	for i := range s {
		if keep == nil || keep(&s[i]) {
			out = append(out, s[i].Point)
		}
	}
	return out
}

// fabricFold leaves each site out in turn and predicts its tables from the others; a fabric seen at one site only is
// predicted from all RDMA sites.
func fabricFold(name string, kinds []string, points, all []sourced, profiles *hardware.Profiles) *fold {
	f := &fold{name: "network " + name + ", one site left out"}
	sites := map[string]bool{}
	for i := range points {
		sites[points[i].site] = true
	}
	for _, site := range sortedKeys(sites) {
		others := func(s *sourced) bool { return s.site != site }
		rdma := collective.FitFabric(hardware.FabricProfile{}, plain(all, others), profiles, hardware.FabricParams{})
		fit := collective.FitFabric(hardware.FabricProfile{Kinds: kinds}, plain(points, others), profiles, rdma.Params)
		for i := range points {
			if points[i].site != site {
				continue
			}
			pt := points[i].Point
			t, ok := collective.PredictNetwork(fit, profiles, &pt)
			if !ok {
				continue
			}
			f.res = append(f.res, residual{name, name, pt.Op, collective.SizeClass(pt.Bytes), pt.Ranks, math.Log(float64(pt.Time / t))})
		}
	}
	return f
}

// writeFabrics fits and writes the profiles of the networks.
func writeFabrics(rows []measured.Row, profiles *hardware.Profiles, out string) error {
	byFabric := networkPoints(rows)
	var centre hardware.FabricParams
	for _, k := range fabricKinds {
		t := hardware.FabricProfile{Name: k.name, Kinds: k.kinds, Note: k.note, Source: fabricSource}
		key := k.name
		if len(k.kinds) > 0 {
			key = k.kinds[0]
		}
		f := collective.FitFabric(t, plain(byFabric[key], nil), profiles, centre)
		if k.name == "rdma" {
			centre = f.Params
		}
		cross := fabricFold(k.name, k.kinds, byFabric[key], byFabric["rdma"], profiles)
		f.Bands = fabricBands(k.name, cross)
		var b bytes.Buffer
		if err := hardware.WriteProfile(&b, f, "Fitted profile of a network between nodes. Units: us. Regenerate with make profiles."); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, "fabric-"+k.name+".yaml"), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fabricBands are the intervals of one fabric: of each operation with 30 points or more, and of all together.
func fabricBands(name string, cross *fold) []hardware.Band {
	var out []hardware.Band
	for _, size := range sizes {
		all := &fold{}
		counts := map[parallel.Op]int{}
		for _, r := range cross.res {
			if r.size == size {
				counts[r.op]++
				r.op = parallel.AllReduce
				all.res = append(all.res, r)
			}
		}
		if b, ok := band([]bandSource{{all, 1}}, name, parallel.AllReduce, size); ok {
			b.Provenance, b.Size = "network", size
			out = append(out, b)
		}
		for _, op := range parallel.Ops() {
			if counts[op] < 30 {
				continue
			}
			if b, ok := band([]bandSource{{cross, 1}}, name, op, size); ok {
				b.Provenance, b.Op, b.Size = "network", op.String(), size
				out = append(out, b)
			}
		}
	}
	return out
}

// scoreFabrics prints the cross-validation of the networks.
func scoreFabrics(w io.Writer, rows []measured.Row, profiles *hardware.Profiles, detail bool) error {
	byFabric := networkPoints(rows)
	for _, k := range fabricKinds {
		key := k.name
		if len(k.kinds) > 0 {
			key = k.kinds[0]
		}
		f := fabricFold(k.name, k.kinds, byFabric[key], byFabric["rdma"], profiles)
		n, m, p := summary(f.res)
		if _, err := fmt.Fprintf(w, "%-42s %6d %6.1f%% %6.1f%%\n", f.name, n, m, p); err != nil {
			return err
		}
		if !detail {
			continue
		}
		by := map[string][]residual{}
		for _, r := range f.res {
			by[r.op.String()+" "+r.size] = append(by[r.op.String()+" "+r.size], r)
		}
		for _, k := range sortedKeys(by) {
			n, m, p := summary(by[k])
			fmt.Fprintf(w, "    %-38s %6d %6.1f%% %6.1f%%\n", k, n, m, p)
		}
	}
	return nil
}
