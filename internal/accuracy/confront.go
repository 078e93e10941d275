package accuracy

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"rankmap/collective"
	"rankmap/collective/nccltune"
	"rankmap/compute"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/topology"
)

// Options say what the files do not.
type Options struct {
	// System is reported for rows that name no GPU, and where rows name one, only that system's count.
	System string
	// Launch replaces what a file says or implies; nil = as the file says. Old nccl-tests output does not show graphs.
	Launch *measured.Launch
	// NICs, NICRate and Fabric complete rows over several nodes that do not state them.
	NICs    int
	NICRate units.Bandwidth
	Fabric  string
	// NoMulticast says that in-switch reduction was off.
	NoMulticast bool
}

// Confronter prices measured rows. It keeps one cluster and one model for each machine that it meets.
type Confronter struct {
	catalog  *hardware.Catalog
	profiles *hardware.Profiles
	opts     Options
	places   map[machine]*place
	configs  fs.FS // where kernel parameters are; nil without
	own      []*hardware.Kernels
	kernels  map[kernelKey]*compute.Model
}

// place is one machine, ready to price.
type place struct {
	err      error
	members  []topology.GPUID
	model    *collective.Model
	textbook *collective.TextbookModel
	shape    topology.Shape
	sheet    *hardware.GPU
	noNVLS   bool
	tuners   map[tunerKey]*nccltune.Tuner // nil = NCCL's tuner has no answer
}

// tunerKey is what a group's tuner depends on besides the group: NCCL's minor version, and whether the switch may reduce
// (it reduces no one-byte types).
type tunerKey struct {
	minor   int
	oneByte bool
}

// New reads datasheets and profiles from configs.
func New(configs fs.FS, opts Options) (*Confronter, error) {
	cat, err := hardware.Load(configs)
	if err != nil {
		return nil, err
	}
	profiles, err := hardware.LoadProfiles(configs)
	if err != nil {
		return nil, err
	}
	c := NewWith(cat, profiles, opts)
	c.configs = configs
	return c, nil
}

// NewWith takes datasheets and profiles that were read before, such as a user's own calibration.
func NewWith(cat *hardware.Catalog, profiles *hardware.Profiles, opts Options) *Confronter {
	return &Confronter{catalog: cat, profiles: profiles, opts: opts, places: map[machine]*place{}, kernels: map[kernelKey]*compute.Model{}}
}

// WithKernels says where the parameters of computations are, for tables of such; own replace those of their systems.
func (c *Confronter) WithKernels(configs fs.FS, own ...*hardware.Kernels) *Confronter {
	c.configs, c.own = configs, own
	return c
}

// Rows prices rows and gathers what cannot be priced.
func (c *Confronter) Rows(files ...measured.File) Result {
	left := skips{}
	var res Result
	for i := range files {
		for _, s := range files[i].Skipped {
			left[s.Reason]++
		}
		for j := range files[i].Rows {
			row := c.Complete(files[i].Rows[j])
			out, err := c.price(&row)
			if err != nil {
				left[err.Error()]++
				continue
			}
			res.Cases = append(res.Cases, out)
		}
		for j := range files[i].Ops {
			out, err := c.op(&files[i].Ops[j])
			if err != nil {
				left[err.Error()]++
				continue
			}
			res.Cases = append(res.Cases, out)
		}
		for j := range files[i].Steps {
			out, err := c.step(&files[i].Steps[j])
			if err != nil {
				left[err.Error()]++
				continue
			}
			res.Cases = append(res.Cases, out)
		}
	}
	res.Skipped = left.list()
	return res
}

// Complete adds to a row what the options and the catalog know: system, datasheet, launch, NICs.
func (c *Confronter) Complete(r measured.Row) measured.Row {
	if r.System == "" {
		r.System = SystemOf(c.catalog, &r)
	}
	if r.System == "" && r.GPU == "" {
		r.System = c.opts.System
	}
	if r.Hardware == "" {
		if sheet, err := c.catalog.GPU(hardwareKey(r.System)); err == nil {
			r.Hardware = sheet.System
		}
	}
	r.NoMulticast = r.NoMulticast || c.opts.NoMulticast
	if c.opts.Launch != nil {
		r.Launch = *c.opts.Launch
	}
	if r.Nodes > 1 && r.Fabric == "" {
		r.Fabric = c.opts.Fabric
	}
	if r.Nodes > 1 && r.NICs == 0 {
		r.NICs = c.opts.NICs
	}
	if r.Nodes > 1 && r.NICRate == 0 {
		r.NICRate = c.opts.NICRate
	}
	return r
}

// SystemOf is the system that a row is reported under: what its table says, else the datasheet whose driver name the
// source printed, else the printed name. "" when the row names no GPU.
func SystemOf(cat *hardware.Catalog, r *measured.Row) string {
	switch {
	case r.System != "":
		return r.System
	case r.GPU == "":
		return ""
	}
	if sheet := cat.ByName(r.GPU); sheet != nil {
		return sheet.System
	}
	return r.GPU
}

// Reasons of this package for leaving a row out.
var (
	errOtherSystem = errors.New("another system than --system")
	errOneRank     = errors.New("one rank")
)

// other says that a row is of another system than the one asked for. Boards that the datasheets do not tell apart
// ("rtx_pro_6000_server") are one.
func (c *Confronter) other(r *measured.Row) bool {
	return c.opts.System != "" && hardwareKey(r.System) != hardwareKey(c.opts.System)
}

// hardwareKey is the datasheet's key of a table's system.
func hardwareKey(system string) string { return strings.TrimSuffix(system, "_server") }

// price predicts one row; the error is the reason to skip it.
func (c *Confronter) price(r *measured.Row) (Case, error) {
	if c.other(r) {
		return Case{}, errOtherSystem
	}
	if r.Ranks < 2 {
		return Case{}, errOneRank
	}
	out := Case{
		System: r.System, Collective: r.Op.String(), Size: SizeOf(r.Bytes), Nodes: r.Nodes, Ranks: r.Ranks, Source: r.Origin,
		Measured: r.Time, Row: r,
	}
	switch {
	case r.Kind == measured.Contention:
		return out, c.beside(&out)
	case r.Kind == measured.Exchange:
		return out, c.exchange(&out)
	}
	return out, c.collective(&out)
}

// launchOf translates.
func launchOf(r *measured.Row) collective.Launch {
	if r.Launch == measured.LaunchEager {
		return collective.Eager
	}
	return collective.Graph
}

// take copies an estimate.
func (c *Case) take(e collective.Estimate) { c.Ours, c.P10, c.P90 = e.Time, e.P10, e.P90 }

// collective fills the predictions of a collective. The textbook knows no kernels and stands beside a framework's own as
// well; NCCL's tuner says nothing about those.
func (c *Confronter) collective(out *Case) error {
	r := out.Row
	m, err := machineOf(r)
	if err != nil {
		return err
	}
	p := c.place(m)
	if p.err != nil {
		return p.err
	}
	req := collective.Request{Op: r.Op, Bytes: r.Bytes, DType: r.DType, Launch: launchOf(r), Members: p.members, Library: r.Version}
	if r.Op == parallel.SendRecv {
		req.Members = m.neighbours()
	}
	var ours collective.Estimate
	if r.Library == "nccl" {
		ours, err = p.model.Price(req)
	} else {
		ours, err = c.framework(out)
	}
	if err != nil {
		return err
	}
	out.take(ours)
	if book, err := p.textbook.Price(req); err == nil {
		out.Textbook = book.Time
	}
	if t := p.tuner(tunerKey{minorOf(r.Version), r.Op == parallel.AllReduce && collective.OneByte(r.DType)}); t != nil && r.Library == "nccl" {
		if choice, ok := t.Choose(r.Op, r.Bytes); ok {
			out.NCCL = choice.Time
		}
	}
	return nil
}

// place returns the machine, building it on first use.
func (c *Confronter) place(m machine) *place {
	if p := c.places[m]; p != nil {
		return p
	}
	p := &place{members: m.members(), noNVLS: m.noNVLS, tuners: map[tunerKey]*nccltune.Tuner{}}
	c.places[m] = p
	cluster, err := m.cluster(c.catalog)
	if err != nil {
		p.err = fmt.Errorf("machine cannot be described: %w", err)
		return p
	}
	p.model = collective.New(cluster, c.profiles, collective.Options{NoMulticast: m.noNVLS})
	p.textbook = collective.NewTextbook(cluster)
	p.textbook.RingOnly = true
	p.sheet, _ = c.catalog.GPU(m.gpu)
	p.shape, p.err = cluster.NewShaper().Shape(p.members)
	return p
}

// tuner returns NCCL's tuner for this group and version; nil where NCCL's model does not cover it.
func (p *place) tuner(k tunerKey) *nccltune.Tuner {
	t, ok := p.tuners[k]
	if !ok {
		if g, err := nccltune.GroupOf(p.shape, p.sheet, k.minor); err == nil {
			g.Multicast = g.Multicast && !p.noNVLS && !k.oneByte
			t, _ = nccltune.New(g)
		}
		p.tuners[k] = t
	}
	return t
}

// minorOf is the 28 of "2.28.9"; 0 when not stated.
func minorOf(version string) int {
	_, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	n, _ := strconv.Atoi(minor)
	return n
}
