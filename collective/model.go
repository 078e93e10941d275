package collective

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
	"rankmap/topology"
)

// Options change what a Model does where facts are missing.
type Options struct {
	// Assume prices unknown GPUs and links with a wide interval and a flag instead of refusing them.
	Assume bool
	// NoMulticast says that in-switch reduction is off (NCCL_NVLS_ENABLE=0, or a virtual machine without it).
	NoMulticast bool
	// SHARP says that the switches between nodes reduce, where the cluster does not say so itself.
	SHARP bool
	// Kernels names the framework ("vllm", "sglang", "trtllm"; "symm" for PyTorch's symmetric memory) whose own all_reduce runs
	// inside a node where it takes the size and the group; "" and "nccl" leave everything to NCCL. KernelVersion is the
	// framework's, "" the newest measured.
	Kernels, KernelVersion string
	// Fused says that these kernels also do the norm that follows: their price is less by what that saves of the norm's own, which
	// stays the caller's to add. The zero value: apart.
	Fused Norm
}

// Model prices collectives from fitted profiles. It may be used by several goroutines at once. What depends on the group
// alone is worked out once for each shape and kept, so that a price allocates nothing in steady state.
type Model struct {
	cluster  *topology.Cluster
	profiles *hardware.Profiles
	opts     Options
	sheets   map[string]*hardware.GPU // of the cluster's GPUs, by model
	shapers  sync.Pool
	mu       sync.RWMutex
	routes   map[routeKey]*route
	groups   groupCache
}

// maxRoutes bounds the memory of the shapes kept; beyond it the model forgets all and starts again.
const maxRoutes = 1 << 16

type routeKey struct {
	shape   topology.Shape
	library string
	oneByte bool
}

var _ Pricer = (*Model)(nil)

// New makes a Model of a finished cluster. A nil cluster prices shapes only (PriceShape).
func New(cluster *topology.Cluster, profiles *hardware.Profiles, opts Options) *Model {
	m := &Model{cluster: cluster, profiles: profiles, opts: opts, routes: map[routeKey]*route{}}
	if cluster != nil {
		m.shapers.New = func() any { return cluster.NewShaper() }
		m.sheets = map[string]*hardware.GPU{}
		seen := make([]bool, len(cluster.Classes))
		for i := range cluster.Nodes {
			n := &cluster.Nodes[i]
			if seen[n.Class] {
				continue
			}
			seen[n.Class] = true
			for g, u := range cluster.Classes[n.Class].GPUs {
				m.sheets[u.Model] = cluster.Datasheet(n.First + topology.GPUID(g))
			}
		}
	}
	return m
}

// Price implements Pricer. Errors: members that do not exist, sizes below 0, a GPU or link that no profile knows (unless
// Options.Assume).
func (m *Model) Price(r Request) (Estimate, error) {
	if m.cluster == nil {
		return Estimate{}, errors.New("no cluster to find the members in: use PriceShape")
	}
	if len(r.Members) == 1 && m.cluster.Valid(r.Members[0]) && r.Bytes >= 0 {
		return alone, nil
	}
	rt, err := m.routeOf(&r)
	if err != nil {
		return Estimate{}, err
	}
	return rt.estimate(&r), nil
}

// routeOf finds the worked-out group of a request, which it checks.
func (m *Model) routeOf(r *Request) (*route, error) {
	hash := groupHash(r)
	if g := m.groups.find(hash, r); g != nil {
		return g.route, checkRequest(g.shape.Ranks, r)
	}
	sh := m.shapers.Get().(*topology.Shaper)
	shape, err := sh.ShapeWith(r.Members, r.Siblings)
	m.shapers.Put(sh)
	if err != nil {
		return nil, err
	}
	if err := checkRequest(shape.Ranks, r); err != nil {
		return nil, err
	}
	rt, err := m.route(shape, r.Library, OneByte(r.DType))
	if err != nil {
		return nil, err
	}
	m.groups.keep(hash, r, shape, rt)
	return rt, nil
}

// PriceShape prices a request on a group of the given shape; the members of r are not looked at.
func (m *Model) PriceShape(shape topology.Shape, r Request) (Estimate, error) {
	if err := checkRequest(shape.Ranks, &r); err != nil {
		return Estimate{}, err
	}
	if shape.Ranks < 2 {
		return alone, nil
	}
	rt, err := m.route(shape, r.Library, OneByte(r.DType))
	if err != nil {
		return Estimate{}, err
	}
	return rt.estimate(&r), nil
}

func checkRequest(ranks int, r *Request) error {
	switch {
	case r.Op > parallel.SendRecv:
		return fmt.Errorf("unknown collective %v", r.Op)
	case r.Channels < 0:
		return fmt.Errorf("%d channels: want 1 or more, or 0 for the library's choice", r.Channels)
	case r.Bytes < 0:
		return fmt.Errorf("%v of %d bytes: want 0 or more", r.Op, r.Bytes)
	case ranks < 1:
		return errors.New("a group has no members")
	case r.Op == parallel.SendRecv && ranks != 2:
		return fmt.Errorf("send/recv between %d ranks: want exactly 2", ranks)
	}
	return nil
}

// route returns the worked-out shape, from the cache where possible.
func (m *Model) route(shape topology.Shape, library string, oneByte bool) (*route, error) {
	key := routeKey{shape: shape, library: library, oneByte: oneByte}
	key.shape.Limit = topology.Limit{Kind: shape.Limit.Kind, BW: shape.Limit.BW, NICs: shape.Limit.NICs} // names do not change times
	m.mu.RLock()
	rt := m.routes[key]
	m.mu.RUnlock()
	if rt != nil {
		return rt, nil
	}
	rt, err := m.newRoute(&key)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	if len(m.routes) >= maxRoutes {
		clear(m.routes)
	}
	m.routes[key] = rt
	m.mu.Unlock()
	return rt, nil
}

// profileFor finds the profile to use for a GPU and what the estimate then rests on.
func (m *Model) profileFor(gpu string) (*hardware.CollectiveProfile, Provenance, error) {
	p := m.profiles.Collective(gpu)
	if p == nil {
		if gpu == "" {
			gpu = "of unknown model"
		}
		err := fmt.Errorf("no collective profile for GPU %s (known: %s); --assume prices it like the nearest one with a wide interval",
			gpu, strings.Join(m.profiles.Systems(), ", "))
		return nil, Assumed, err
	}
	if p.Like == "" {
		return p, Measured, nil
	}
	like := m.profiles.Collective(p.Like)
	if like == nil || like.Domain == nil {
		return nil, Assumed, fmt.Errorf("profile of %s refers to %s, which has no fit", gpu, p.Like)
	}
	if p.Relation == "sibling" {
		return like, Sibling, nil
	}
	return like, OtherGen, nil
}

// chunkAligned says whether an all_to_all's chunk for each peer is a multiple of 16 bytes. Otherwise NCCL falls back to
// copies that measured 20 times slower (published A100 tables, 5 and 7 ranks).
func chunkAligned(bytes units.Bytes, n int) bool {
	return n > 0 && int64(bytes)%(16*int64(n)) == 0
}
