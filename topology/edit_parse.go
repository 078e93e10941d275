package topology

import (
	"fmt"
	"strconv"
	"strings"

	"rankmap/internal/strictyaml"
	"rankmap/internal/units"
)

// ParseDrop reads what to take away: "node3", "node3.gpu5", "node3.nic2", "node3.nvlink0-1", "node3.nvswitch1",
// "rack0.nvswitch3", "leaf:su0", "leaf:su0.rail3". Whether the part exists is for Edit to say; rack0 is taken for a
// node where c has a node of that name.
func ParseDrop(s string, c *Cluster) (Edit, error) {
	e := Edit{GPU: -1, Peer: -1, NIC: -1, Rail: -1, Text: "drop " + s}
	if leaf, ok := strings.CutPrefix(s, "leaf:"); ok {
		e.Kind, e.Leaf = DropLeaf, leaf
		if i := strings.LastIndex(leaf, ".rail"); i >= 0 {
			rail, err := strconv.Atoi(leaf[i+len(".rail"):])
			if err != nil || rail < 0 {
				return e, fmt.Errorf("drop %q: want a rail number at the end", s)
			}
			e.Leaf, e.Rail = leaf[:i], rail
		}
		return e, nil
	}
	if _, ok := c.FindNode(s); ok { // host names may hold dots
		e.Kind, e.Node = DropNode, s
		return e, nil
	}
	host, part, found := cutLast(s, ".")
	e.Node = host
	if !found {
		e.Kind = DropNode
		return e, nil
	}
	for _, k := range []struct {
		word string
		kind EditKind
		into *int
	}{{"gpu", DropGPU, &e.GPU}, {"nic", DropNIC, &e.NIC}, {"nvswitch", DropNVSwitch, &e.Switch}, {"nvlink", DropNVLink, &e.GPU}} {
		num, ok := strings.CutPrefix(part, k.word)
		if !ok || num == "" || !digit(num[0]) {
			continue
		}
		e.Kind = k.kind
		var err error
		if k.kind == DropNVLink {
			var other string
			num, other, _ = strings.Cut(num, "-")
			if e.Peer, err = strconv.Atoi(other); err != nil {
				return e, fmt.Errorf("drop %q: want two GPUs, such as nvlink0-1", s)
			}
		}
		if *k.into, err = strconv.Atoi(num); err != nil {
			return e, fmt.Errorf("drop %q: %q is no number", s, num)
		}
		if _, isNode := c.FindNode(host); k.kind == DropNVSwitch && !isNode {
			e.Rack = host
		}
		return e, nil
	}
	return e, fmt.Errorf("drop %q: want HOST, HOST.gpuN, HOST.nicN, HOST.nvlinkA-B, HOST.nvswitchN, RACK.nvswitchN, leaf:NAME or leaf:NAME.railN", s)
}

var settings = []string{"nic.rate", "nvlink.domain", "nvlink.scale"}

// ParseSet reads a setting: "nic.rate=800G", "nvlink.domain=36" (GPUs), "nvlink.scale=2" (all NVLink rates).
func ParseSet(s string) (Edit, error) {
	e := Edit{GPU: -1, Peer: -1, NIC: -1, Rail: -1, Text: "set " + s}
	key, val, ok := strings.Cut(s, "=")
	if !ok {
		return e, fmt.Errorf("set %q: want key=value, such as nic.rate=800G", s)
	}
	var err error
	switch key {
	case "nic.rate":
		e.Kind = SetNICRate
		e.Rate, err = units.ParseRate(val)
	case "nvlink.domain":
		e.Kind = SetDomainSize
		if e.GPUs, err = strconv.Atoi(val); err != nil || e.GPUs < 1 {
			err = fmt.Errorf("%q: want a number of GPUs", val)
		}
	case "nvlink.scale":
		e.Kind = SetLinkScale
		if e.Scale, err = strconv.ParseFloat(val, 64); err != nil || !(e.Scale > 0) {
			err = fmt.Errorf("%q: want a factor above 0", val)
		}
	default:
		return e, fmt.Errorf("set %q: unknown key %q%s", s, key, strictyaml.DidYouMean(key, settings))
	}
	if err != nil {
		return e, fmt.Errorf("set %s: %w", key, err)
	}
	return e, nil
}
