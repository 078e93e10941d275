package measured

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// ReadContention reads collectives timed beside other work on two GPUs of one node: channels, case, bytes, gemm_m,
// first_us, second_us. A line of two collectives gives two Rows, one for each. The file names no GPU. Launches are eager.
//
// Cases: "X alone"; "two X at once"; "X with Y"; "X xN with gemm xM" (N and M repeats, so that both last equally long).
func ReadContention(r io.Reader, name string) ([]Row, []Skip, error) {
	t, err := newSheet(r, name, false, "channels", "case", "bytes", "gemm_m", "first_us", "second_us")
	if err != nil {
		return nil, nil, err
	}
	var rows []Row
	var skipped []Skip
	for t.next() {
		before := t.noted()
		what := t.str("case")
		first, second, err := parseCase(what)
		if err != nil {
			t.addf(t.line, "%w", err)
			continue
		}
		if first == caseGEMM && second == "" {
			skipped = append(skipped, Skip{name, t.line, SkipGEMM})
			continue
		}
		row := Row{
			Library: "nccl", Kernel: "pytorch", Launch: LaunchEager, DType: "bf16",
			Ranks: 2, Nodes: 1, GPUsPerNode: 2, Bytes: units.Bytes(t.count("bytes", 1)),
			File: name, Line: t.line, Flags: []string{"timed through PyTorch"},
		}
		channels := 0
		if c := t.str("channels"); c != "default" {
			channels = t.small("channels", 1)
		}
		gemm := 0
		if second == caseGEMM {
			gemm = t.small("gemm_m", 1)
		}
		for _, side := range []struct{ op, other, col string }{{first, second, "first_us"}, {second, first, "second_us"}} {
			if side.op == "" || side.op == caseGEMM {
				continue
			}
			one := row
			time, stated := t.micros(side.col)
			if err := one.Op.UnmarshalText([]byte(side.op)); err != nil {
				t.addf(t.line, "case %q: %w", what, err)
			}
			if t.noted() > before {
				break
			}
			if !stated {
				skipped = append(skipped, Skip{name, t.line, SkipNoTime})
				continue
			}
			if side.other != "" || channels > 0 {
				one.Kind = Contention
				one.Beside = &BesideShape{Channels: channels, GEMMRows: gemm}
				if side.other != "" && gemm == 0 {
					one.Beside.Bytes = one.Bytes
					if err := one.Beside.Op.UnmarshalText([]byte(side.other)); err != nil {
						t.addf(t.line, "case %q: %w", what, err)
						break
					}
				}
			}
			one.Time = time
			rows = append(rows, one)
		}
	}
	return rows, skipped, t.err()
}

const caseGEMM = "gemm"

// parseCase splits a case into the two things that ran; the second is empty when the first ran alone.
func parseCase(s string) (first, second string, err error) {
	if op, ok := strings.CutSuffix(s, " alone"); ok {
		return op, "", knownCase(s, op)
	}
	if op, ok := strings.CutPrefix(s, "two "); ok {
		op = strings.TrimSuffix(op, " at once")
		return op, op, knownCase(s, op)
	}
	a, b, ok := strings.Cut(s, " with ")
	if !ok {
		return "", "", badCase(s)
	}
	a, b = withoutRepeats(a), withoutRepeats(b)
	if err := knownCase(s, a); err != nil {
		return "", "", err
	}
	return a, b, knownCase(s, b)
}

// withoutRepeats removes " x7".
func withoutRepeats(s string) string {
	if i := strings.LastIndex(s, " x"); i >= 0 {
		if _, err := strconv.Atoi(s[i+2:]); err == nil {
			return s[:i]
		}
	}
	return s
}

func knownCase(s, op string) error {
	var o parallel.Op
	if op != caseGEMM && o.UnmarshalText([]byte(op)) != nil {
		return badCase(s)
	}
	return nil
}

func badCase(s string) error {
	return fmt.Errorf("case %q: want \"X alone\", \"two X at once\" or \"X with Y\"", s)
}
