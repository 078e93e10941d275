package measured

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"

	"rankmap/internal/units"
)

var reportKindLine = regexp.MustCompile(`(?m)^\s*"?kind"?:\s*"?` + ReportKind + `"?\s*,?\s*$|[{,]\s*"kind"\s*:\s*"` + ReportKind + `"`)

func isReport(data []byte) bool { return reportKindLine.Match(data) }

// ReadReport reads a report of rankmap validate, YAML or JSON: one Row a group that ran.
func ReadReport(r io.Reader, name string) ([]Row, []Skip, error) {
	rep, lines, err := DecodeReport(r, name)
	if err != nil {
		return nil, nil, err
	}
	p := problems{name: name}
	var rows []Row
	var skipped []Skip
	env := &rep.Environment
	base, off := environmentRow(env)
	for i := range rep.Groups {
		g, line := &rep.Groups[i], lines[i]
		if g.Verdict == VerdictSkipped || g.Times.Repeats == 0 {
			skipped = append(skipped, Skip{name, line, SkipNotMeasured})
			continue
		}
		if g.Verdict == VerdictFail || g.Wrong > 0 {
			skipped = append(skipped, Skip{name, line, SkipWrong})
			continue
		}
		if g.Verdict == VerdictUnstable {
			skipped = append(skipped, Skip{name, line, SkipUnstable})
			continue
		}
		if off != "" {
			skipped = append(skipped, Skip{name, line, off})
			continue
		}
		n := len(g.Members)
		dtype, known := dtypeOf(g.DType)
		switch {
		case n == 0 || g.Nodes < 1 || g.Nodes > n:
			p.addf(line, "group of %d ranks on %d nodes", n, g.Nodes)
		case g.Bytes < 1 || !(g.Times.MedianUs > 0):
			p.addf(line, "%d bytes in %v us: want both above 0", g.Bytes, g.Times.MedianUs)
		case !known:
			p.addf(line, "dtype %q: unknown element type", g.DType)
		default:
			row := base
			row.Launch, row.Op, row.Bytes, row.DType, row.InPlace = g.Launch, g.Op, units.Bytes(g.Bytes), dtype, g.InPlace
			row.Ranks, row.Nodes, row.GPUsPerNode = n, g.Nodes, (n+g.Nodes-1)/g.Nodes
			row.Time, row.File, row.Line = units.Micros(g.Times.MedianUs), name, line
			rows = append(rows, row)
		}
	}
	return rows, skipped, p.err()
}

// environmentRow is what all rows of a report share. off is the reason to skip them all: a switch of NCCL that makes it do
// what it would not do by itself.
func environmentRow(env *Environment) (row Row, off string) {
	row = Row{
		System: env.System, Hardware: hardwareOf(env.System), GPU: env.GPU, Library: "nccl", Version: env.NCCL,
		NICs: env.NICs, NICRate: units.Gbps(env.NICGbps), Fabric: env.Fabric,
	}
	if env.LogWhileTiming {
		row.Flags = append(row.Flags, "NCCL wrote its log while it was timed")
	}
	for _, e := range env.Env {
		switch k, v, _ := strings.Cut(e, "="); {
		case k == "NCCL_ALGO" && v != "":
			row.ForcedAlgorithm = v
		case k == "NCCL_PROTO" && v != "":
			row.ForcedProtocol = v
		case k == "NCCL_NVLS_ENABLE" && v == "0":
			row.NoMulticast = true
		case k == "NCCL_P2P_DISABLE" && v == "1":
			off = SkipP2POff
		}
	}
	if row.ForcedProtocol != "" {
		off = SkipForced
	}
	return row, off
}

// DecodeReport reads a report strictly: unknown keys are errors. lines holds the line of each group.
func DecodeReport(r io.Reader, name string) (rep *Report, lines []int, err error) {
	data, err := readAll(r, name)
	if err != nil {
		return nil, nil, err
	}
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	rep = new(Report)
	if err := d.Decode(rep); err != nil {
		var te *yaml.TypeError
		if errors.As(err, &te) {
			errs := make([]error, 0, problemCap)
			for _, m := range te.Errors[:min(len(te.Errors), problemCap)] {
				errs = append(errs, fmt.Errorf("%s:%s", name, strings.TrimPrefix(m, "line ")))
			}
			return nil, nil, errors.Join(errs...)
		}
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	if rep.Kind != ReportKind || rep.APIVersion != ReportAPIVersion {
		return nil, nil, fmt.Errorf("%s: is %s %s, want %s %s", name, rep.APIVersion, rep.Kind, ReportAPIVersion, ReportKind)
	}
	return rep, groupLines(&root, len(rep.Groups)), nil
}

// groupLines finds where each entry of "groups" begins.
func groupLines(root *yaml.Node, n int) []int {
	lines := make([]int, n)
	if len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return lines
	}
	top := root.Content[0].Content
	for i := 0; i+1 < len(top); i += 2 {
		if top[i].Value == "groups" {
			for j, g := range top[i+1].Content {
				if j < n {
					lines[j] = g.Line
				}
			}
		}
	}
	return lines
}
