package fabric

import (
	"strings"
	"testing"

	"rankmap/topology"
)

type descSwitch = topology.DescSwitch

func TestTopographErrors(t *testing.T) {
	for _, tc := range []struct{ name, doc, want string }{
		{"another YAML", "apiVersion: v1\nkind: Pod\n", "not a Topograph model"},
		{"a list", "- a\n- b\n", "not a Topograph model"},
		{"another JSON", "{\"a\": 1}", "JSON without links and nodes"},
		{"broken JSON", "[\n{\"links\": [}\n", "t.yaml:2: not a NetQ network graph"},
		{"deep JSON", strings.Repeat("[", 100000), "nested deeper"},
		{"more behind the graph", "{\"nodes\":[{\"compounded_nodes\":[{\"id\":\"a\",\"device_type\":\"switch\"}]}]} x", "data after the graph"},
		{"no switch", "{\"nodes\":[{\"compounded_nodes\":[{\"id\":\"a\"}]}]}", "no switch in the graph"},
		{"circle", "switches:\n  a: {switches: [b]}\n  b: {switches: [a]}\n", "switches in a circle"},
		{"unknown capacity block", "switches:\n- name: a\n  capacity_blocks: [x]\n", "t.yaml:3: switch \"a\": unknown capacity block \"x\""},
		{"bad host list", "blocks:\n- switch: a\n  nodes: [\"n[1-\"]\n", "t.yaml:3: host list"},
		{"nodes of the wrong kind", "blocks:\n- switch: a\n  nodes: [[1]]\n", "want a name or a host list"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Topograph(strings.NewReader(tc.doc), "t.yaml")
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestTopographDomains(t *testing.T) {
	d := fixture(t, "topograph-nested.yaml").Fabric
	if len(d.Domains) != 1 || d.Domains[0].Name != "nvl-1" || len(d.Domains[0].Hosts) != 6 {
		t.Errorf("domains %+v, want one over both racks", d.Domains)
	}
	for _, h := range d.Hosts {
		if strings.HasPrefix(h.Name, "cpu") && (h.Leaf != "" || h.Domain != "") {
			t.Errorf("host %+v, want no place", h)
		}
	}
	old := fixture(t, "topograph-old.yaml").Fabric
	if old.Domains[0].Name != "nv1" || old.Hosts[2].Domain != "" || old.Hosts[2].Leaf != "sw22" || old.Hosts[2].Block != "cb2" {
		t.Errorf("hosts %+v", old.Hosts)
	}
}

func TestSlurmCommentsNameDomains(t *testing.T) {
	d := fixture(t, "slurm-both.conf").Fabric
	if len(d.Domains) != 1 || d.Domains[0].Name != "nvl-a" || d.Hosts[0].Domain != "nvl-a" || d.Hosts[4].Domain != "" {
		t.Errorf("domains %+v", d.Domains)
	}
	if s := d.Switches[0]; s.Name != "s1" || s.Label != "rack-a" {
		t.Errorf("switch %+v", s)
	}
}
