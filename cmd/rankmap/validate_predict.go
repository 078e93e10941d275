package main

import (
	"strings"

	"rankmap/collective"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/internal/units"
	"rankmap/layout"
	"rankmap/topology"
	"rankmap/validate"
)

// prices is what prices a layout's collectives again: sizes of the sweep, eager launches, groups with other siblings.
type prices struct {
	model  *collective.Model
	seat   map[int]topology.GPUID // by rank
	system string                 // datasheet's key of the GPUs
}

// newPrices rebuilds the machine that is inside the layout. NCCL_NVLS_ENABLE=0 in the environment means that in-switch
// reduction is off.
func newPrices(d *deps, l *layout.Layout, o *validateOptions) (*prices, error) {
	cat, profiles, users, err := loadProfiles(d, o.measured.profiles)
	if err != nil {
		return nil, err
	}
	cluster, err := l.Cluster.Cluster(o.layout, cat)
	if err != nil {
		return nil, inputErr(err)
	}
	if len(users.kernels()) > 0 {
		return nil, inputErrf("--profile: validate runs collectives alone, a profile of computations has no use here")
	}
	opts := collective.Options{Assume: true, NoMulticast: o.measured.noMulticast || d.Getenv("NCCL_NVLS_ENABLE") == "0"}
	p := &prices{model: collective.New(cluster, profiles, opts), seat: map[int]topology.GPUID{}, system: systemIn(cluster, cat)}
	if p.system != "" {
		if err := users.serves(profiles, []string{p.system}); err != nil {
			return nil, err
		}
	}
	for _, r := range l.Ranks {
		for _, n := range cluster.Nodes {
			if n.Name != r.Host {
				continue
			}
			for i, g := range cluster.Classes[n.Class].GPUs {
				if g.Index == r.GPU {
					p.seat[r.Rank] = n.First + topology.GPUID(i)
				}
			}
		}
	}
	return p, nil
}

// systemIn names the GPU system when the machine has one kind.
func systemIn(c *topology.Cluster, cat *hardware.Catalog) string {
	system := ""
	for _, k := range c.Classes {
		for _, g := range k.GPUs {
			sheet, err := cat.GPU(g.Model)
			if err != nil || system != "" && sheet.System != system {
				return ""
			}
			system = sheet.System
		}
	}
	return system
}

// predict answers validate's questions; false when a rank's seat is not in the machine or the group cannot be priced.
func (p *prices) predict(q validate.Question) (validate.Prediction, bool) {
	members, ok := p.seats(q.Members)
	if !ok {
		return validate.Prediction{}, false
	}
	r := collective.Request{Op: q.Op, Bytes: units.Bytes(q.Bytes), DType: q.DType, Members: members, Library: q.Library}
	if q.Eager {
		r.Launch = collective.Eager
	}
	for _, s := range q.Siblings {
		seats, ok := p.seats(s)
		if !ok {
			return validate.Prediction{}, false
		}
		r.Siblings = append(r.Siblings, seats)
	}
	e, err := p.model.Price(r)
	if err != nil {
		return validate.Prediction{}, false
	}
	return validate.Prediction{
		Us: e.Time.Micros(), P10Us: e.P10.Micros(), P90Us: e.P90.Micros(), Algorithm: e.Algorithm, Protocol: e.Protocol, Basis: e.Provenance.String(),
	}, true
}

func (p *prices) seats(ranks []int) ([]topology.GPUID, bool) {
	out := make([]topology.GPUID, len(ranks))
	for i, r := range ranks {
		g, ok := p.seat[r]
		if !ok {
			return nil, false
		}
		out[i] = g
	}
	return out, true
}

// distorting are variables that make times no calibration of the machine.
var distorting = []string{"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_P2P_LEVEL", "NCCL_ALGO", "NCCL_PROTO", "NCCL_MAX_NCHANNELS", "NCCL_MIN_NCHANNELS"}

// calibrateFromReport writes a profile fitted to the report that was just written.
func calibrateFromReport(d *deps, o *validateOptions, rep *measured.Report) error {
	for _, kv := range rep.Environment.Env {
		name, _, _ := strings.Cut(kv, "=")
		for _, bad := range distorting {
			if name == bad {
				return inputErrf("--calibrate: %s is set: these times do not describe the machine", kv)
			}
		}
	}
	quiet := *d
	quiet.Stdout = d.Stderr // standard output holds the result of validate
	return runCalibrate(&quiet, &calibrateOptions{files: []string{o.report}, file: o.calibrate, profiles: o.measured.profiles})
}
