package model

import (
	"strings"
	"testing"
)

func TestEveryNameBelongsToOneFamily(t *testing.T) {
	types, classes := map[string]*family{}, map[string]*family{}
	for _, list := range families {
		for _, f := range list {
			for _, n := range f.types {
				if o := types[n]; o != nil && o != f {
					t.Errorf("model_type %q belongs to %s and %s", n, o.types[0], f.types[0])
				}
				types[n] = f
				if familyByType(n) != f {
					t.Errorf("model_type %q is not found", n)
				}
			}
			for _, n := range f.classes {
				key := strings.ToLower(n)
				if o := classes[key]; o != nil && o != f {
					t.Errorf("class %q belongs to %s and %s", n, o.types[0], f.types[0])
				}
				classes[key] = f
				if familyByClass(n+"ForCausalLM") != f {
					t.Errorf("class %q is not found", n)
				}
			}
		}
	}
	t.Logf("%d model types, %d classes", len(types), len(classes))
}

// TestClassDefaultsBuild: a file that names nothing but its type either builds from class defaults or says what is
// missing, and never builds a network without weights.
func TestClassDefaultsBuild(t *testing.T) {
	for _, list := range families {
		for _, f := range list {
			s, err := Parse(strings.NewReader(`{"model_type":"`+f.types[0]+`"}`), "m.json", Options{})
			if err != nil {
				if !strings.HasPrefix(err.Error(), "m.json:") {
					t.Errorf("%s: %v", f.types[0], err)
				}
				continue
			}
			if s.Params().Total < 1e6 || s.Layers() == 0 || len(s.Warnings) == 0 {
				t.Errorf("%s: %d parameters in %d layers, warnings %v", f.types[0], s.Params().Total, s.Layers(), s.Warnings)
			}
		}
	}
}
