package measured

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path"
	"strings"

	"rankmap/internal/units"
)

// ncclJSON is the file that nccl-tests -J writes (src/util.cu, 2025). Booleans are strings there, absent numbers null,
// NaN the string "nan". "devices" stands inside "config" or beside it, one entry a process.
type ncclJSON struct {
	Args        []string     `json:"args"`
	NCCLVersion int          `json:"nccl_version"`
	Config      ncclConfig   `json:"config"`
	Devices     []ncclDevice `json:"devices"`
	Results     []ncclResult `json:"results"`
	OutOfBounds struct {
		Count int `json:"count"`
	} `json:"out_of_bounds"`
}

type ncclConfig struct {
	Threads int          `json:"nthreads"`
	GPUs    int          `json:"ngpus"`
	Graph   int          `json:"graph"`
	Devices []ncclDevice `json:"devices"`
}

type ncclDevice struct {
	Group    int    `json:"group"`
	Hostname string `json:"hostname"`
	Info     string `json:"device_info"`
}

type ncclResult struct {
	Size       int64     `json:"size"`
	Type       string    `json:"type"`
	OutOfPlace *ncclTime `json:"out_of_place"`
	InPlace    *ncclTime `json:"in_place"`
}

type ncclTime struct {
	Time  looseNumber `json:"time"`
	CPU   looseNumber `json:"cpu_time"`
	Wrong looseNumber `json:"nwrong"`
}

// looseNumber is a number that may be null, absent or the string "nan".
type looseNumber float64

// UnmarshalJSON reads a number; anything that is none becomes NaN.
func (n *looseNumber) UnmarshalJSON(b []byte) error {
	var v float64
	if json.Unmarshal(b, &v) != nil || string(b) == "null" {
		v = math.NaN()
	}
	*n = looseNumber(v)
	return nil
}

func isNCCLTestsJSON(data []byte) bool {
	data = bytes.TrimSpace(data)
	return bytes.HasPrefix(data, []byte("{")) && bytes.Contains(data, []byte(`"results"`)) &&
		(bytes.Contains(data, []byte(`"nccl_version"`)) || bytes.Contains(data, []byte(`"out_of_place"`)))
}

// ReadNCCLTestsJSON reads what nccl-tests -J writes. Each result gives an out-of-place and an in-place Row; their line is
// where the result begins.
func ReadNCCLTestsJSON(r io.Reader, name string) ([]Row, []Skip, error) {
	data, err := readAll(r, name)
	if err != nil {
		return nil, nil, err
	}
	var doc ncclJSON
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, nil, fmt.Errorf("%s:%d: %w", name, lineAt(data, offsetOf(err)), err)
	}
	p := problems{name: name}
	if len(doc.Args) > 0 && foreignOps[strings.TrimSuffix(path.Base(doc.Args[0]), "_perf")] {
		return nil, []Skip{{name, 1, SkipNoOp}}, nil
	}
	base, err := doc.base(name)
	if err != nil {
		return nil, nil, fmt.Errorf("%s:1: %w", name, err)
	}
	var rows []Row
	var skipped []Skip
	lines := resultLines(data, len(doc.Results))
	for i, res := range doc.Results {
		line := lines[i]
		dtype, ok := dtypeOf(res.Type)
		if !ok || res.Size < 0 {
			p.addf(line, "size %d, type %q: want bytes and a known element type", res.Size, res.Type)
			continue
		}
		for j, t := range []*ncclTime{res.OutOfPlace, res.InPlace} {
			if t == nil || res.Size == 0 {
				continue
			}
			us := max(float64(t.Time), float64(t.CPU))
			if math.IsNaN(us) || us <= 0 || us > 1e12 {
				skipped = append(skipped, Skip{name, line, SkipNoTime})
				continue
			}
			if float64(t.Wrong) > 0 || doc.OutOfBounds.Count > 0 {
				skipped = append(skipped, Skip{name, line, SkipWrong})
				continue
			}
			row := base
			row.Bytes, row.DType, row.InPlace = units.Bytes(res.Size), dtype, j == 1
			row.Time, row.Line = units.Micros(us), line
			rows = append(rows, row)
		}
	}
	return rows, skipped, p.err()
}

// base is what all rows share.
func (d *ncclJSON) base(name string) (Row, error) {
	row := Row{Library: "nccl", Launch: LaunchEager, File: name}
	program := name
	if len(d.Args) > 0 {
		program = d.Args[0]
	}
	op, ok := opInName(path.Base(program))
	if !ok {
		if op, ok = opInName(path.Base(name)); !ok {
			return row, fmt.Errorf("which collective? neither args nor the file's name says")
		}
	}
	row.Op = op
	if d.NCCLVersion > 0 {
		row.Version = versionOf(d.NCCLVersion)
	}
	if d.Config.Graph > 0 {
		row.Launch = LaunchGraph
	}
	devices := append(d.Devices, d.Config.Devices...)
	each := max(d.Config.Threads, 1) * max(d.Config.GPUs, 1) // ranks of a process
	if each > 1<<16 || len(devices) == 0 {
		return row, fmt.Errorf("no devices: cannot tell how many ranks ran")
	}
	hosts, groups := map[string]int{}, map[int]bool{}
	for _, v := range devices {
		groups[v.Group] = true
		if v.Group == devices[0].Group {
			hosts[v.Hostname] += each
			row.Ranks += each
		}
		if row.GPU != "" && row.GPU != v.Info && len(row.Flags) == 0 {
			row.Flags = append(row.Flags, "GPUs of several models")
		}
		row.GPU = v.Info
	}
	for _, n := range hosts {
		row.GPUsPerNode = max(row.GPUsPerNode, n)
	}
	row.Nodes = len(hosts)
	if len(groups) > 1 {
		row.Flags = append(row.Flags, fmt.Sprintf("%d groups at once", len(groups)))
	}
	return row, nil
}

// resultLines finds the line on which each entry of the top-level "results" begins.
func resultLines(data []byte, n int) []int {
	lines := make([]int, n)
	dec := json.NewDecoder(bytes.NewReader(data))
	depth, next, inside := 0, 0, false
	for next < n {
		tok, err := dec.Token()
		if err != nil {
			return lines
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			depth++
			if inside && depth == 3 {
				lines[next] = lineAt(data, dec.InputOffset())
				next++
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
			inside = inside && depth >= 2
		case "results":
			inside = inside || depth == 1
		}
	}
	return lines
}

func lineAt(data []byte, offset int64) int {
	offset = min(max(offset, 0), int64(len(data)))
	return 1 + bytes.Count(data[:offset], []byte("\n"))
}

func offsetOf(err error) int64 {
	switch e := err.(type) {
	case *json.SyntaxError:
		return e.Offset
	case *json.UnmarshalTypeError:
		return e.Offset
	}
	return 0
}
