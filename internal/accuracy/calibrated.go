package accuracy

import (
	"errors"

	"rankmap/collective"
	"rankmap/internal/measured"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// FromGeneration brings the first system's profile to the second, calibrates it with eight all-reduces (2 and all ranks;
// 4 KiB, 1 MiB, 32 MiB, 512 MiB; one type, one library version) and prices the second system's other rows.
func (h *HeldOut) FromGeneration(pairs ...[2]string) ([]Case, error) {
	var cases []Case
	for _, p := range pairs {
		from := h.fit(p[0], h.rows(func(r *measured.Row) bool { return r.Hardware == p[0] }), true)
		gpu, err := h.base.catalog.GPU(p[1])
		if err != nil {
			return nil, err
		}
		given, test := eight(h.rows(func(r *measured.Row) bool { return r.Hardware == p[1] }))
		if len(given) == 0 {
			continue
		}
		opts := collective.CalibrationOptions{Relation: collective.OtherGen, Source: "eight all-reduces"}
		fitted, _, err := collective.Calibrate(collective.Transfer(from, gpu, false), pointsOf(given), opts)
		if err != nil {
			return nil, err
		}
		cases = append(cases, h.score(h.base.profiles.With(fitted), test)...)
	}
	return cases, nil
}

// AfterCalibration calibrates the shipped profile of the rows' system with the sizes that given picks (all of the rows
// must be of one system) and prices the rows of the other sizes.
func (c *Confronter) AfterCalibration(files []measured.File, given func(units.Bytes) bool) ([]Case, error) {
	var in, out []measured.Row
	for i := range files {
		for _, r := range files[i].Rows {
			if r = c.Complete(r); given(r.Bytes) {
				in = append(in, r)
			} else {
				out = append(out, r)
			}
		}
	}
	points, _, err := c.Points(measured.File{Rows: in})
	if err != nil {
		return nil, err
	}
	if len(points) == 0 {
		return nil, errors.New("nothing to calibrate with")
	}
	gpu, err := c.catalog.GPU(points[0].System)
	if err != nil {
		return nil, err
	}
	base, relation, err := collective.BaseFor(c.profiles, gpu)
	if err != nil {
		return nil, err
	}
	opts := collective.CalibrationOptions{Relation: relation, Source: "sizes given"}
	if host := c.profiles.Host(gpu.System); host != nil {
		opts.FloorUs = host.FloorUs
	}
	fitted, _, err := collective.Calibrate(base, points, opts)
	if err != nil {
		return nil, err
	}
	return NewWith(c.catalog, c.profiles.With(fitted), c.opts).Rows(measured.File{Rows: out}).Cases, nil
}

// eight picks the calibration rows, and returns the others.
func eight(rows []measured.Row) (given, others []measured.Row) {
	most, library, count := 0, "", map[string]int{}
	for i := range rows {
		most = max(most, rows[i].Ranks)
		v := rows[i].Version
		if count[v]++; count[v] > count[library] || count[v] == count[library] && v < library {
			library = v
		}
	}
	type key struct {
		ranks int
		bytes units.Bytes
	}
	taken := map[key]bool{}
	for _, r := range rows {
		k := key{r.Ranks, r.Bytes}
		size := r.Bytes == 4<<10 || r.Bytes == 1<<20 || r.Bytes == 32<<20 || r.Bytes == 512<<20
		if size && !taken[k] && r.Op == parallel.AllReduce && (r.Ranks == 2 || r.Ranks == most) && r.Version == library && !collective.OneByte(r.DType) {
			taken[k] = true
			given = append(given, r)
		} else {
			others = append(others, r)
		}
	}
	return given, others
}
