package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rankmap/configs"
	"rankmap/internal/testdata"
	"rankmap/topology"
)

// discover runs the command in this process.
func discover(t *testing.T, args ...string) (code int, out, talk string) {
	t.Helper()
	var o, e bytes.Buffer
	d := &deps{Stdin: strings.NewReader(""), Stdout: &o, Stderr: &e, Configs: configs.FS, Open: openFile, Getenv: func(string) string { return "" }}
	code = run(context.Background(), d, append([]string{"discover"}, args...))
	return code, o.String(), e.String()
}

// refused says that the index wants the file refused.
func refused(reading string) bool {
	return strings.HasPrefix(reading, "refuse") || strings.Contains(reading, "link types unknown") || strings.Contains(reading, "Otherwise refuse")
}

// TestDiscoverReadsEveryRealFile runs discover over the whole collection and holds the JSON against the index.
func TestDiscoverReadsEveryRealFile(t *testing.T) {
	dir := testdata.Dir(t, "topology", "dev")
	index, err := os.ReadFile(filepath.Join(dir, "INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	right, total, facts := map[string]int{}, map[string]int{}, 0
	for _, line := range strings.Split(string(index), "\n") {
		f := strings.Split(line, "\t")
		if len(f) < 4 || f[0] == "file" || strings.HasPrefix(f[0], "nccllog/") {
			continue
		}
		kind, _, _ := strings.Cut(f[0], "/")
		total[kind]++
		if t.Run(f[0], func(t *testing.T) { facts += holdsReading(t, filepath.Join(dir, f[0]), kind, f[3]) }) {
			right[kind]++
		}
	}
	for _, kind := range []string{"smi", "ncclxml", "fabric"} {
		t.Logf("%s: %d of %d right", kind, right[kind], total[kind])
	}
	t.Logf("%d facts compared", facts)
}

func holdsReading(t *testing.T, file, kind, reading string) int {
	code, out, talk := discover(t, "--from", file, "-o", "json")
	if refused(reading) {
		if code != exitInput || strings.Count(talk, "\n") != 1 || out != "" || !strings.Contains(talk, filepath.Base(file)) {
			t.Errorf("exit %d, want 2 and one message; said %q, printed %d bytes", code, talk, len(out))
		}
		return 1
	}
	if code != exitOK && code != exitBelow {
		t.Fatalf("exit %d: %s", code, talk)
	}
	v := readView(t, out)
	wellFormed(t, v)
	for _, format := range []string{"table", "wide"} {
		if c, text, _ := discover(t, "--from", file, "-o", format); c != code || strings.ContainsRune(text, 0x1b) {
			t.Errorf("-o %s: exit %d, or an escape in the text", format, c)
		}
	}
	if kind == "fabric" || len(v.Nodes) != 1 {
		return 1
	}
	c := &viewReader{t: t, n: &v.Nodes[0], v: v}
	c.reading(reading)
	return c.facts
}

func readView(t *testing.T, out string) *topology.View {
	t.Helper()
	var v topology.View
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("the JSON does not read back: %v", err)
	}
	return &v
}

// wellFormed checks what the form promises: every pair listed once with a < b, every GPU in exactly one domain.
func wellFormed(t *testing.T, v *topology.View) {
	if v.APIVersion != "rankmap/v1" || v.Kind != "Topology" || v.Findings == nil || v.Switches == nil || v.Links == nil {
		t.Errorf("head or lists are missing: %q %q", v.APIVersion, v.Kind)
	}
	gpus := map[string]int{}
	for _, n := range v.Nodes {
		at := 0
		for a := range n.GPUs {
			gpus[fmt.Sprintf("%s/%d", n.Name, a)] = 0
			for b := a + 1; b < len(n.GPUs); b++ {
				if at >= len(n.Links) || n.Links[at].A != a || n.Links[at].B != b {
					t.Fatalf("%s: pair %d-%d is not listed in order", n.Name, a, b)
				}
				at++
			}
		}
		if at != len(n.Links) {
			t.Errorf("%s: %d links listed, want %d", n.Name, len(n.Links), at)
		}
	}
	for _, d := range v.NVLinkDomains {
		for _, g := range d {
			gpus[g]++
		}
	}
	for g, n := range gpus {
		if n != 1 && v.NVLinkDomains != nil {
			t.Errorf("GPU %s is in %d domains", g, n)
		}
	}
}

// viewReader compares one node with the index's half-formal English.
type viewReader struct {
	t     *testing.T
	n     *topology.ViewNode
	v     *topology.View
	facts int
}

func (c *viewReader) want(what string, got, want any) {
	c.facts++
	if fmt.Sprint(got) != fmt.Sprint(want) {
		c.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

var (
	reCount = regexp.MustCompile(`^(gpus|nics)=(\d+)`)
	rePairs = regexp.MustCompile(`NV(\d+) x(\d+) pairs`)
	reOther = regexp.MustCompile(`(PIX|PXB|PHB|NODE|SYS|SOC) x(\d+)`)
	reSets  = regexp.MustCompile(`\{([0-9,-]+)\}`)
	reNear  = regexp.MustCompile(`^(?:GPU)?([0-9,-]+)->((?:NIC|mlx5_|ib)[\w,]*|any|none nearer than SYS)(?: \((PIX|PXB|PHB|NODE|SYS|SOC)\))?$`)
	reValue = regexp.MustCompile(`^(?:GPU)?([0-9,-]+)(?:=|->)(\S+)$`)
)

func (c *viewReader) reading(reading string) {
	section := ""
	depth := 0
	for _, clause := range strings.FieldsFunc(reading, func(r rune) bool {
		depth += map[rune]int{'(': 1, ')': -1}[r]
		return r == ';' && depth == 0
	}) {
		clause = strings.TrimSpace(clause)
		if head, rest, ok := strings.Cut(clause, ": "); ok {
			section, clause = head, strings.TrimSpace(rest)
		} else if !strings.Contains(clause, "->") && !strings.HasPrefix(clause, "GPU") {
			section = ""
		}
		if m := reCount.FindStringSubmatch(clause); m != nil && !strings.HasPrefix(reading, "devices") {
			c.want(m[1], map[string]int{"gpus": len(c.n.GPUs), "nics": len(c.n.NICs)}[m[1]], m[2])
		}
		switch {
		case strings.HasPrefix(clause, "nvlink="):
			c.nvlink(clause)
		case section == "other gpu pairs":
			c.others(clause)
		case strings.HasPrefix(section, "nearest"):
			c.nearest(clause)
		case section == "cpu" || section == "numa":
			c.affinity(section, clause)
		}
	}
}

func (c *viewReader) nvlink(clause string) {
	got, want := map[int]int{}, map[int]int{}
	for _, l := range c.n.Links {
		if l.Kind == "NV" {
			got[l.Count]++
		}
	}
	for _, m := range rePairs.FindAllStringSubmatch(clause, -1) {
		count, _ := strconv.Atoi(m[1])
		want[count], _ = strconv.Atoi(m[2])
	}
	if len(want) > 0 || strings.HasPrefix(clause, "nvlink=none") {
		c.want("NVLink pairs by count", got, want)
	}
	var sets, domains []string
	for _, m := range reSets.FindAllStringSubmatch(clause, -1) {
		sets = append(sets, fmt.Sprint(numbers(m[1])))
	}
	for _, d := range c.v.NVLinkDomains {
		var members []int
		for _, g := range d {
			i, _ := strconv.Atoi(g[strings.LastIndexByte(g, '/')+1:])
			members = append(members, i)
		}
		if len(members) > 1 {
			domains = append(domains, fmt.Sprint(members))
		}
	}
	c.want("NVLink domains", domains, sets)
}

func (c *viewReader) others(clause string) {
	got, want := map[string]int{}, map[string]int{}
	for _, l := range c.n.Links {
		if l.Kind != "NV" {
			got[l.Kind]++
		}
	}
	for _, m := range reOther.FindAllStringSubmatch(clause, -1) {
		n, _ := strconv.Atoi(m[2])
		want[strings.ReplaceAll(m[1], "SOC", "SYS")] += n
	}
	c.want("other pairs", got, want)
}

func (c *viewReader) nearest(clause string) {
	m := reNear.FindStringSubmatch(clause)
	if m == nil {
		return
	}
	device := map[string]string{}
	for _, x := range c.n.NICs {
		device[x.Name] = x.Device
	}
	for _, g := range numbers(m[1]) {
		u := &c.n.GPUs[g]
		path := "-"
		if u.NearestNICPath != nil {
			path = *u.NearestNICPath
		}
		what := fmt.Sprintf("nearest NICs of GPU%d", g)
		if m[3] != "" {
			c.want(what, path, strings.ReplaceAll(m[3], "SOC", "SYS"))
		}
		switch {
		case m[2] == "any":
			c.want(what, len(u.NearestNICs), len(c.n.NICs))
		case m[2] == "none nearer than SYS":
			c.want(what, path, "SYS")
		default:
			var want, got []string
			prefix := ""
			for _, name := range strings.Split(m[2], ",") { // "mlx5_0,1" is short for both
				if digits := strings.TrimLeft(name, "0123456789"); digits == "" {
					name = prefix + name
				}
				prefix = strings.TrimRight(name, "0123456789")
				want = append(want, name)
			}
			for _, name := range u.NearestNICs {
				if !slices.Contains(want, name) && device[name] != "" {
					name = device[name]
				}
				got = append(got, name)
			}
			slices.Sort(want)
			slices.Sort(got)
			c.want(what, got, want)
		}
	}
}

func (c *viewReader) affinity(section, clause string) {
	m := reValue.FindStringSubmatch(clause)
	if m == nil {
		return
	}
	if len(m[1]) >= 4 && strings.Trim(m[1][:4], "0123456789") == "" {
		return // bus numbers
	}
	for _, i := range numbers(m[1]) {
		at := slices.IndexFunc(c.n.GPUs, func(g topology.ViewGPU) bool { return g.Index == i })
		if at < 0 {
			continue // a bus number
		}
		u := &c.n.GPUs[at]
		got := u.CPUAffinity
		if section == "numa" {
			got = u.NUMARange
			if u.NUMA != nil {
				got = strconv.Itoa(*u.NUMA)
			}
		}
		c.want(fmt.Sprintf("%s of GPU%d", section, i), got, strings.ReplaceAll(m[2], "(empty)", ""))
	}
}

// numbers expands "0-3,7".
func numbers(s string) []int {
	var out []int
	for _, part := range strings.Split(s, ",") {
		lo, hi, ranged := strings.Cut(part, "-")
		a, _ := strconv.Atoi(lo)
		b := a
		if ranged {
			b, _ = strconv.Atoi(hi)
		}
		for ; a <= b && b < 1024; a++ {
			out = append(out, a)
		}
	}
	return out
}
