package ncclxml

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// machineDoc draws a dump of a machine: one to four NUMA nodes, bridges up to three deep of several makers, GPUs with
// or without NVLink (direct or over switches, some links missing), NICs with one or two ports.
func machineDoc(t *rapid.T) string {
	m := &machineGen{t: t, wiring: rapid.IntRange(0, 2).Draw(t, "wiring")}
	var b strings.Builder
	b.WriteString("<system version=\"1\">\n")
	cpus := rapid.IntRange(1, 4).Draw(t, "cpus")
	for n := range cpus {
		fmt.Fprintf(&b, "<cpu numaid=\"%d\" affinity=\"%s\" arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"25\" modelid=\"1\">\n", n, affinityMask(fmt.Sprintf("%d-%d", n*8, n*8+7)))
		for range rapid.IntRange(1, 3).Draw(t, "ports") {
			m.pci(&b, 0)
		}
		b.WriteString("</cpu>\n")
	}
	b.WriteString("</system>\n")
	return m.links(b.String())
}

type machineGen struct {
	t              *rapid.T
	wiring         int // 0 none, 1 direct, 2 switches
	bus, gpu, nics int
	busOf          []string
}

func (m *machineGen) id() string {
	m.bus++
	return fmt.Sprintf("%04x:%02x:00.0", m.bus>>8, m.bus&0xff)
}

func (m *machineGen) pci(b *strings.Builder, depth int) {
	link := rapid.SampledFrom([]string{`link_speed="32.0 GT/s PCIe" link_width="16"`, `link_speed="16.0 GT/s PCIe" link_width="8"`}).Draw(m.t, "link")
	switch k := rapid.IntRange(0, 3).Draw(m.t, "kind"); {
	case k >= 2 && depth < 3:
		ids := rapid.SampledFrom([]string{"", `vendor="0x1000" device="0xc010" subsystem_vendor="0x1000" subsystem_device="0xa096"`, `vendor="0x11f8" device="0x4000"`}).Draw(m.t, "maker")
		fmt.Fprintf(b, "<pci busid=\"%s\" class=\"0x060400\" %s %s>\n", m.id(), ids, link)
		for range rapid.IntRange(1, 3).Draw(m.t, "children") {
			m.pci(b, depth+1)
		}
		b.WriteString("</pci>\n")
	case k == 1:
		fmt.Fprintf(b, "<pci busid=\"%s\" class=\"0x020700\" %s><nic>\n", m.id(), link)
		for p := range rapid.IntRange(1, 2).Draw(m.t, "nets") {
			fmt.Fprintf(b, "<net name=\"mlx5_%d\" dev=\"%d\" speed=\"400000\" port=\"%d\" guid=\"0x%x\"/>\n", m.nics, m.nics, p+1, m.bus)
			m.nics++
		}
		b.WriteString("</nic></pci>\n")
	default:
		id := m.id()
		fmt.Fprintf(b, "<pci busid=\"%s\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x20b2\" %s><gpu dev=\"%d\" sm=\"80\" rank=\"%d\">@%d@</gpu></pci>\n", id, link, m.gpu, m.gpu, m.gpu)
		m.busOf = append(m.busOf, id)
		m.gpu++
	}
}

// links fills in the NVLinks once all GPUs have a bus id.
func (m *machineGen) links(doc string) string {
	for i := range m.busOf {
		var s string
		switch m.wiring {
		case 1:
			for j, id := range m.busOf {
				if i != j && (i+j)%3 != 0 {
					n := 4
					if i == 1 && j < i {
						n = 3 // asymmetric
					}
					s += fmt.Sprintf("<nvlink target=\"%s\" count=\"%d\" tclass=\"0x030200\"/>", id, n)
				}
			}
		case 2:
			n := 4
			if i == 0 {
				n = rapid.IntRange(1, 4).Draw(m.t, "up")
			}
			s = fmt.Sprintf("<nvlink target=\"00ff:c0:00.0\" count=\"%d\" tclass=\"0x068000\"/><nvlink target=\"00ff:c1:00.0\" count=\"%d\" tclass=\"0x068000\"/>", (n+1)/2, n/2)
		}
		doc = strings.Replace(doc, fmt.Sprintf("@%d@", i), s, 1)
	}
	return doc
}

// TestAnyMachineRoundTrips draws machines and checks that what was read can be written and reads back equal.
func TestAnyMachineRoundTrips(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		doc := machineDoc(r)
		res, err := Read(strings.NewReader(doc), "t.xml")
		if err != nil {
			r.Fatalf("%v\n%s", err, doc)
		}
		class := &res.Hosts[0].Class
		if len(class.GPUs) == 0 {
			return
		}
		var buf bytes.Buffer
		if err := Write(&buf, class, WriteOptions{}); err != nil {
			r.Fatalf("%v\n%s", err, doc)
		}
		back, err := Read(bytes.NewReader(buf.Bytes()), "t.xml")
		if err != nil {
			r.Fatalf("%v\n%s", err, buf.Bytes())
		}
		a, b := fmt.Sprintf("%+v", *class), fmt.Sprintf("%+v", back.Hosts[0].Class)
		if a != b {
			r.Fatalf("\n%s\nbecame\n%s\n%s\n%s", a, b, doc, buf.Bytes())
		}
	})
}

// TestAnyAffinityRoundTrips compares mask and ranges with a plain list of CPUs.
func TestAnyAffinityRoundTrips(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		cpus := rapid.SliceOfNDistinct(rapid.IntRange(0, 700), 1, 40, rapid.ID[int]).Draw(r, "cpus")
		set := map[int]bool{}
		var list []string
		for _, c := range cpus {
			set[c] = true
			list = append(list, fmt.Sprint(c))
		}
		got, ok := affinityRanges(affinityMask(strings.Join(list, ",")))
		if !ok {
			r.Fatal("the mask is not read")
		}
		n := 0
		for _, part := range strings.Split(got, ",") {
			var lo, hi int
			if c, _ := fmt.Sscanf(part, "%d-%d", &lo, &hi); c == 1 {
				hi = lo
			}
			for c := lo; c <= hi; c++ {
				if !set[c] {
					r.Fatalf("CPU %d of %s is not in %v", c, got, cpus)
				}
				n++
			}
		}
		if n != len(set) {
			r.Fatalf("%d CPUs in %s, want %d", n, got, len(set))
		}
	})
}
