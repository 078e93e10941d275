package smi

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzRead: no panic on any bytes; what is read is consistent, and reading it again gives the same.
func FuzzRead(f *testing.F) {
	for _, x := range fixtures(f) {
		b, err := os.ReadFile(filepath.Join("testdata", x.file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	for seed := range 20 {
		f.Add(randomMachine(rand.New(rand.NewPCG(uint64(seed), 3))).raw())
	}
	f.Fuzz(func(t *testing.T, text string) {
		res, err := Read(strings.NewReader(text), "t")
		if err != nil {
			if res != nil || err.Error() == "" {
				t.Fatalf("error %v with result %v", err, res)
			}
			return
		}
		for i := range res.Nodes {
			n := &res.Nodes[i]
			if len(n.GPUs) == 0 || len(n.GPUPaths) != len(n.GPUs) || len(n.NICPaths) != len(n.GPUs) {
				t.Fatalf("node of %d GPUs with %d rows", len(n.GPUs), len(n.GPUPaths))
			}
			for a := range n.GPUPaths {
				for b := range n.GPUPaths[a] {
					if n.GPUPaths[a][b] != n.GPUPaths[b][a] {
						t.Fatal("asymmetric")
					}
				}
			}
		}
		again, err := Read(strings.NewReader(text), "t")
		if err != nil || len(again.Nodes) != len(res.Nodes) || len(again.Facts) != len(res.Facts) {
			t.Fatal("read differently the second time")
		}
		for i := range res.Facts {
			if res.Facts[i] != again.Facts[i] {
				t.Fatal("facts differ the second time")
			}
		}
	})
}

// FuzzNVLinkStatus: no panic on any bytes, and every GPU once.
func FuzzNVLinkStatus(f *testing.F) {
	f.Add(twoGPUs)
	f.Add("GPU 0: A40 (UUID: GPU-1)\nNVML: Unable to retrieve NVLink information as all links are inActive\n")
	f.Add("> GPU 7: (UUID: \n\t Link 0: 1e3 GB/s\nLink 99: <inactive>")
	f.Fuzz(func(t *testing.T, text string) {
		st, err := ReadNVLinkStatus(strings.NewReader(text), "s")
		if err != nil {
			return
		}
		seen := map[int]bool{}
		for _, g := range st.GPUs {
			if seen[g.Index] || g.Active() > len(g.Links) {
				t.Fatalf("GPU %+v", g)
			}
			seen[g.Index] = true
		}
	})
}
