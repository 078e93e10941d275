package fabric

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rankmap/topology"
)

func TestExpand(t *testing.T) {
	for _, tc := range []struct{ list, want string }{
		{"a", "a"}, {"a,b", "a b"}, {"n[1-3]", "n1 n2 n3"}, {"n[008-010]", "n008 n009 n010"}, {"n[9-11]", "n9 n10 n11"}, {"n[1,3,5-6]x", "n1x n3x n5x n6x"},
		{"r[1-2]n[01-02],login", "r1n01 r1n02 r2n01 r2n02 login"}, {"switch.1.[1-2]", "switch.1.1 switch.1.2"}, {" a , b ,", "a b"}, {"", ""},
	} {
		got, err := topology.ExpandHostsUpTo(tc.list, maxHosts)
		if err != nil || strings.Join(got, " ") != tc.want {
			t.Errorf("%q: %q, %v; want %q", tc.list, got, err, tc.want)
		}
	}
	for _, tc := range []struct{ list, want string }{
		{"n[1-3", "never closed"}, {"n1-3]", "] without ["}, {"n[3-1]", "runs backwards"}, {"n[a-b]", "no number or range"}, {"n[]", "no number or range"}, {"n[1-[2]]", "[ inside ["},
		{"n[1-9999999]", "more than 1048576 names"}, {"a[1-2000]b[1-2000]", "more than"}, {strings.Repeat("x", 300), "more than 255 bytes"}, {"n[-1]", "no number or range"},
	} {
		if _, err := topology.ExpandHostsUpTo(tc.list, maxHosts); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.20q: error %v, want %q", tc.list, err, tc.want)
		}
	}
}

func TestSlurmErrors(t *testing.T) {
	for _, tc := range []struct {
		name, doc string
		want      []string
	}{
		{"empty", "\n", []string{"t.conf:1: empty file"}},
		{"only comments", "# nothing\n", []string{"no SwitchName or BlockName"}},
		{"all errors at once", "SwitchName=a Switches=b\nSwitchName=b Switches=a\nSwitchName=c Nodes=n[1-\nSwitchName=a Nodes=x\nWhat=1\nSwitchName=d Noodes=n1 Nodes=n2\nBlockSizes=four\n",
			[]string{"switches in a circle", "t.conf:3: host list \"n[1-\"", "t.conf:4: switch \"a\" is stated twice, first in line 1", "t.conf:5: unknown parameter \"what\"", "t.conf:6: unknown parameter \"noodes\"", "t.conf:7: block size \"four\""}},
		{"block twice", "BlockName=a Nodes=x\nBlockName=a Nodes=y\n", []string{"t.conf:2: block \"a\" is stated twice"}},
		{"itself", "SwitchName=a Switches=a\n", []string{"switches in a circle"}},
		{"no value", "SwitchName=a Nodes\n", []string{"\"Nodes\": want Parameter=value"}},
		{"slurm.conf", "ClusterName=x\nSlurmctldHost=y\n", []string{"t.conf:1: a slurm.conf"}},
		{"jinja", "SwitchName=a Nodes=b\n{% for x in y %}\n", []string{"t.conf:2: a Jinja"}},
		{"shell variables", "SwitchName=a Nodes=${NODES}\n", []string{"t.conf:1: a template with variables"}},
		{"ERB", "<% @a.each do |x| %>\n", []string{"an ERB template"}},
		{"yaml mapping", "cluster_default: true\n", []string{"want a list of topologies"}},
		{"yaml unknown keys", "- topology: a\n  trees: {}\n- topology: a\n  block: {blocks: [{block: b, nodes: \"n[1-\"}]}\n  flat: true\n", []string{"unknown key \"trees\"", "has no tree", "host list \"n[1-\"", "is block and flat", "topology \"a\" is stated twice"}},
		{"yaml anchors", "- &a {topology: x, flat: true}\n- *a\n", []string{"anchors and aliases"}},
		{"yaml duplicate key", "- topology: a\n  flat: true\n  flat: true\n", []string{"\"flat\" is stated twice"}},
		{"yaml two documents", "---\n- {topology: a, flat: true}\n---\n- {topology: b, flat: true}\n", []string{"a second YAML document"}},
		{"yaml deep", "- topology: " + strings.Repeat("[", 100000), []string{"nested deeper than"}},
		{"yaml word for a bool", "- topology: a\n  cluster_default: maybe\n  flat: true\n", []string{"cluster_default \"maybe\""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Slurm(strings.NewReader(tc.doc), "t.conf")
			for _, w := range tc.want {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("no error says %q in\n%v", w, err)
				}
			}
		})
	}
}

func TestSlurmWarnings(t *testing.T) {
	for _, tc := range []struct{ name, doc, want string }{
		{"two parents", "SwitchName=a Switches=l\nSwitchName=b Switches=l\nSwitchName=l Nodes=n1\n", "t.conf:2: switch \"l\" has two parents, \"a\" and \"b\""},
		{"nodes and switches", "SwitchName=a Switches=l Nodes=n2\nSwitchName=l Nodes=n1\n", "has Nodes and Switches"},
		{"nothing below", "SwitchName=a\n", "has neither"},
		{"node twice in one list", "SwitchName=a Nodes=n[1-3],n2\n", "node \"n2\" is listed twice below switch \"a\""},
		{"node in two blocks", "BlockName=a Nodes=n[1-3]\nBlockName=b Nodes=n[3-4]\n", "t.conf:2: node \"n3\" is in two blocks, \"a\" (line 1) and \"b\""},
		{"child twice", "SwitchName=a Switches=l,l\nSwitchName=l Nodes=n1\n", "lists \"l\" twice"},
		{"no default", "- {topology: a, flat: true}\n", "taken is the first, \"a\""},
		{"two defaults", "- {topology: a, flat: true}\n- {topology: b, flat: true, cluster_default: true}\n- {topology: c, flat: true, cluster_default: true}\n", "Slurm takes the first, \"b\""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res, err := Slurm(strings.NewReader(tc.doc), "t.conf")
			if err != nil {
				t.Fatal(err)
			}
			if all := strings.Join(res.Warnings, "\n"); !strings.Contains(all, tc.want) {
				t.Errorf("no warning says %q in\n%s", tc.want, all)
			}
		})
	}
}

func TestHostileNames(t *testing.T) {
	name := "\x1b31mred\u202ename$(id);rm"
	res, err := Slurm(strings.NewReader("SwitchName="+name+" Nodes=a\nSwitchName=b Nodes=../x\n"), "t.conf")
	if err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(res.Warnings, "\n"); strings.ContainsAny(all, "\x1b\u202e") || !strings.Contains(all, "\\u001b31mred\\u202ename$(id);rm") {
		t.Errorf("warnings %q", all)
	}
	found := false
	for _, s := range res.Fabric.Switches {
		found = found || s.Name == name
	}
	if !found || res.Fabric.Hosts[0].Name != "../x" && res.Fabric.Hosts[1].Name != "../x" {
		t.Errorf("names are not kept verbatim: %+v", res.Fabric)
	}
}

func TestScontrolOutput(t *testing.T) {
	res, err := Slurm(strings.NewReader("SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]\nSwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[3-4]\nSwitchName=s2 Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[0-1]\r\n"), "t.conf")
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Warnings) > 0 || len(res.Fabric.Hosts) != 4 || res.Fabric.Hosts[3].Leaf != "s1" {
		t.Errorf("hosts %+v, warnings %q", res.Fabric.Hosts, res.Warnings)
	}
}

func TestLongChainOfSwitches(t *testing.T) {
	var b strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&b, "SwitchName=s%d Switches=s%d\n", i, i+1)
	}
	b.WriteString("SwitchName=s20000 Nodes=n1\n")
	res, took := best(t, b.String(), Slurm)
	if took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	if top := res.Fabric.Switches[20000]; top.Tier != 20000 {
		t.Errorf("top switch %+v", top)
	}
}

// TestWideInputs checks that inputs made to be slow stay within bounds.
func TestWideInputs(t *testing.T) {
	var blocks strings.Builder
	for i := range 150000 {
		fmt.Fprintf(&blocks, "BlockName=b%d Nodes=n%d\n", i, i)
	}
	for name, doc := range map[string]string{
		"a switch with 900,000 children": "SwitchName=a Switches=l[1-900000]\n",
		"150,000 blocks":                 blocks.String(),
		"ranges that multiply":           "SwitchName=a Nodes=" + strings.Repeat("x[1-9]", 40) + "\n",
		"a deep YAML line":               "- topology: a\n  tree: " + strings.Repeat("? ", 200000) + "\n",
	} {
		start := time.Now()
		_, _ = Slurm(strings.NewReader(doc), "t.conf")
		if d := time.Since(start); d > 30*time.Second { // hangs, not slowness
			t.Errorf("%s: took %v", name, d)
		}
	}
}

// TestFiveHundredSwitches reads a generated tree of 500 leaves, 25 groups and a root with 10,000 nodes within a second.
func TestFiveHundredSwitches(t *testing.T) {
	var b strings.Builder
	b.WriteString("SwitchName=root Switches=grp[0-24]\n")
	for g := range 25 {
		fmt.Fprintf(&b, "SwitchName=grp%d Switches=leaf[%d-%d]\n", g, g*20, g*20+19)
	}
	for l := range 500 {
		fmt.Fprintf(&b, "SwitchName=leaf%d Nodes=node[%05d-%05d]\n", l, l*20, l*20+19)
	}
	res, took := best(t, b.String(), Slurm)
	if took > time.Second {
		t.Errorf("took %v, the budget is 1 s", took)
	}
	d := res.Fabric
	if len(d.Hosts) != 10000 || len(d.Switches) != 526 || d.Hosts[9999].Leaf != "leaf499" || len(res.Warnings) != 0 {
		t.Errorf("%d hosts, %d switches, warnings %q", len(d.Hosts), len(d.Switches), res.Warnings)
	}
	if !slices.IsSortedFunc(d.Switches[:500], func(a, b descSwitch) int {
		return strings.Compare(fmt.Sprintf("%4s", a.Name[4:]), fmt.Sprintf("%4s", b.Name[4:]))
	}) {
		t.Error("leaves are not in numeric order")
	}
}
