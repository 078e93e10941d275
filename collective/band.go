package collective

import (
	"math"
	"slices"

	"rankmap/internal/hardware"
	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// sizeClass sorts sizes as the intervals do: latency, the middle, bandwidth.
type sizeClass uint8

const (
	sizeSmall sizeClass = iota // to 256 KiB
	sizeMid                    // to 16 MiB
	sizeLarge                  // above
	numSizes
)

var sizeNames = [numSizes]string{"small", "mid", "large"}

// classOf returns the size class of a buffer.
func classOf(b units.Bytes) sizeClass {
	switch {
	case b <= 256<<10:
		return sizeSmall
	case b <= 16<<20:
		return sizeMid
	}
	return sizeLarge
}

// SizeClass names the size class of a buffer: "small" to 256 KiB, "mid" to 16 MiB, "large" above.
func SizeClass(b units.Bytes) string { return sizeNames[classOf(b)] }

// logBand is p10 and p90 of ln(measured/predicted).
type logBand struct{ low, high float64 }

// provenanceNames are the names in profiles.
var provenanceNames = map[string]Provenance{
	"measured": Measured, "calibrated": Calibrated, "sibling": Sibling, "generation": OtherGen, "network": Network, "assumed": Assumed, "textbook": Textbook,
}

// String returns the name that profiles use: "measured", "calibrated", "sibling", "generation", "network", "assumed", "textbook".
func (p Provenance) String() string {
	for k, v := range provenanceNames {
		if v == p {
			return k
		}
	}
	return "unknown"
}

// defaultBands apply where a profile states none. Measured to network: docs/collective-model.md, section 4. Assumed and textbook
// are ours: the spread of the textbook form over all published tables, twice too fast in the median.
var defaultBands = [...][numSizes]logBand{
	Measured:   {{-.17, .19}, {-.14, .14}, {-.05, .05}},
	Calibrated: {{-.10, .13}, {-.20, .13}, {-.05, .06}},
	Sibling:    {{-.12, .13}, {-.12, .12}, {-.05, .07}},
	OtherGen:   {{-.44, .44}, {-.37, .36}, {-.19, .22}},
	Network:    {{-.35, .41}, {-.30, .35}, {-.18, .24}},
	Assumed:    {{-.70, 1.4}, {-.70, 1.4}, {-.40, 1.1}},
	Textbook:   {{-.30, 1.8}, {-.30, 1.4}, {-.20, .70}},
}

// bandTable holds the band of each operation and size for one provenance.
type bandTable [numGridOps][numSizes]logBand

// newBandTable reads a profile's bands: those of the operation first, then those of every operation, then the default.
func newBandTable(bands []hardware.Band, prov Provenance) *bandTable {
	return namedBandTable(bands, prov.String(), prov)
}

// namedBandTable is newBandTable for bands of another name: "version" for a library version that was not measured, "between" for a
// group size between measured ones, "few" for a fit to few points.
func namedBandTable(bands []hardware.Band, name string, prov Provenance) *bandTable {
	t := new(bandTable)
	for op := range t {
		t[op] = defaultBands[prov]
		if parallel.Op(op) >= parallel.Broadcast {
			for c := range t[op] {
				t[op][c].low = min(t[op][c].low, looseBands[c].low)
				t[op][c].high = max(t[op][c].high, looseBands[c].high)
			}
		}
	}
	t.spreadBands(bands, name)
	return t
}

// hasBands says whether a profile has bands of a name.
func hasBands(bands []hardware.Band, name string) bool {
	return slices.ContainsFunc(bands, func(b hardware.Band) bool { return b.Provenance == name })
}

// looseBands is the least band of broadcast, reduce and send/recv, whose forms are derived and were seen on a few machines
// only (published A100 and H800 tables, an own 2 x H200: -27 to +12 % on large buffers).
var looseBands = [numSizes]logBand{{-.30, .35}, {-.25, .40}, {-.18, .12}}

// spreadBands reads the bands of one name.
func (t *bandTable) spreadBands(bands []hardware.Band, name string) {
	for pass := range 2 {
		for _, b := range bands {
			if b.Provenance != name || (b.Op == "") != (pass == 0) {
				continue
			}
			for c, size := range sizeNames {
				if size != b.Size {
					continue
				}
				if b.Op == "" {
					for op := range t {
						t[op][c] = logBand{b.Low, b.High}
					}
					continue
				}
				var op parallel.Op
				if op.UnmarshalText([]byte(b.Op)) == nil {
					t[op][c] = logBand{b.Low, b.High}
				}
			}
		}
	}
}

// interval returns p10 and p90 of a time.
func (b logBand) interval(t units.Duration) (p10, p90 units.Duration) {
	return t * units.Duration(math.Exp(b.low)), t * units.Duration(math.Exp(b.high))
}
