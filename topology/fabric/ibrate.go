package fabric

import (
	"strconv"
	"strings"

	"rankmap/internal/units"
)

// laneGbps is the rate of one InfiniBand lane in Gb/s one way, as NCCL counts it (ibvSpeeds in src/transport/net_ib).
var laneGbps = map[string]float64{
	"SDR": 2.5, "DDR": 5, "QDR": 10, "FDR10": 10, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200,
}

// ibRate reads width and speed, "4x" and "NDR"; 0 when either is not known ("???").
func ibRate(width, speed string) units.Bandwidth {
	n, err := strconv.Atoi(strings.TrimSuffix(strings.ToLower(width), "x"))
	if err != nil || n < 1 || n > 64 {
		return 0
	}
	return units.Gbps(float64(n) * laneGbps[strings.ToUpper(speed)])
}

// splitRate splits "4xNDR".
func splitRate(s string) (width, speed string, ok bool) {
	i := strings.IndexByte(s, 'x')
	if i < 1 || i == len(s)-1 {
		return "", "", false
	}
	if _, err := strconv.Atoi(s[:i]); err != nil {
		return "", "", false
	}
	return s[:i+1], s[i+1:], true
}
