package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"

	"rankmap/collective"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/internal/parallel"
)

// hosts are the machines that GPUs sit in, as far as the floor of an eager launch is concerned. The floors are the smallest
// eager times of nccl-tests that machines of the kind were seen to reach; sources name them.
var hosts = []hardware.HostProfile{
	{Name: "x86", Systems: []string{"h100_sxm", "h200_sxm", "h800_sxm", "h20", "b200_sxm", "b300_sxm", "l40s", "rtx_pro_6000"}, FloorUs: 18,
		Source: "smallest eager nccl-tests times of published H100 machines (13 to 27 us) and of an own 2 x H200 virtual machine (18 to 20 us)"},
	{Name: "x86-ampere", Systems: []string{"a100_sxm", "v100_sxm2"}, FloorUs: 8,
		Source: "smallest eager nccl-tests time of a published A100 machine (7.1 us, 2 ranks); eager framework kernels start at 48 us on another"},
	{Name: "grace", Systems: []string{"gh200", "gb200", "gb300", "vr200"}, FloorUs: 8,
		Source: "smallest eager nccl-tests time of published GH200 machines (7.7 us, 4 ranks); eager framework kernels start at 48 us on a GB200 host"},
}

// eagerResiduals compares eager single-domain tables of other people's machines with max(floor, prediction).
func eagerResiduals(rows []measured.Row, d *dataset) map[string][]residual {
	out := map[string][]residual{}
	for i := range rows {
		p, ok := point(&rows[i])
		if !ok || p.Nodes > 1 || rows[i].DomainGPUs > 0 {
			continue
		}
		prof := d.profiles.Collective(p.System)
		if prof == nil {
			continue
		}
		gpu, err := d.catalog.GPU(p.System)
		if err != nil {
			continue
		}
		base, relation, err := collective.BaseFor(d.profiles, gpu)
		if err != nil || relation > collective.Sibling {
			continue
		}
		for k := range hosts {
			for _, s := range hosts[k].Systems {
				if s == p.System {
					t := math.Max(hosts[k].FloorUs, collective.NewPredictor(base).Predict(&p).Micros())
					r := residual{p.System, "", p.Op, collective.SizeClass(p.Bytes), p.Ranks, math.Log(p.Time.Micros() / t)}
					out[hosts[k].Name] = append(out[hosts[k].Name], r)
				}
			}
		}
	}
	return out
}

// writeHosts writes the host profiles with the intervals of eager launches: of the host itself, with those of the other
// hosts where it has few, for what is seen of each is two or three machines.
func writeHosts(rows []measured.Row, d *dataset, out string) error {
	all, byOp := &fold{}, &fold{}
	counts := map[residual]int{}
	for name, res := range eagerResiduals(rows, d) {
		for _, r := range res {
			r.system, r.profile = name, name
			byOp.res = append(byOp.res, r)
			counts[residual{system: name, op: r.op, size: r.size}]++
			if r.op <= parallel.AllToAll {
				r.op = parallel.AllReduce // all operations together
				all.res = append(all.res, r)
			}
		}
	}
	for _, h := range hosts {
		for _, size := range sizes {
			if b, ok := band([]bandSource{{all, 1}}, h.Name, parallel.AllReduce, size); ok {
				b.Provenance, b.Size = "eager", size
				h.Bands = append(h.Bands, b)
			}
			for _, op := range parallel.Ops() {
				if counts[residual{system: h.Name, op: op, size: size}] < 30 {
					continue
				}
				if b, ok := band([]bandSource{{byOp, 1}}, h.Name, op, size); ok {
					b.Provenance, b.Op, b.Size = "eager", op.String(), size
					h.Bands = append(h.Bands, b)
				}
			}
		}
		var b bytes.Buffer
		if err := hardware.WriteProfile(&b, &h, "Floor of an eager launch: no collective that the host launches one by one is faster. Regenerate with make profiles."); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, "host-"+h.Name+".yaml"), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
