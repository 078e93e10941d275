package arch

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// open packages may be imported by all.
var open = []string{"internal/units", "internal/parallel", "internal/hardware", "internal/engine", "internal/measured", "internal/strictyaml"}

// allowed is the table of ARCHITECTURE.md. "*" means everything but cmd.
var allowed = map[string][]string{
	"internal/units":      {},
	"internal/parallel":   {},
	"internal/strictyaml": {},
	"internal/hardware":   {"internal/units", "internal/strictyaml"},
	"internal/engine":     {"internal/parallel"},
	"internal/measured":   {"internal/units", "internal/parallel", "internal/strictyaml"},
	"topology":            {},
	"topology/nvml":       {"topology"},
	"topology/sysfs":      {"topology"},
	"topology/smi":        {"topology"},
	"topology/ncclxml":    {"topology"},
	"topology/fabric":     {"topology"},
	"topology/capture":    {"topology"},
	"topology/source":     {"topology", "topology/nvml", "topology/sysfs", "topology/smi", "topology/ncclxml", "topology/fabric", "topology/capture"},
	"model":               {},
	"collective":          {"topology", "collective/nccltune"},
	"collective/nccltune": {"topology"},
	"compute":             {"model"},
	"layout":              {"topology"},
	"layout/export":       {"layout", "topology"},
	"planner":             {"topology", "model", "collective", "compute", "layout", "planner/step"},
	"planner/whatif":      {"topology", "model", "collective", "compute", "layout", "planner", "planner/step"},
	"planner/step":        {"topology", "model", "collective", "compute", "layout"},
	"validate":            {"layout", "collective", "topology", "validate/nccl", "validate/rendezvous"},
	"validate/nccl":       {},
	"validate/rendezvous": {},
	"internal/accuracy":   {"*"},
	"internal/diagnose":   {"topology", "layout", "collective"},
	"report":              {"layout", "topology", "model", "planner", "planner/step", "planner/whatif", "validate", "internal/diagnose"},
	"cmd/rankmap":         {"*"},
	"configs":             {},
	"internal/arch":       {},
	"internal/testdata":   {},
}

// impure lists what the core packages must not import.
var impure = []string{"os", "net", "net/http", "os/exec", "log", "log/slog", "syscall", "os/signal"}

var core = []string{"topology", "model", "collective", "collective/nccltune", "compute", "layout", "layout/export", "planner", "planner/step", "planner/whatif"}

func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "rankmap/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	d := json.NewDecoder(strings.NewReader(string(out)))
	for d.More() {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(p.ImportPath, "rankmap/")
		if strings.HasPrefix(name, "internal/tools/") {
			continue // programs for maintainers, like cmd
		}
		may, known := allowed[name]
		if !known {
			t.Errorf("package %s is not in the table: say what it is for and what it may import", name)
			continue
		}
		for _, imp := range p.Imports {
			if slices.Contains(core, name) && slices.Contains(impure, imp) {
				t.Errorf("%s imports %s: the core is pure", name, imp)
			}
			dep, ours := strings.CutPrefix(imp, "rankmap/")
			if !ours || slices.Contains(may, dep) || slices.Contains(open, dep) && !strings.HasPrefix(name, "internal/") {
				continue
			}
			if slices.Contains(may, "*") && !strings.HasPrefix(dep, "cmd/") {
				continue
			}
			if name == "internal/diagnose" && slices.Contains(open, dep) {
				continue
			}
			t.Errorf("%s imports %s: not in the table", name, dep)
		}
	}
}

func TestCgoOnlyInNVML(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Imports \",\"}}", "rankmap/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		path, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.Contains(imports, "NVIDIA/go-nvml") && path != "rankmap/topology/nvml" {
			t.Errorf("%s imports go-nvml: only topology/nvml may", path)
		}
	}
}
