package main

import (
	"bytes"
	"os"
	"path/filepath"

	"rankmap/collective"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
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
	{"tcp", "GPUDirect-TCPX and TCPXO: four tables of two machines, an example rather than a profile", []string{"TCP"}},
}

// fitFabrics fits and writes the profiles of the networks.
func fitFabrics(rows []measured.Row, profiles *hardware.Profiles, out string) error {
	byFabric := map[string][]collective.Point{}
	for i := range rows {
		p, ok := point(&rows[i])
		if !ok || p.Nodes < 2 || oldEFA(&rows[i]) {
			continue
		}
		byFabric[p.Fabric] = append(byFabric[p.Fabric], p)
		if p.Fabric == "InfiniBand" || p.Fabric == "RoCE" || p.Fabric == "EFA" {
			byFabric["rdma"] = append(byFabric["rdma"], p)
		}
	}
	var centre hardware.FabricParams
	for _, k := range fabricKinds {
		t := hardware.FabricProfile{Name: k.name, Kinds: k.kinds, Note: k.note, Source: fabricSource}
		key := k.name
		if len(k.kinds) > 0 {
			key = k.kinds[0]
		}
		f := collective.FitFabric(t, byFabric[key], profiles, centre)
		if k.name == "rdma" {
			centre = f.Params
		}
		var b bytes.Buffer
		if err := hardware.WriteFabric(&b, f, "Fitted profile of a network between nodes. Units: us. Regenerate with make profiles."); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, "fabric-"+k.name+".yaml"), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// oldEFA recognises the first generation of EFA (p4d: 100 Gb/s adapters, one for two GPUs).
func oldEFA(r *measured.Row) bool {
	return r.Fabric == "EFA" && r.NICRate <= units.Gbps(100) && r.NICs < r.GPUsPerNode
}
