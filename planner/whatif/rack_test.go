package whatif

import (
	"encoding/json"
	"testing"

	"rankmap/topology"
)

// document is a cluster as its file holds it.
func document(t testing.TB, c *topology.Cluster) string {
	t.Helper()
	data, err := json.Marshal(topology.NewDoc(c))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// One domain of 72 is not a domain of 8 with something left over.
func TestARackCanBeCutIntoDomains(t *testing.T) {
	p := problem(t, "llama-3.1-70b")
	rack := machine(t, "gb200-nvl72", 1)
	for _, tt := range []struct {
		size    string
		domains int
	}{{"72", 1}, {"144", 1}, {"36", 2}, {"64", 2}, {"8", 9}, {"4", 18}} {
		m, _, err := Changes{Set: []string{"nvlink.domain=" + tt.size}}.Apply(rack, p)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(m.Cluster.Domains); n != tt.domains {
			t.Errorf("domains of %s: %d, want %d", tt.size, n, tt.domains)
		}
		back, err := m.Undo(p)
		if err != nil {
			t.Fatal(err)
		}
		if document(t, back.Cluster) != document(t, rack.Cluster) {
			t.Errorf("domains of %s and back: another machine", tt.size)
		}
	}
}

// Any text is a change or an error; a change and its inverse give the bytes that were there.
func FuzzDropAndDegrade(f *testing.F) {
	for _, s := range []string{
		"node3.gpu1", "node0", "node0.nvlink0-1", "node2.nvswitch1", "rack0.nvswitch17", "node1.nic2", "leaf:su0", "leaf:su0.rail3",
		"node0.nic1=100G", "node0.nic=50%", "node0.gpu2=9", "node0.nvlink=50%", "leaf:su0.rail1=200G", ".=", "node0.gpu-1", "leaf:.rail",
	} {
		f.Add(s)
	}
	p := problem(f, "llama-3.1-8b")
	rack := machine(f, "gb200-nvl72", 1)
	was := document(f, rack.Cluster)
	f.Fuzz(func(t *testing.T, s string) {
		for _, ch := range []Changes{{Drop: []string{s}}, {Degrade: []string{s}}} {
			m, _, err := ch.Apply(rack, p)
			if err != nil {
				continue
			}
			m.island()
			back, err := m.Undo(p)
			if err != nil {
				t.Fatal(err)
			}
			if document(t, back.Cluster) != was {
				t.Errorf("%q and back: another machine", s)
			}
		}
	})
}
