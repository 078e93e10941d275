package ncclxml

import (
	"bytes"
	"strings"
)

// Kind is what this package's files are called: nccl-xml:FILE.
const Kind = "nccl-xml"

// Sniff says whether the first bytes of a file look like NCCL topology XML: Kind, or "". It also claims NCCL's graph
// files, fragments and hwloc XML, so that Read can name what they are.
func Sniff(head []byte) string {
	head = bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")))
	for {
		switch {
		case bytes.HasPrefix(head, []byte("<!--")):
			_, rest, ok := bytes.Cut(head, []byte("-->"))
			if !ok {
				return Kind // a comment longer than the head: only XML starts so
			}
			head = bytes.TrimSpace(rest)
			continue
		case bytes.HasPrefix(head, []byte("<?xml")), bytes.HasPrefix(head, []byte("<!DOCTYPE")):
			_, rest, ok := bytes.Cut(head, []byte(">"))
			if !ok {
				return Kind
			}
			head = bytes.TrimSpace(rest)
			continue
		}
		break
	}
	if len(head) == 0 || head[0] != '<' {
		return ""
	}
	word := head[1:]
	if i := bytes.IndexAny(word, " \t\r\n/>"); i >= 0 {
		word = word[:i]
	}
	switch strings.ToLower(string(word)) {
	case "system", "graphs", "graph", "cpu", "pci", "gpu", "nic", "net", "topology", "nvidia_smi_log", "!entity", "!element":
		return Kind
	}
	return ""
}
