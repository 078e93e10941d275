package smi

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"rankmap/topology"
)

// truth is a machine and its table as cells, before anything prints or damages it.
type truth struct {
	gpus    int
	nics    []string // column names
	devices []string // by NIC; "" when no legend names it
	cells   [][]string
	cpu     []string
	numa    []string // as printed
	gpuNUMA []string
	cols    int // affinity columns of the generation: 0 to 3
	nicRows bool
	ansi    bool
	legend  []string
	nicText []string
	order   []int // rows in the order printed

	untitled []string // GPU NUMA IDs whose title was cropped: may be read or not
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// randomMachine makes a machine of any generation.
func randomMachine(r *rand.Rand) *truth {
	m := &truth{gpus: pick(r, 1, 2, 2, 3, 4, 4, 8, 8, 8, 16), nicRows: true}
	nics := pick(r, 0, 0, 1, 2, 4, 8, 10)
	m.cols = pick(r, 0, 1, 2, 2, 3, 3, 3)
	m.ansi = m.cols == 3 && r.IntN(2) == 0
	far, named := "SYS", m.cols < 2 || r.IntN(4) == 0
	if m.cols == 1 && r.IntN(3) == 0 {
		far = "SOC"
	}
	for i := range nics {
		device := fmt.Sprintf(pick(r, "mlx5_%d", "mlx5_%d", "mlx5_bond_%d", "rocep%ds0", "ibp%d"), i+r.IntN(2)*3)
		if named {
			device = fmt.Sprintf("mlx5_%d", i)
		}
		m.devices = append(m.devices, device)
		if named {
			m.nics = append(m.nics, device)
		} else {
			m.nics = append(m.nics, fmt.Sprintf("NIC%d", i))
			m.nicText = append(m.nicText, fmt.Sprintf("  NIC%d: %s", i, device))
		}
	}
	if named {
		r.Shuffle(nics, func(i, j int) {
			m.nics[i], m.nics[j] = m.nics[j], m.nics[i]
			m.devices[i], m.devices[j] = m.devices[j], m.devices[i]
		})
	}
	m.fill(r, nics, far)
	m.affinities(r)
	m.legend = legendOf(far)
	for i := range m.gpus + nics {
		m.order = append(m.order, i)
	}
	return m
}

func (m *truth) fill(r *rand.Rand, nics int, far string) {
	n := m.gpus + nics
	m.cells = make([][]string, n)
	for i := range m.cells {
		m.cells[i] = make([]string, n)
		m.cells[i][i] = " X "
	}
	style := r.IntN(4)
	count := pick(r, 1, 2, 4, 6, 8, 12, 16, 17, 18)
	near := []string{"PIX", "PXB", "PHB", "NODE", far}
	if far == "SOC" {
		near = []string{"PIX", "PXB", "PHB", far}
	}
	for i := range n {
		for j := range i {
			c := pick(r, near...)
			if i < m.gpus {
				switch style {
				case 0:
					c = fmt.Sprintf("NV%d", count)
				case 1:
					if r.IntN(2) == 0 {
						c = fmt.Sprintf("NV%d", 1+r.IntN(2))
					}
				case 2:
					if i/2 == j/2 {
						c = fmt.Sprintf("NV%d", count)
					}
				}
			}
			m.cells[i][j], m.cells[j][i] = c, c
		}
	}
}

func (m *truth) affinities(r *rand.Rand) {
	hidden := r.IntN(4) == 0
	short := r.IntN(4) == 0
	for g := range m.gpus {
		half := 2 * g / m.gpus
		per := 48
		if short {
			per = 4
		}
		cpu := fmt.Sprintf("%d-%d", half*per, half*per+per-1)
		if !short && r.IntN(2) == 0 {
			cpu += fmt.Sprintf(",%d-%d", (2+half)*per, (2+half)*per+per-1)
		}
		if hidden {
			cpu = pick(r, "", "", "1", "0", "0,64")
		}
		numa := pick(r, fmt.Sprint(half), fmt.Sprint(half), fmt.Sprint(half*8), "N/A", "0-1")
		if r.IntN(20) == 0 {
			numa = ""
		}
		m.cpu = append(m.cpu, cpu)
		m.numa = append(m.numa, numa)
		id := pick(r, "N/A", "N/A", "N/A", "4", "12")
		if numa == "" { // Grace, the one with GPU memory as a NUMA node, always has a NUMA node for the CPU
			id = "N/A"
		}
		m.gpuNUMA = append(m.gpuNUMA, id)
	}
}

func legendOf(far string) []string {
	l := []string{"  X    = Self", "  " + far + "  = across the link between NUMA nodes (QPI/UPI)"}
	if far == "SYS" {
		l = append(l, "  NODE = across host bridges of one NUMA node")
	}
	return append(l, "  PHB  = through a PCIe host bridge", "  PXB  = through several PCIe bridges", "  PIX  = through one PCIe bridge",
		"  NV#  = through a set of # NVLinks")
}

// names are the devices in the order of the columns.
func (m *truth) names() []string {
	var s []string
	for i := range m.gpus {
		s = append(s, fmt.Sprintf("GPU%d", i))
	}
	return append(s, m.nics...)
}

var titleWords = []string{"CPU Affinity", "NUMA Affinity", "GPU NUMA ID"}

// grid is the table as cells: the header first, one cell each; the row's odd empty cell of the newest tool is the
// printer's business.
func (m *truth) grid() (header []string, rows [][]string) {
	names := m.names()
	header = append(append([]string{""}, names...), titleWords[:m.cols]...)
	for _, i := range m.order {
		if i >= m.gpus && !m.nicRows {
			continue
		}
		row := append([]string{names[i]}, m.cells[i]...)
		for c := range m.cols {
			v := ""
			if i < m.gpus {
				v = [][]string{m.cpu, m.numa, m.gpuNUMA}[c][i]
			}
			row = append(row, v)
		}
		rows = append(rows, row)
	}
	return header, rows
}

// raw prints the table as the tool does.
func (m *truth) raw() string {
	header, rows := m.grid()
	var s strings.Builder
	head := strings.Join(header, "\t")
	if m.ansi {
		head = "\t\x1b[4m" + head[1:] + "\x1b[0m"
	}
	s.WriteString(head + "\n")
	n := 1 + len(m.cells)
	for _, row := range rows {
		gpu := strings.HasPrefix(row[0], "GPU")
		switch {
		case !gpu:
			row = append(row[:n:n], make([]string, m.cols+min(m.cols, 1))...)
		case m.cols == 3:
			row = append(row[:n+2:n+2], "", row[n+2])
		}
		s.WriteString(strings.Join(row, "\t") + "\n")
	}
	s.WriteString(m.legends())
	return s.String()
}

func (m *truth) legends() string {
	var s strings.Builder
	if len(m.legend) > 0 {
		s.WriteString("\nLegend:\n\n" + strings.Join(m.legend, "\n") + "\n")
	}
	if len(m.nicText) > 0 {
		s.WriteString("\nNIC Legend:\n\n" + strings.Join(m.nicText, "\n") + "\n\n")
	}
	return s.String()
}

// check compares what was read with the truth. Affinities may be unknown where a warning says so; anything else that
// differs is returned.
func (m *truth) check(res *Result) (bad []string, unknown int) {
	n := &res.Nodes[0]
	fail := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	if lost := len(m.nics) - len(n.NICs); lost > 0 && len(res.Warnings) > 0 && len(n.GPUs) == m.gpus {
		return nil, lost // said by a warning; the property of what is left needs no check of its own
	}
	if len(n.GPUs) != m.gpus || len(n.NICs) != len(m.nics) {
		fail("%d GPUs and %d NICs, want %d and %d", len(n.GPUs), len(n.NICs), m.gpus, len(m.nics))
		return
	}
	for i := range m.gpus {
		for j := range m.gpus {
			want := strings.TrimSpace(m.cells[i][j])
			if got := m.cellOf(n, i, j); got != want {
				fail("GPU%d-GPU%d is %s, want %s", i, j, got, want)
			}
		}
		for j := range m.nics {
			want := strings.ReplaceAll(m.cells[i][m.gpus+j], "SOC", "SYS")
			got := n.NICPaths[i][j].String()
			if got == "?" {
				unknown++
			} else if got != want {
				fail("GPU%d-%s is %s, want %s", i, m.nics[j], got, want)
			}
		}
		unknown += m.checkAffinity(&n.GPUs[i], i, fail)
	}
	for j, name := range m.nics {
		if n.NICs[j].Name != name {
			fail("NIC %d is %s, want %s", j, n.NICs[j].Name, name)
		}
		if d := n.NICs[j].Device; d != m.devices[j] && d != "" {
			fail("%s is %s, want %s", name, d, m.devices[j])
		}
	}
	if unknown > 0 && len(res.Warnings) == 0 {
		fail("%d affinities are unknown without a warning", unknown)
	}
	return bad, unknown
}

func (m *truth) checkAffinity(g *topology.GPU, i int, fail func(string, ...any)) (unknown int) {
	values := [...]string{m.cpu[i], m.numa[i], m.gpuNUMA[i]}
	for c := m.cols; c < 3; c++ {
		values[c] = ""
	}
	got := [...]string{g.CPUAffinity, g.NUMARange, ""}
	if g.NUMA >= 0 {
		got[1] = fmt.Sprint(g.NUMA)
	}
	if g.GPUNUMA >= 0 {
		got[2] = fmt.Sprint(g.GPUNUMA)
	}
	if m.untitled != nil && got[2] == m.untitled[i] {
		values[2] = got[2]
	}
	if values[2] == "N/A" {
		values[2] = ""
	}
	for c, want := range values {
		switch {
		case got[c] == want:
		case got[c] == "", c == 1 && got[c] == "N/A" && want == "": // neither names a node
			unknown++
		default:
			fail("GPU%d: %d-th affinity is %q, want %q", i, c, got[c], want)
		}
	}
	return unknown
}

// cellOf prints a pair as the table does.
func (m *truth) cellOf(n *topology.NodeClass, i, j int) string {
	p := n.GPUPaths[i][j]
	if p == topology.PathSYS && strings.Contains(m.cells[i][j], "SOC") {
		return "SOC"
	}
	if p != topology.PathNV {
		return p.String()
	}
	for _, l := range n.NVLinks {
		if l.A == min(i, j) && l.B == max(i, j) {
			return fmt.Sprintf("NV%d", l.Count)
		}
	}
	return "NV?"
}
