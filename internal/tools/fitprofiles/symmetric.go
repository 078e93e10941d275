package main

import (
	"encoding/csv"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"rankmap/collective"
	"rankmap/internal/units"
)

// symmetricSystem is the machine on which step.csv timed PyTorch's symmetric-memory all_reduces: two H200.
const symmetricSystem = "h200_sxm"

// readSymmetric reads the symmetric-memory rows of h200-x2/step.csv: of each size the faster variant, which is what a caller picks.
// Without the file there are none.
func readSymmetric(data string) ([]collective.CustomSample, error) {
	f, err := os.Open(filepath.Join(data, "h200-x2", "step.csv"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	best := map[int64]float64{}
	var sizes []int64
	for _, row := range rows {
		if len(row) < 7 || row[0] != "symm" || row[2] != "all_reduce" {
			continue
		}
		size, err1 := strconv.ParseInt(row[3], 10, 64)
		us, err2 := strconv.ParseFloat(row[6], 64)
		if err1 != nil || err2 != nil || us <= 0 {
			continue
		}
		if old, ok := best[size]; !ok {
			sizes, best[size] = append(sizes, size), us
		} else {
			best[size] = min(old, us)
		}
	}
	var out []collective.CustomSample
	for _, size := range sizes {
		out = append(out, collective.CustomSample{Ranks: 2, Bytes: units.Bytes(size), Time: units.Micros(best[size])})
	}
	return out, nil
}
