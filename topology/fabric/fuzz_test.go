package fabric

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// fuzz runs a reader on any bytes: it must not panic or run long.
func fuzz(f *testing.F, pattern string, read func(io.Reader, string) (*Result, error)) {
	files, _ := filepath.Glob("testdata/" + pattern)
	if len(files) == 0 {
		f.Fatal("no seeds")
	}
	for _, p := range files {
		data, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		start := time.Now()
		Sniff(data)
		res, err := read(bytes.NewReader(data), "fuzz")
		if err == nil && res.Fabric == nil && res.Node == nil {
			t.Error("neither a result nor an error")
		}
		if d := time.Since(start); d > 30*time.Second { // hangs, not slowness
			t.Errorf("%v for %d bytes", d, len(data))
		}
	})
}

func FuzzIBNetDiscover(f *testing.F) { fuzz(f, "ibnetdiscover*", IBNetDiscover) }
func FuzzSlurm(f *testing.F)         { fuzz(f, "*.[cy]*", Slurm) }
func FuzzTopograph(f *testing.F)     { fuzz(f, "*.[yj]*", Topograph) }
func FuzzIBV(f *testing.F)           { fuzz(f, "ibv*", IBV) }
func FuzzIBStat(f *testing.F)        { fuzz(f, "ibstat*", IBStat) }
func FuzzLSPCI(f *testing.F)         { fuzz(f, "lspci*", LSPCI) }
