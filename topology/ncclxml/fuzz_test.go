package ncclxml

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"rankmap/internal/testdata"
)

// FuzzRead checks that no bytes make the reader panic or run long, and that what it reads can be written or is refused.
func FuzzRead(f *testing.F) {
	seeds, _ := filepath.Glob("testdata/*.xml")
	for _, s := range seeds {
		data, err := os.ReadFile(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(two(`<nvlink target="0000:3d:00.0" count="4" tclass="0x03"/>`, `<nvlink target="fffffff:ffff:ff" count="4" tclass="0x068000"/>`)))
	f.Add([]byte(cpuDoc(`<pci busid="0000:01:00.0"><pci busid="0000:02:00.0" class="0x0207"/></pci><nic><net name="a+b" dev="0" speed="1"/></nic>`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		start := time.Now()
		res, err := Read(bytes.NewReader(data), "fuzz.xml")
		Sniff(data)
		if err == nil {
			for i := range res.Hosts {
				var buf bytes.Buffer
				if Write(&buf, &res.Hosts[i].Class, WriteOptions{}) == nil {
					if _, err := Read(&buf, "written.xml"); err != nil {
						t.Errorf("what was written is refused: %v", err)
					}
				}
			}
		}
		if d := time.Since(start); d > 30*time.Second { // hangs, not slowness
			t.Errorf("%v for %d bytes", d, len(data))
		}
	})
}

func BenchmarkRead(b *testing.B) {
	for _, name := range []string{"011-dgxa100-dump-12-nets.xml", "008-oci-h100-dump-16-nets.xml"} {
		data, err := os.ReadFile(testdata.Dir(b, "topology", "dev", "ncclxml", name))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name[:3], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Read(bytes.NewReader(data), "b.xml"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
