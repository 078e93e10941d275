package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What one tray prints does not tell of the rack: a plan over several says how it took them.
func TestTraysApartAreSaid(t *testing.T) {
	const tray = "\tGPU0\tGPU1\tNIC0\nGPU0\t X \tNV18\tNODE\nGPU1\tNV18\t X \tNODE\nNIC0\tNODE\tNODE\t X \n"
	file := filepath.Join(t.TempDir(), "tray.txt")
	if err := os.WriteFile(file, []byte(tray), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cluster []string
		want    bool
	}{
		{[]string{"--cluster", file, "--gpu", "gb200", "--nodes", "2", "--nic-rate", "400G"}, true},
		{[]string{"--cluster", file, "--gpu", "gb200"}, false},
		{[]string{"--cluster", file, "--gpu", "h200-sxm", "--nodes", "2", "--nic-rate", "400G"}, false},
		{[]string{"--cluster", "gb200-nvl72"}, false},
	} {
		d := osDeps()
		var out, talk bytes.Buffer
		d.Stdout, d.Stderr = &out, &talk
		args := append([]string{"plan", "--model", "llama-3.1-8b", "--task", "decode", "--batch", "144", "--fix", "tp=1,pp=1", "--explain=false"}, c.cluster...)
		if code := run(context.Background(), d, args); code != exitOK {
			t.Fatalf("%v: exit %d, %s", c.cluster, code, talk.String())
		}
		if got := strings.Contains(out.String(), "share a rack"); got != c.want {
			t.Errorf("%v: said %v, want %v", c.cluster, got, c.want)
		}
	}
}
