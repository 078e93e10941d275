package smi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSniff(t *testing.T) {
	for text, want := range map[string]string{
		pair:                               Kind,
		prefixed(pair, "> "):               Kind,
		"\tGPU0\tGPU1\n GPU0\tX\tOK\n":     Kind,
		twoGPUs:                            KindNVLink,
		"<system version=\"1\">":           "",
		"SwitchName=s0 Nodes=n[0-3]":       "",
		"CA 'mlx5_0'\n\tCA type: MT4129\n": "",
		"":                                 "",
	} {
		if got := Sniff([]byte(text)); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	for _, f := range fixtures(t) {
		b, err := os.ReadFile(filepath.Join("testdata", f.file))
		if err != nil {
			t.Fatal(err)
		}
		if got := Sniff(b); got != Kind && f.reading != "refuse" && !strings.HasPrefix(f.reading, "damaged") {
			t.Errorf("%s is %q, want %q", f.file, got, Kind)
		}
	}
}
