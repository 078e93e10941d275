// Package testdata finds the collection of real inputs that tests read in place and that the repository does not hold.
package testdata

import (
	"os"
	"path/filepath"
	"testing"
)

// Dir returns the folder of the collection joined with elem: $RANKMAP_DATA, or a folder "shared" beside the
// repository. Without it the test is skipped, or fails when $CI_REQUIRE_DATA is 1.
func Dir(t testing.TB, elem ...string) string {
	t.Helper()
	if root := os.Getenv("RANKMAP_DATA"); root != "" {
		return need(t, root, elem)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return need(t, filepath.Join(filepath.Dir(dir), "shared"), elem)
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the working directory")
		}
		dir = up
	}
}

func need(t testing.TB, root string, elem []string) string {
	t.Helper()
	p := filepath.Join(append([]string{root}, elem...)...)
	if _, err := os.Stat(p); err != nil {
		if os.Getenv("CI_REQUIRE_DATA") == "1" {
			t.Fatalf("the collection of real inputs is missing: %v (set RANKMAP_DATA)", err)
		}
		t.Skipf("skipped: no real inputs at %s (set RANKMAP_DATA)", p)
	}
	return p
}
