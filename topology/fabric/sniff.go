package fabric

import (
	"bytes"
	"strings"
)

// Sniff guesses the kind of a file from its first bytes: one of the Kind constants, or "" when it is none of this
// package's. Templates and damaged files are claimed by what they look like, so that the reader can refuse them by name.
func Sniff(head []byte) string {
	head = bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
	if len(head) > 1<<16 {
		head = head[:1<<16]
	}
	if c := firstByte(head); c == '{' || c == '[' {
		if bytes.Contains(head, []byte(`"compounded_links"`)) || bytes.Contains(head, []byte(`"compounded_nodes"`)) {
			return KindTopograph
		}
		if c == '{' {
			return ""
		}
	}
	kind := ""
	lines(head, func(_ int, line string) {
		if kind == "" {
			kind = sniffLine(line)
		}
	})
	return kind
}

// sniffLine says which kind a single line gives away.
func sniffLine(line string) string {
	t := strings.TrimSpace(line)
	low := strings.ToLower(t)
	key, val, hasEq := strings.Cut(low, "=")
	switch {
	case strings.HasPrefix(t, "vendid=0x"), strings.HasPrefix(t, "switchguid=0x"), strings.HasPrefix(t, "caguid=0x"),
		strings.HasPrefix(t, "# Topology file: generated on"), portLine(t):
		return KindIBNetDiscover
	case (strings.HasPrefix(t, "Switch") || strings.HasPrefix(t, "Ca")) && (strings.Contains(t, `"S-`) || strings.Contains(t, `"H-`)):
		return KindIBNetDiscover
	case strings.HasPrefix(t, "hca_id:"):
		return KindIBV
	case strings.HasPrefix(t, "CA '"), strings.HasPrefix(t, "Infiniband device '"):
		return KindIBStat
	case strings.HasPrefix(t, "-[") && strings.Contains(t, "]-"), strings.HasPrefix(t, "-+-["):
		return KindLSPCI
	case hasEq && (key == "switchname" || key == "blockname" || key == "blocksizes" || key == "ringname") && val != "":
		return KindSlurm
	case strings.HasPrefix(t, "- topology:"), strings.HasPrefix(t, "cluster_default:"):
		return KindSlurm
	case t == "switches:" || t == "blocks:" || t == "capacity_blocks:":
		return KindTopograph
	}
	return ""
}
