package accuracy

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"rankmap/collective"
	"rankmap/collective/nccltune"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
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
}

// place is one machine, ready to price.
type place struct {
	err      error
	members  []topology.GPUID
	model    *collective.Model
	textbook *collective.TextbookModel
	shape    topology.Shape
	sheet    *hardware.GPU
	tuners   map[int]*nccltune.Tuner // by NCCL's minor version; nil = NCCL's tuner has no answer
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
	return NewWith(cat, profiles, opts), nil
}

// NewWith takes datasheets and profiles that were read before, such as a user's own calibration.
func NewWith(cat *hardware.Catalog, profiles *hardware.Profiles, opts Options) *Confronter {
	return &Confronter{catalog: cat, profiles: profiles, opts: opts, places: map[machine]*place{}}
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
			row := c.complete(files[i].Rows[j])
			out, err := c.price(&row)
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

// complete adds what the options know to a row.
func (c *Confronter) complete(r measured.Row) measured.Row {
	if r.Hardware == "" {
		if sheet := c.catalog.ByName(r.GPU); sheet != nil && r.GPU != "" {
			r.Hardware = sheet.System
			if r.System == "" {
				r.System = sheet.System
			}
		}
	}
	if r.System == "" && r.GPU == "" && c.opts.System != "" {
		r.System = c.opts.System
		r.Hardware = strings.TrimSuffix(c.opts.System, "_server")
	}
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

// Reasons of this package for leaving a row out.
var (
	errOtherSystem = errors.New("another system than --system")
	errOneRank     = errors.New("one rank")
	errExchange    = errors.New("no model yet: expert-parallel dispatch and combine")
	errContention  = errors.New("no model yet: contention")
	errKernel      = errors.New("no model yet: custom all-reduce kernels")
)

// price predicts one row; the error is the reason to skip it.
func (c *Confronter) price(r *measured.Row) (Case, error) {
	if c.opts.System != "" && r.System != c.opts.System {
		return Case{}, errOtherSystem
	}
	switch {
	case r.Kind == measured.Exchange:
		return Case{}, errExchange
	case r.Kind == measured.Contention:
		return Case{}, errContention
	case r.Library != "nccl":
		return Case{}, errKernel
	case r.Ranks < 2:
		return Case{}, errOneRank
	}
	m, err := machineOf(r)
	if err != nil {
		return Case{}, err
	}
	p := c.place(m)
	if p.err != nil {
		return Case{}, p.err
	}
	req := collective.Request{Op: r.Op, Bytes: r.Bytes, DType: r.DType, Launch: collective.Graph, Members: p.members, Library: r.Version}
	if r.Launch == measured.LaunchEager {
		req.Launch = collective.Eager
	}
	ours, err := p.model.Price(req)
	if err != nil {
		return Case{}, err
	}
	out := Case{
		System: r.System, Collective: r.Op.String(), Size: SizeOf(r.Bytes), Nodes: r.Nodes, Ranks: r.Ranks, Source: r.Origin,
		Measured: r.Time, Ours: ours.Time, P10: ours.P10, P90: ours.P90, Row: r,
	}
	if book, err := p.textbook.Price(req); err == nil {
		out.Textbook = book.Time
	}
	if t := p.tuner(minorOf(r.Version)); t != nil {
		if choice, ok := t.Choose(r.Op, r.Bytes); ok {
			out.NCCL = choice.Time
		}
	}
	return out, nil
}

// place returns the machine, building it on first use.
func (c *Confronter) place(m machine) *place {
	if p := c.places[m]; p != nil {
		return p
	}
	p := &place{members: m.members(), tuners: map[int]*nccltune.Tuner{}}
	c.places[m] = p
	cluster, err := m.cluster(c.catalog)
	if err != nil {
		p.err = fmt.Errorf("machine cannot be described: %w", err)
		return p
	}
	p.model = collective.New(cluster, c.profiles, collective.Options{NoMulticast: c.opts.NoMulticast})
	p.textbook = collective.NewTextbook(cluster)
	p.textbook.RingOnly = true
	p.sheet, _ = c.catalog.GPU(m.gpu)
	p.shape, p.err = cluster.NewShaper().Shape(p.members)
	return p
}

// tuner returns NCCL's tuner for this group and version; nil where NCCL's model does not cover it.
func (p *place) tuner(minor int) *nccltune.Tuner {
	t, ok := p.tuners[minor]
	if !ok {
		if g, err := nccltune.GroupOf(p.shape, p.sheet, minor); err == nil {
			t, _ = nccltune.New(g)
		}
		p.tuners[minor] = t
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
