package smi

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// markdown prints a table of bars, as wikis and READMEs hold it.
func markdown(r *rand.Rand, m *truth, first bool) string {
	header, rows := m.grid()
	n := 1 + len(m.cells)
	move := func(row []string) []string {
		if !first {
			return row
		}
		return append(slices.Clone(row[n:]), row[:n]...)
	}
	widths := make([]int, len(header))
	all := append([][]string{header}, rows...)
	for i, row := range all {
		all[i] = move(row)
		for j, c := range all[i] {
			widths[j] = max(widths[j], len(strings.TrimSpace(c)))
		}
	}
	stray, outer := r.IntN(3) == 0, r.IntN(4) > 0
	var s strings.Builder
	for i, row := range all {
		var cells []string
		for j, c := range row {
			cells = append(cells, fmt.Sprintf(" %-*s ", widths[j], strings.TrimSpace(c)))
		}
		l := strings.Join(cells, "|")
		if outer {
			l = "|" + l + "|"
		}
		if i == 0 && stray {
			l = " " + l
		}
		s.WriteString(l + "\n")
		if i == 0 {
			for j := range row {
				s.WriteString("|" + strings.Repeat("-", widths[j]+2))
			}
			s.WriteString("|\n")
		}
	}
	s.WriteString(m.legends())
	return s.String()
}

func csvPrint(_ *rand.Rand, m *truth) string {
	header, rows := m.grid()
	var s strings.Builder
	for _, row := range append([][]string{header}, rows...) {
		for i, c := range row {
			if i > 0 {
				s.WriteByte(',')
			}
			c = strings.TrimSpace(c)
			if strings.ContainsAny(c, ", ") {
				c = `"` + c + `"`
			}
			s.WriteString(c)
		}
		s.WriteByte('\n')
	}
	s.WriteString(m.legends())
	return s.String()
}

// columnT aligns as "column -t -s TAB" does; with merge, empty cells vanish as in its older versions.
func columnT(m *truth, merge bool) string {
	header, rows := m.grid()
	all := append([][]string{header}, rows...)
	if merge {
		for i := range all {
			all[i] = slices.DeleteFunc(slices.Clone(all[i]), func(c string) bool { return strings.TrimSpace(c) == "" })
		}
		all[0] = append([]string{" "}, all[0]...)
	}
	return align(all) + m.legends()
}

func align(all [][]string) string {
	var widths []int
	for _, row := range all {
		for j, c := range row {
			if j == len(widths) {
				widths = append(widths, 0)
			}
			widths[j] = max(widths[j], len(c))
		}
	}
	var s strings.Builder
	for _, row := range all {
		l := ""
		for j, c := range row {
			l += fmt.Sprintf("%-*s", widths[j]+2, c)
		}
		s.WriteString(strings.TrimRight(l, " ") + "\n")
	}
	return s.String()
}

// retyped has columns of 6, as people type them.
func retyped(r *rand.Rand, m *truth) string {
	header, rows := m.grid()
	width := pick(r, 6, 7, 8, 10)
	var s strings.Builder
	for _, row := range append([][]string{header}, rows...) {
		l := ""
		for j, c := range row {
			w := width
			if j > len(m.cells) {
				w = pick(r, 16, 16, 16, 17)
			}
			l += fmt.Sprintf("%-*s ", w-1, c)
		}
		s.WriteString(strings.TrimRight(l, " ") + "\n")
	}
	s.WriteString(m.legends())
	return s.String()
}

func shuffled(r *rand.Rand, m *truth) string {
	r.Shuffle(len(m.order), func(i, j int) { m.order[i], m.order[j] = m.order[j], m.order[i] })
	return m.raw()
}

func oneTab(_ *rand.Rand, m *truth) string {
	header, rows := m.grid()
	var s strings.Builder
	for _, row := range append([][]string{header}, rows...) {
		s.WriteString(strings.Join(row, "\t") + "\n")
	}
	return s.String() + m.legends()
}

// cropNICs takes the NIC columns out and leaves the NIC rows.
func cropNICs(_ *rand.Rand, m *truth) string {
	header, rows := m.grid()
	cut := func(row []string) []string {
		return append(slices.Clone(row[:1+m.gpus]), row[1+len(m.cells):]...)
	}
	var s strings.Builder
	for _, row := range append([][]string{header}, rows...) {
		s.WriteString(strings.Join(cut(row), "\t") + "\n")
	}
	return s.String() + m.legends()
}

// dropTitle loses the last title, but no value.
func dropTitle(m *truth) string {
	s := m.raw()
	m.untitled = m.gpuNUMA
	m.gpuNUMA = slices.Repeat([]string{"N/A"}, m.gpus)
	return strings.Replace(s, "\tGPU NUMA ID", "", 1)
}

func translated(_ *rand.Rand, m *truth) string {
	m.legend = []string{"  X    = 自身", "  SYS  = 经过 PCIe 以及 NUMA 节点之间的", "互连", "  PIX  = 最多经过一个 PCIe 桥", "  NV#  = 经过 # 条绑定的 NVLink"}
	return m.raw()
}
