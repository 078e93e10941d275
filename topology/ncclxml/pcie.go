package ncclxml

import (
	"fmt"
	"strconv"
	"strings"

	"rankmap/internal/units"
	"rankmap/topology"
)

// kind is what a pci element stands for.
type kind uint8

const (
	kindUnknown kind = iota
	kindBridge
	kindNVSwitch
	kindPowerCPU // POWER's NVLink bridge to the CPU
	kindGPU
	kindNIC
	kindOther
)

// classPrefix is NCCL's kvDictPciClass (src/graph/topo.cc); the first prefix that fits decides.
var classPrefix = []struct {
	prefix string
	kind   kind
}{
	{"0x060400", kindBridge},
	{"0x080100", kindBridge}, // ConnectX-8 data direct
	{"0x068000", kindNVSwitch},
	{"0x068001", kindPowerCPU},
	{"0x03", kindGPU},
	{"0x02", kindNIC},
	{"0x12", kindGPU}, // RCCL: processing accelerators (MI200, MI300)
}

func classKind(class string) kind {
	for _, c := range classPrefix {
		if strings.HasPrefix(class, c.prefix) {
			return c.kind
		}
	}
	return kindOther
}

// speedPrefix is NCCL's kvDictPciGen (src/graph/topo.cc), value in 100 Mb/s a lane. Matching is by prefix in this
// order, so "16.0 GT/s" without " PCIe" fits none.
var speedPrefix = []struct {
	prefix string
	lane   int
}{
	{"2.5 GT/s", 15}, {"5 GT/s", 30}, {"8 GT/s", 60}, {"16 GT/s", 120}, {"32 GT/s", 240},
	{"2.5 GT/s PCIe", 15}, {"5.0 GT/s PCIe", 30}, {"8.0 GT/s PCIe", 60}, {"16.0 GT/s PCIe", 120},
	{"32.0 GT/s PCIe", 240}, {"64.0 GT/s PCIe", 480},
}

// laneFallback is what NCCL takes for a speed it does not know, Gen3 (last row of kvDictPciGen).
const laneFallback = 60

// genOfLane turns NCCL's lane value into the PCIe generation.
var genOfLane = map[int]int{15: 1, 30: 2, 60: 3, 120: 4, 240: 5, 480: 6}

// NCCLLink returns what NCCL takes a slot for: the generation, the width and the bandwidth one way, width x lane / 80
// GB/s (src/graph/topo.cc, ncclTopoAddPci). A width of 0 counts as 16; a speed NCCL does not know, also "" and
// "16.0 GT/s" without " PCIe", counts as Gen3.
func NCCLLink(speed string, width int) (topology.PCIeLink, units.Bandwidth) {
	lane := laneFallback
	for _, s := range speedPrefix {
		if strings.HasPrefix(speed, s.prefix) {
			lane = s.lane
			break
		}
	}
	if width == 0 {
		width = 16
	}
	return topology.PCIeLink{Gen: genOfLane[lane], Width: width}, units.GBps(float64(width) * float64(lane) / 80)
}

// statedGen is the generation that a speed string states to a reader, 0 when it states none.
func statedGen(speed string) int {
	n, _, ok := strings.Cut(speed, " GT/s")
	if !ok {
		return 0
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(n), 64)
	if err != nil {
		return 0
	}
	for gen, gt := range genSpeed {
		if v == gt {
			return gen
		}
	}
	return 0
}

// genSpeed is the signalling rate of a generation in GT/s (PCI-SIG), index is the generation.
var genSpeed = [...]float64{1: 2.5, 2: 5, 3: 8, 4: 16, 5: 32, 6: 64}

// speedString is the current kernels' spelling of a generation, which NCCL knows.
func speedString(gen int) string {
	if gen < 1 || gen >= len(genSpeed) {
		return ""
	}
	return strconv.FormatFloat(genSpeed[gen], 'f', 1, 64) + " GT/s PCIe"
}

// normalPCI turns "0000:17:00.0" into the form of the topology package, "00000000:17:00.0".
func normalPCI(s string) (string, bool) {
	dom, rest, ok := strings.Cut(s, ":")
	if !ok || len(dom) == 0 || len(dom) > 8 || len(rest) != 7 || rest[2] != ':' || rest[5] != '.' {
		return "", false
	}
	d, err := strconv.ParseUint(dom, 16, 32)
	if err != nil || !isHex(rest[:2]) || !isHex(rest[3:5]) || !isHex(rest[6:]) {
		return "", false
	}
	return fmt.Sprintf("%08x:%s", d, strings.ToLower(rest)), true
}

// shortPCI is sysfs's and NCCL's spelling of a normalised id: four digits of domain where they hold it.
func shortPCI(s string) string {
	if strings.HasPrefix(s, "0000") && len(s) == len("00000000:00:00.0") {
		return s[4:]
	}
	return s
}

// hiddenTarget says whether an NVLink target is the all-ones id of a switch that a virtual machine cannot see
// ("fffffff:ffff:ff", "fffffff:ff:ff.0").
func hiddenTarget(s string) bool {
	t := strings.ToLower(s)
	return strings.HasPrefix(t, "ffff") && strings.Trim(t, "f0:.") == "" && strings.Count(t, "f") >= 8
}

func isHex(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i] | 0x20
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) > 0
}

// deviceID packs the four ids of a pci element as NCCL's ncclTopoGetIntDevice does.
func deviceID(e *element) uint64 {
	var id uint64
	for _, a := range [...]string{"vendor", "device", "subsystem_vendor", "subsystem_device"} {
		s, _ := e.get(a)
		v, _ := strconv.ParseUint(s, 0, 16)
		id = id<<16 | v
	}
	return id
}
