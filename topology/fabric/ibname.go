package fabric

import "strings"

// hcaName says whether a word names an adapter: mlx5_5, HCA-6, ibp11s0f0, rocep26s0, hfi1_0, bnxt_re0, ...
func hcaName(w string) bool {
	low := strings.ToLower(w)
	for _, p := range []string{"mlx4_", "mlx5_", "hca-", "ibp", "ibs", "roce", "hfi1_", "bnxt_re", "irdma", "qib", "mthca", "rdma", "cxgb4_", "qedr", "efa_", "rdmap"} {
		if rest, ok := strings.CutPrefix(low, p); ok && rest != "" {
			return true
		}
	}
	if rest, ok := strings.CutPrefix(low, "ib"); ok && digits(rest) { // ib0
		return true
	}
	return false
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// caName splits an adapter's description into host and adapter. A description that a vendor put there ("MT4129
// ConnectX7   Mellanox Technologies") names no host.
func caName(desc string) (host, hca string, ok bool) {
	desc = strings.TrimSpace(desc)
	if desc == "" || vendorText(desc) {
		return "", "", false
	}
	if i := strings.LastIndexAny(desc, " \t"); i > 0 {
		if w := desc[i+1:]; hcaName(w) {
			return strings.TrimSpace(desc[:i]), w, true
		}
		return "", "", false
	}
	if hcaName(desc) {
		return "", "", false // an adapter of nobody
	}
	return desc, "", true
}

// vendorText says whether a description is a vendor's default.
func vendorText(desc string) bool {
	low := strings.ToLower(desc)
	for _, v := range []string{"mellanox technologies", "connectx", "connect-ib", "infiniscale", "quantum", "qlogic", "infinihost", "nvidia corporation", "switchx", "switch-ib"} {
		if strings.Contains(low, v) {
			return true
		}
	}
	return false
}

// aggregation says whether a description is that of a SHARP aggregation node, a pseudo-adapter inside a switch.
func aggregation(desc string) bool {
	return strings.Contains(strings.ToLower(desc), "aggregation node")
}

// switchName splits a switch's description "MF0;NAME:MODEL/U1". A part of a director keeps its place:
// "MF0;NAME:MCS8500/L01/U1" is NAME/L01.
func switchName(desc string) (name, model string) {
	desc = strings.TrimSpace(desc)
	rest, ok := strings.CutPrefix(desc, "MF0;")
	if !ok {
		return desc, ""
	}
	name, tail, _ := strings.Cut(rest, ":")
	parts := strings.Split(tail, "/")
	model = parts[0]
	for _, p := range parts[1:] {
		if len(p) > 1 && p[0] == 'U' && digits(p[1:]) {
			continue
		}
		name += "/" + p
	}
	return strings.TrimSpace(name), model
}
