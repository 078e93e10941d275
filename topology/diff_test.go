package topology

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDiffNamesWhatAnEditChanged(t *testing.T) {
	c := preset(t, "hgx-h100", 4)
	if d := Diff(c, c.Clone()); len(d) != 0 {
		t.Errorf("no change: %v", d)
	}
	for text, want := range map[string][]Change{
		"node3.gpu5":       {{"node3 GPU 5 state", "healthy", "dropped"}},
		"node1.nic2":       {{"node1 NIC 2 state", "healthy", "dropped"}},
		"node2":            {{"node2 state", "healthy", "dropped"}},
		"nvlink.scale=2":   {{"node[0-3] NVLink scale", "1", "2"}},
		"nvlink.domain=16": {{"NVLink domains", "4 x 8", "2 x 16"}},
	} {
		after, back := edit(t, c, text)
		if d := cmp.Diff(want, Diff(c, after)); d != "" {
			t.Errorf("%s: %s", text, d)
		}
		again, _, err := after.Edit(back, catalog(t))
		if err != nil || len(Diff(c, again)) != 0 {
			t.Errorf("%s and back: %v %v", text, Diff(c, again), err)
		}
	}
	if d := Diff(c, preset(t, "hgx-h100", 3)); len(d) < 2 || d[0] != (Change{What: "nodes gone", Before: "node3"}) {
		t.Errorf("%v", d)
	}
	if d := Diff(c, preset(t, "hgx-h200", 4)); len(d) != 8 || d[0].What != "node[0-3] GPU 0 model" {
		t.Errorf("%v", d)
	}
}
