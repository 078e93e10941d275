package ncclxml

import (
	"fmt"
	"strings"
	"testing"
)

// TestLargeInputs checks that inputs made to be slow are refused, or read; one that hangs ends at the time limit of the tests.
func TestLargeInputs(t *testing.T) {
	group := func(n int, f func(i int) string) string { // 512 children an element, elements nested in bridges
		var b strings.Builder
		for i := range n {
			if i%512 == 0 {
				if i > 0 {
					b.WriteString("</cpu>")
				}
				fmt.Fprintf(&b, "<cpu numaid=\"%d\">", i/512)
			}
			b.WriteString(f(i))
		}
		return "<system version=\"1\">" + b.String() + "</cpu></system>"
	}
	gpus := group(100000, func(i int) string {
		return fmt.Sprintf("<pci busid=\"%04x:%02x:00.0\" class=\"0x0302\"/>", i>>8, i&255)
	})
	for _, tc := range []struct{ name, doc, want string }{
		{"100,000 GPUs", gpus, "more than 512 GPUs in one host"},
		{"100,000 nets", group(100000, func(i int) string { return fmt.Sprintf("<nic><net name=\"e%d\" dev=\"%d\"/></nic>", i, i) }), "more than"},
		{"60,000 bridges", group(60000, func(i int) string {
			return fmt.Sprintf("<pci busid=\"%04x:%02x:00.0\" class=\"0x060400\"><pci busid=\"0000:00:00.0\" class=\"0x01\"/></pci>", i>>8, i&255)
		}), "more than 4096 bridges in one host"},
		{"600 hosts", "<system version=\"1\">" + hosts(600) + "</system>", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(tc.doc), "t.xml")
			if (tc.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %.200v, want %q", err, tc.want)
			}
		})
	}
}

// hosts is n hosts of one GPU each: as large as a file with NCCL's 640 children can be.
func hosts(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "<cpu numaid=\"0\" host_hash=\"0x%x\"><pci busid=\"0000:01:00.0\" class=\"0x0302\"><gpu dev=\"0\" rank=\"%d\"/></pci></cpu>", i, i)
	}
	return b.String()
}
