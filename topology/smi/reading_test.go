package smi

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"rankmap/topology"
)

// The index of the collection states the right reading of each file in half-formal English, such as
//
//	gpus=4; nics=1 (mlx4_0); nvlink=none; other gpu pairs: PHB x2, SOC x4; cpu: GPU0-1=0-5; GPU2-3=6-11; numa: no column
//
// compareReading holds a result against it, clause by clause.

var (
	rePairs   = regexp.MustCompile(`NV(\d+) x(\d+) pairs`)
	reKinds   = regexp.MustCompile(`(PIX|PXB|PHB|NODE|SYS|SOC) x(\d+)`)
	reSets    = regexp.MustCompile(`\{([0-9,-]+)\}`)
	reNearest = regexp.MustCompile(`^GPU([0-9,-]+)->(.*?)(?: \((PIX|PXB|PHB|NODE|SYS|SOC)\))?$`)
	reValue   = regexp.MustCompile(`^(?:GPU)?([0-9,-]+)(?:=|->)(.+)$`)
	reNICs    = regexp.MustCompile(`^nics=(\d+)(?: \(([^)]*)\))?`)
	reNames   = regexp.MustCompile(`^\s*((?:NIC|mlx\d_)\d+(?:\s*,\s*(?:NIC|mlx\d_)\d+)*)\s*$`)
	reRange   = regexp.MustCompile(`^(NIC|mlx\d_)(\d+)\.\.(?:NIC|mlx\d_)?(\d+)(?:, from.*)?$`)
	reMapped  = regexp.MustCompile(`^(NIC)(\d+)\.\.(\d+)=(\w+_)(\d+)\.\.(\d+)$`)
	reMember  = regexp.MustCompile(`(PIX|PXB|PHB|NODE) pairs ((?:\{[0-9,]+\})+)`)
)

// refusal says that the reading wants the file refused.
func refusal(reading string) bool {
	return strings.HasPrefix(reading, "refuse") || strings.Contains(reading, "link types unknown") || strings.Contains(reading, "Otherwise refuse")
}

type reader struct {
	node  *topology.NodeClass
	facts int
	bad   []string
	skip  []string
}

func (c *reader) fail(format string, args ...any) {
	c.bad = append(c.bad, fmt.Sprintf(format, args...))
}

func (c *reader) want(what string, got, want any) {
	c.facts++
	if fmt.Sprint(got) != fmt.Sprint(want) {
		c.fail("%s is %v, want %v", what, got, want)
	}
}

// compareReading returns how many facts the reading states, what differs, and the clauses not understood.
func compareReading(n *topology.NodeClass, reading string) (facts int, bad, skipped []string) {
	c := &reader{node: n}
	section := ""
	for _, clause := range clauses(reading) {
		head, rest, ok := strings.Cut(clause, ": ")
		known := ""
		if ok {
			known = sectionOf(head)
		}
		switch {
		case known != "":
			section, clause = known, strings.TrimSpace(rest)
		case strings.HasPrefix(clause, "gpus="), strings.HasPrefix(clause, "nics="), strings.HasPrefix(clause, "nvlink="):
			section = clause[:strings.IndexByte(clause, '=')]
		case strings.HasPrefix(clause, "cpu lists corrupt"):
			section = "corrupt"
		case reMember.MatchString(clause):
			section = "members"
		}
		if !c.clause(section, clause) {
			c.skip = append(c.skip, section+"|"+clause)
		}
	}
	return c.facts, c.bad, c.skip
}

// clauses splits at semicolons outside parentheses.
func clauses(s string) []string {
	var out []string
	depth, from := 0, 0
	for i, r := range s + ";" {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ';' && depth <= 0:
			out = append(out, strings.TrimSpace(s[from:min(i, len(s))]))
			from = i + 1
		}
	}
	return out
}

func sectionOf(head string) string {
	head, _, _ = strings.Cut(head, " (")
	switch head {
	case "other gpu pairs", "cpu", "numa", "gpu numa id", "cpu/numa":
		return head
	case "nearest NIC", "nearest NIC by the matrix":
		return "nearest"
	case "numa from prose":
		return "nic numa"
	}
	return ""
}

func (c *reader) clause(section, clause string) bool {
	n := c.node
	switch section {
	case "gpus":
		c.want("number of GPUs", len(n.GPUs), strings.TrimPrefix(clause, "gpus="))
	case "nics":
		return c.nics(clause)
	case "nvlink":
		c.nvlink(clause)
	case "other gpu pairs":
		c.kinds(clause)
	case "members":
		for _, m := range reMember.FindAllStringSubmatch(clause, -1) {
			for _, set := range reSets.FindAllStringSubmatch(m[2], -1) {
				p := list(set[1])
				c.want("GPU"+set[1], n.GPUPaths[p[0]][p[1]], m[1])
			}
		}
	case "nearest":
		return c.nearest(clause)
	case "cpu", "numa", "gpu numa id", "cpu/numa":
		return c.affinity(section, clause)
	case "corrupt":
		for i := range n.GPUs {
			c.want("CPU affinity", n.GPUs[i].CPUAffinity, "")
		}
	case "nic numa":
		m := regexp.MustCompile(`^NIC([0-9,-]+)->(\d+)$`).FindStringSubmatch(clause)
		if m == nil {
			return false
		}
		for _, i := range list(m[1]) {
			c.want("NIC NUMA", n.NICs[i].NUMA, m[2])
		}
	default:
		return false
	}
	return true
}

func (c *reader) nics(clause string) bool {
	m := reNICs.FindStringSubmatch(clause)
	if m == nil {
		return false
	}
	c.want("number of NICs", len(c.node.NICs), m[1])
	names := []string{}
	switch {
	case m[2] == "":
		return true
	case reNames.MatchString(m[2]):
		for _, s := range strings.Split(m[2], ",") {
			names = append(names, strings.TrimSpace(s))
		}
	case reRange.MatchString(m[2]):
		r := reRange.FindStringSubmatch(m[2])
		lo, _ := strconv.Atoi(r[2])
		hi, _ := strconv.Atoi(r[3])
		for i := lo; i <= hi; i++ {
			names = append(names, r[1]+strconv.Itoa(i))
		}
	case reMapped.MatchString(m[2]):
		r := reMapped.FindStringSubmatch(m[2])
		for i := range c.node.NICs {
			names = append(names, r[4]+strconv.Itoa(i))
		}
	default:
		return false
	}
	if len(names) != len(c.node.NICs) {
		return true
	}
	for i, nic := range c.node.NICs {
		got := nic.Name
		if strings.HasPrefix(names[i], "mlx") {
			got = nic.Device
		}
		c.want(fmt.Sprintf("NIC %d", i), got, names[i])
	}
	return true
}

func (c *reader) nvlink(clause string) {
	counts := map[int]int{}
	for _, l := range c.node.NVLinks {
		counts[l.Count]++
	}
	want := map[int]int{}
	for _, m := range rePairs.FindAllStringSubmatch(clause, -1) {
		v, _ := strconv.Atoi(m[1])
		k, _ := strconv.Atoi(m[2])
		want[v] = k
	}
	c.want("NVLink pairs by count", counts, want)
	var sets []string
	for _, m := range reSets.FindAllStringSubmatch(clause, -1) {
		sets = append(sets, fmt.Sprint(list(m[1])))
	}
	c.want("NVLink sets", linked(c.node), sets)
}

// linked returns the sets of two and more GPUs that NVLink joins.
func linked(n *topology.NodeClass) []string {
	group := make([]int, len(n.GPUs))
	for i := range group {
		group[i] = i
	}
	for range n.GPUs {
		for _, l := range n.NVLinks {
			least := min(group[l.A], group[l.B])
			group[l.A], group[l.B] = least, least
		}
	}
	var sets []string
	for i := range group {
		var members []int
		for j, g := range group {
			if g == i {
				members = append(members, j)
			}
		}
		if len(members) > 1 {
			sets = append(sets, fmt.Sprint(members))
		}
	}
	return sets
}

func (c *reader) kinds(clause string) {
	got, want := map[string]int{}, map[string]int{}
	for i := range c.node.GPUs {
		for j := range i {
			if p := c.node.GPUPaths[i][j]; p != topology.PathNV {
				got[p.String()]++
			}
		}
	}
	for _, m := range reKinds.FindAllStringSubmatch(clause, -1) {
		k, _ := strconv.Atoi(m[2])
		want[strings.ReplaceAll(m[1], "SOC", "SYS")] += k
	}
	c.want("other GPU pairs", got, want)
}

func (c *reader) nearest(clause string) bool {
	if strings.HasPrefix(clause, "none (all SYS)") {
		for i := range c.node.GPUs {
			for j := range c.node.NICs {
				c.want("GPU to NIC", c.node.NICPaths[i][j], topology.PathSYS)
			}
		}
		return true
	}
	m := reNearest.FindStringSubmatch(clause)
	if m == nil {
		return false
	}
	for _, g := range list(m[1]) {
		best := topology.PathSYS + 1
		var names []string
		for j, nic := range c.node.NICs {
			p := c.node.NICPaths[g][j]
			switch {
			case p < best:
				best, names = p, []string{nic.Name}
			case p == best:
				names = append(names, nic.Name)
			}
		}
		what := fmt.Sprintf("nearest NIC of GPU%d", g)
		switch {
		case strings.HasPrefix(m[2], "none nearer than SYS"):
			c.want(what, best, topology.PathSYS)
			continue
		case m[2] == "any":
			c.want(what, len(names), len(c.node.NICs))
		default:
			want := strings.Split(m[2], ",")
			slices.Sort(want)
			slices.Sort(names)
			c.want(what, names, want)
		}
		c.want(what, best.String(), strings.ReplaceAll(m[3], "SOC", "SYS"))
	}
	return true
}

func (c *reader) affinity(section, clause string) bool {
	if strings.HasPrefix(clause, "no column") {
		for i := range c.node.GPUs {
			g := &c.node.GPUs[i]
			c.want("NUMA", g.NUMA, -1)
			c.want("NUMA range", g.NUMARange, "")
			if section == "cpu/numa" {
				c.want("CPU affinity", g.CPUAffinity, "")
			}
		}
		return true
	}
	m := reValue.FindStringSubmatch(clause)
	if m == nil {
		return false
	}
	for _, i := range list(m[1]) {
		g := &c.node.GPUs[i]
		what := fmt.Sprintf("%s of GPU%d", section, i)
		switch section {
		case "cpu":
			c.want(what, g.CPUAffinity, strings.ReplaceAll(m[2], "(empty)", ""))
		case "numa":
			got := strconv.Itoa(g.NUMA)
			if g.NUMA < 0 {
				got = g.NUMARange
			}
			if m[2] == "(empty)" {
				m[2] = ""
			}
			c.want(what, got, m[2])
		case "gpu numa id":
			c.want(what, g.GPUNUMA, m[2])
		}
	}
	return true
}

// list expands "0-3,7".
func list(s string) []int {
	var out []int
	for _, part := range strings.Split(s, ",") {
		lo, hi, ok := strings.Cut(part, "-")
		a, _ := strconv.Atoi(lo)
		b := a
		if ok {
			b, _ = strconv.Atoi(hi)
		}
		for ; a <= b; a++ {
			out = append(out, a)
		}
	}
	return out
}
