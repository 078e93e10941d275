package smi

import (
	"strings"
	"testing"
	"time"
)

// TestHostileSizes: large inputs that are built to be slow take seconds at most, whatever comes out.
func TestHostileSizes(t *testing.T) {
	const size = maxInput / 8
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	wide := "\t" + strings.Repeat("GPU0\t", 400) + "\n"
	for _, c := range []struct{ name, text string }{
		{"one long word", fill("a")},
		{"fused cells", "GPU0 " + fill("NODE")},
		{"cells", "GPU0 " + fill("X ")},
		{"rows in one line", fill("GPU0 X ")},
		{"word and cell", "GPU0 " + fill("a X ")},
		{"rows of NICs", fill("mlx5_1 X PIX\n")},
		{"titles", fill("GPU0 ")},
		{"full lines that go on", "GPU0 X NV1 NV1 NV1 NV1 NV1\n" + fill("NV1 NV1 NV1 NV1 NV1 NV1 NV\n")},
		{"tables", fill(pair)},
		{"escapes", fill("\x1b[4m")},
		{"backslashes", `\tGPU` + fill(`\n`)},
		{"bars", fill("|")},
		{"quotes", "GPU0,GPU1\n" + fill(`",`)},
		{"dots", fill(":GPU1.")},
		{"wide", wide + fill("GPU0 X\n")},
		{"links", "GPU 0: N (UUID: GPU-1)\n" + fill("Link 0: 25 GB/s\n")},
		{"blanks before a row", strings.Repeat(" ", 1<<20) + "GPU0 X 0\n"},
	} {
		start := time.Now()
		_, _ = Read(strings.NewReader(c.text), "t")
		_, _ = ReadNVLinkStatus(strings.NewReader(c.text), "t")
		if d := time.Since(start); d > 60*time.Second { // hangs, not slowness
			t.Errorf("%s: %v", c.name, d)
		} else {
			t.Logf("%-24s %v", c.name, d.Round(time.Millisecond))
		}
	}
	if _, err := Read(strings.NewReader(strings.Repeat("a", maxInput+1)), "t"); err == nil || !strings.Contains(err.Error(), "larger than 4 MiB") {
		t.Errorf("too large: %v", err)
	}
}
