package measured

import (
	"strconv"
	"strings"

	"rankmap/internal/units"
)

// network is a published inter-node link, parsed.
type network struct {
	nics   int
	rate   units.Bandwidth
	fabric string
}

// fabricWords names the fabric by words of the description; the first that is found counts ("TCP over Slingshot" is
// TCP).
var fabricWords = []struct{ word, fabric string }{
	{"TCP", "TCP"},
	{"EFA", "EFA"},
	{"Slingshot", "Slingshot"},
	{"RoCE", "RoCE"},
	{"IB", "InfiniBand"},
	{"CX7", "InfiniBand"},
	{"ConnectX", "InfiniBand"},
}

// parseNetwork reads descriptions such as "8x400G IB NDR", "32x100G EFA", "EFA 400G per GPU", "TCP", "none". The NICs
// count per node and the rate is one way; what is not stated stays 0.
func parseNetwork(s string, gpusPerNode int) network {
	var n network
	if s == "" || strings.HasPrefix(s, "none") {
		return n
	}
	for _, f := range fabricWords {
		if strings.Contains(s, f.word) {
			n.fabric = f.fabric
			break
		}
	}
	for _, w := range strings.Fields(s) {
		count, rate, times := strings.Cut(w, "x")
		if !times {
			count, rate = "", w
		}
		c, cerr := strconv.Atoi(count)
		g, gerr := strconv.ParseFloat(strings.TrimSuffix(rate, "G"), 64)
		isRate := gerr == nil && strings.HasSuffix(rate, "G") && g > 0 && g < 1e5
		switch {
		case times && cerr == nil && c > 0 && c < 1024 && (isRate || rate == ""):
			n.nics = c
			if isRate {
				n.rate = units.Gbps(g)
			}
			return n
		case !times && isRate && strings.Contains(s, "per GPU"):
			n.nics, n.rate = gpusPerNode, units.Gbps(g)
			return n
		}
	}
	return n
}
