package validate

import (
	"regexp"
	"slices"
	"strconv"
)

// netUse is how a rank reached other nodes, from NCCL's log.
type netUse struct {
	Transports []string `json:"transports,omitempty"` // "NET/IB/GDRDMA", "NET/Socket", of connections over the network
	NICs       []string `json:"nics,omitempty"`       // "mlx5_0"
}

// "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>" numbers the devices that "via NET/IB/1/GDRDMA"
// speaks of.
var (
	usingLine = regexp.MustCompile(`NET/(IB|Socket) ?: Using ([^\n;]{1,1000})`)
	deviceTag = regexp.MustCompile(`\[([0-9]{1,3})\]([A-Za-z0-9_.-]{1,32})`)
	netVia    = regexp.MustCompile(` via (NET/[A-Za-z0-9_ ]{1,24}/([0-9]{1,3})(?:\([0-9]{1,3}\))?(?:/[A-Za-z0-9_()]{1,24}){0,2})`)
)

// readNetUse adds what a piece of the log says. names collects the devices' names over all pieces.
func (u *netUse) readNetUse(log []byte, names map[int]string) {
	for _, m := range usingLine.FindAllSubmatch(log, -1) {
		for _, d := range deviceTag.FindAllSubmatch(m[2], -1) {
			if i, err := strconv.Atoi(string(d[1])); err == nil {
				names[i] = string(d[2])
			}
		}
	}
	for _, m := range netVia.FindAllSubmatch(log, -1) {
		if t := transport(string(m[1])); !slices.Contains(u.Transports, t) && len(u.Transports) < 16 {
			u.Transports = append(u.Transports, t)
		}
		i, _ := strconv.Atoi(string(m[2]))
		if n := names[i]; n != "" && !slices.Contains(u.NICs, n) && len(u.NICs) < 64 {
			u.NICs = append(u.NICs, n)
		}
	}
	slices.Sort(u.Transports)
	slices.Sort(u.NICs)
}
