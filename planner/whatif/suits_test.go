package whatif

import (
	"strings"
	"testing"

	"rankmap/layout"
)

func TestSettingsThatATaskDoesNotLookAt(t *testing.T) {
	for _, c := range []struct{ set, task, want string }{
		{"seq-len=4096", "decode", "set isl or osl"},
		{"seq-len=4096", "train", ""},
		{"isl=4096", "train", "set seq-len"},
		{"osl=4096", "serve", ""},
		{"osl=4096", "prefill", ""},
		{"kv-cache=fp8", "train", "no cache"},
		{"kv-cache=fp8", "decode", ""},
		{"experts.redundant=8", "train", "every expert once"},
		{"experts.redundant=0", "train", ""},
		{"batch=8", "train", ""},
		{"weights=fp8", "decode", ""},
		{"seq-len=4096", "", ""},
	} {
		s, err := ParseSetting(c.set)
		if err != nil {
			t.Fatal(err)
		}
		err = s.suits(&Problem{Workload: layout.Workload{Task: c.task}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("--set %s, task %q: %v, want %q", c.set, c.task, err, c.want)
		}
	}
}

func TestVersionsOfNCCL(t *testing.T) {
	for v, ok := range map[string]bool{"2.28": true, "2.28.9": true, "22809": true, "2.30": true, "9.99": false, "3.1": false, "2": false, "2.x": false, "2.28.9.1": false, "": false, "12809": false} {
		if err := checkNCCL(v); (err == nil) != ok {
			t.Errorf("nccl=%s: %v, want accepted %v", v, err, ok)
		}
	}
	if _, err := ParseAxis("nccl=2.27,9.99"); err == nil {
		t.Error("a sweep over versions that do not exist")
	}
}
