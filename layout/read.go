package layout

import (
	"errors"
	"fmt"
	"io"

	"rankmap/internal/parallel"
	"rankmap/internal/strictyaml"
)

// MaxSize bounds a layout file.
const MaxSize = 256 << 20

// Read reads one layout document, YAML or JSON (JSON is YAML), strictly, and checks it. name heads every error.
func Read(r io.Reader, name string) (*Layout, error) {
	n, err := strictyaml.Parse(r, name, MaxSize)
	if err != nil {
		return nil, err
	}
	l := new(Layout)
	if err := strictyaml.Decode(n, name, l); err != nil {
		return nil, err
	}
	if l.APIVersion != APIVersion || l.Kind != Kind {
		return nil, fmt.Errorf("%s:1: apiVersion %q, kind %q: want %s and %s", name, l.APIVersion, l.Kind, APIVersion, Kind)
	}
	if err := l.expand(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := l.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return l, nil
}

// CoordsOf returns a rank's coordinates as documents hold them.
func CoordsOf(st parallel.Strategy, rank int) parallel.Coords {
	c := st.CoordsOf(rank)
	c.ExpertTP, c.ExpertDP = 0, 0
	return c
}

// Check reports contradictions inside a layout: degrees against ranks, coordinates, members, doubled GPUs; at most 20.
func (l *Layout) Check() error {
	var errs []error
	bad := func(format string, args ...any) {
		if len(errs) < 20 {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if err := l.Inputs.Use.check(); err != nil {
		errs = append(errs, err)
	}
	st := l.Strategy.Parallel()
	if err := st.Check(); err != nil {
		return err
	}
	if st.World() != len(l.Ranks) {
		bad("ranks: %d listed, the strategy %s has %d", len(l.Ranks), st, st.World())
		return errors.Join(errs...)
	}
	seen := map[string]int{}
	for i, r := range l.Ranks {
		if r.Rank != i {
			bad("ranks: entry %d is rank %d, want them in order from 0", i, r.Rank)
			continue
		}
		key := fmt.Sprintf("%s GPU %d", r.Host, r.GPU)
		if j, dup := seen[key]; dup {
			bad("ranks %d and %d are both on %s", j, i, key)
		}
		seen[key] = i
		want := CoordsOf(st, i)
		r.Coords.ExpertTP, r.Coords.ExpertDP = 0, 0
		if r.Coords != want {
			bad("rank %d: coords %+v, the order %v gives %+v", i, r.Coords, st.Order, want)
		}
	}
	for i, g := range l.Groups {
		in := map[int]bool{}
		for _, m := range g.Members {
			if m < 0 || m >= len(l.Ranks) {
				bad("group %d (%s): member %d is no rank (0 to %d)", i, g.Kind, m, len(l.Ranks)-1)
			}
			if in[m] {
				bad("group %d (%s): rank %d stands twice", i, g.Kind, m)
			}
			in[m] = true
		}
		if len(g.Members) < 2 {
			bad("group %d (%s): %d member(s), want at least 2", i, g.Kind, len(g.Members))
		}
	}
	return errors.Join(errs...)
}
