package smi

import (
	"bytes"
	"strings"
)

// The kinds of this package's texts, as in smi:FILE and nvlink:FILE.
const (
	Kind       = "smi"
	KindNVLink = "nvlink"
)

// Sniff says whether the first bytes of a file look like a table of nvidia-smi topo (Kind) or like nvidia-smi nvlink -s
// alone (KindNVLink), or "". Tables of topo -p2p and of other tools that resemble it count as Kind, so that Read can
// name what they are.
func Sniff(head []byte) string {
	if bytes.HasPrefix(bytes.TrimSpace(head), []byte("<")) {
		return ""
	}
	p := prepare(decode(head), "")
	s := scan(&report{lines: p.raw}, p.lines, true)
	if tables, p2p := real(s.tables); len(tables) > 0 || p2p != nil {
		return Kind
	}
	if st := readStatus(&report{lines: p.raw}, p.lines); len(st.GPUs) > 0 {
		return KindNVLink
	}
	for _, f := range signs[:7] {
		for _, m := range f.marks {
			if strings.Contains(p.text, m) && strings.Contains(p.text, "PU0") {
				return Kind
			}
		}
	}
	return ""
}
