package nvml

import (
	"fmt"
	"slices"
	"strings"

	"rankmap/internal/units"
	"rankmap/topology"
)

// link is one NVLink of one GPU.
type link struct {
	up     bool
	known  bool // its state could be read
	remote RemoteType
	peer   int // GPU at the other end, -1 none or hidden
	hidden bool
	rate   units.Bandwidth
}

// readLinks reads the links of a device by their state. A device without NVLink does not support the question; links
// past the last one are invalid, not supported or, with some drivers, forever off.
func (w *walker) readLinks(dev int) {
	count, counted := MaxLinks, false
	if n, err := w.api.LinkCount(dev); err == nil && n > 0 && n <= MaxLinks { // 0 is what some virtual machines say
		count, counted = n, true
	}
	var links []link
	version := 0
	last := -1
	for l := range count {
		up, err := w.api.LinkState(dev, l)
		if err != nil {
			var what = fmt.Sprintf("state of NVLink %d", l)
			if !absent(err) {
				w.miss(dev, what, err)
			}
			links = append(links, link{peer: -1})
			continue
		}
		x := link{up: up, known: true, remote: RemoteUnknown, peer: -1}
		if up {
			last = l
			w.remote(dev, l, &x)
			if v, err := w.api.LinkVersion(dev, l); err == nil {
				version = max(version, v)
			}
			if r, err := w.api.LinkSpeed(dev, l); err == nil && r > 0 && r < units.GBps(1000) {
				x.rate = r
			}
		}
		links = append(links, x)
	}
	if !counted { // what lies behind the last link that is up need not exist
		links = links[:last+1]
	}
	w.links[dev] = links
	up, off := 0, 0
	for i := range links {
		if links[i].up {
			up++
		} else if links[i].known {
			off++
		}
	}
	g := &w.res.Node.GPUs[dev]
	g.NVLinksUp = up
	switch {
	case off > 0:
		w.fact(fmt.Sprintf("GPU%d NVLinks up", dev), fmt.Sprintf("%d, down %d%s", up, off, rateText(slowest(links))))
	case up > 0:
		w.fact(fmt.Sprintf("GPU%d NVLinks up", dev), fmt.Sprintf("%d%s", up, rateText(slowest(links))))
	}
	if version > 0 {
		w.fact(fmt.Sprintf("GPU%d NVLink version", dev), versionText(version))
	}
}

// versionText names NVML's version codes (NVML_NVLINK_VERSION_*).
func versionText(v int) string {
	words := []string{"", "1.0", "2.0", "2.2", "3.0", "3.1", "4.0", "5.0"}
	if v > 0 && v < len(words) {
		return words[v]
	}
	return fmt.Sprintf("code %d", v)
}

func absent(err error) bool {
	e, ok := err.(*Error)
	return ok && (e.Code == CodeInvalidArgument || e.Code == CodeNotSupported || e.Code == CodeNoFunction)
}

// slowest is the rate of the slowest link that is up; 0 unknown.
func slowest(links []link) units.Bandwidth {
	var r units.Bandwidth
	for i := range links {
		if l := &links[i]; l.up && l.rate > 0 && (r == 0 || l.rate < r) {
			r = l.rate
		}
	}
	return r
}

// remote finds what a link ends at. An address of all f is hidden by a hypervisor.
func (w *walker) remote(dev, l int, x *link) {
	if t, err := w.api.LinkRemoteType(dev, l); err == nil {
		x.remote = t
	}
	pci, err := w.api.LinkRemotePCI(dev, l)
	if err != nil || hiddenPCI(pci) {
		x.hidden = true
		return
	}
	id, ok := normalPCI(pci)
	if !ok {
		x.hidden = true
		return
	}
	for i := range w.res.Node.GPUs {
		if i != dev && w.res.Node.GPUs[i].PCI == id {
			x.peer = i
		}
	}
	// Devices after this one are not read yet: their addresses are asked here.
	for i := dev + 1; x.peer < 0 && i < len(w.res.Node.GPUs); i++ {
		if s, err := w.api.PCI(i); err == nil {
			if o, ok := normalPCI(s); ok && o == id {
				x.peer = i
			}
		}
	}
	if x.peer >= 0 && x.remote == RemoteUnknown {
		x.remote = RemoteGPU
	}
}

// hiddenPCI recognises the address of a device that a virtual machine must not see: all f, in 7 or 8 digits.
func hiddenPCI(s string) bool {
	digits := strings.Map(func(r rune) rune {
		if r == ':' || r == '.' {
			return -1
		}
		return r
	}, strings.ToLower(s))
	digits = strings.TrimSuffix(digits, "0") // the function
	return strings.Trim(digits, "f") == ""
}

// pairs makes bundles of links. Behind NVSwitch every two GPUs share the smaller of their numbers of links; direct
// links count by their peer. Where the remote ends are hidden, two GPUs are each other's peers, and more are only
// joined as the driver says that NVLink works between them; how many links a pair has is then known only if every
// GPU reaches every other through what must be a switch.
func (w *walker) pairs() {
	k := &w.res.Node
	n := len(k.GPUs)
	switched, hidden, any := false, false, false
	for d := range w.links {
		for i := range w.links[d] {
			l := &w.links[d][i]
			if !l.up {
				continue
			}
			any = true
			switched = switched || l.remote == RemoteSwitch
			hidden = hidden || l.hidden && l.remote != RemoteSwitch && l.remote != RemoteIBMNPU
		}
	}
	switch {
	case !any:
		return
	case switched:
		k.Wiring = topology.NVLinkSwitched
		w.shared(func(a, b int) int { return min(w.toSwitch(a), w.toSwitch(b)) })
	case !hidden:
		w.shared(func(a, b int) int { return min(w.direct(a, b), w.direct(b, a)) })
	case n == 1:
	case n == 2:
		w.shared(func(a, b int) int { return min(k.GPUs[a].NVLinksUp, k.GPUs[b].NVLinksUp) })
	default:
		k.Wiring = topology.NVLinkUnknown
		w.res.NVLinkUnclear = true
		w.res.Warnings = append(w.res.Warnings, "nvml: NVLinks are up and their remote ends are hidden (virtualised): which GPUs they join is unknown")
	}
	for _, l := range k.NVLinks {
		if l.Count != 0 || l.Down == 0 {
			continue
		}
		w.fact(fmt.Sprintf("GPU%d NVLinks to GPU%d", l.A, l.B), "all down")
	}
}

func (w *walker) toSwitch(dev int) (n int) {
	for i := range w.links[dev] {
		if l := &w.links[dev][i]; l.up && (l.remote == RemoteSwitch || l.peer < 0 && l.remote == RemoteUnknown) {
			n++
		}
	}
	return n
}

func (w *walker) direct(a, b int) (n int) {
	for i := range w.links[a] {
		if l := &w.links[a][i]; l.up && l.peer == b {
			n++
		}
	}
	return n
}

// shared adds a bundle for each pair with links.
func (w *walker) shared(count func(a, b int) int) {
	k := &w.res.Node
	for a := range k.GPUs {
		for b := a + 1; b < len(k.GPUs); b++ {
			c := count(a, b)
			if c == 0 {
				continue
			}
			rate := slowest(w.links[a])
			if r := slowest(w.links[b]); r > 0 && (rate == 0 || r < rate) {
				rate = r
			}
			k.NVLinks = append(k.NVLinks, topology.NVLink{A: a, B: b, Count: c, PerLink: rate, Down: w.down(a, b)})
		}
	}
	slices.SortFunc(k.NVLinks, func(x, y topology.NVLink) int {
		if x.A != y.A {
			return x.A - y.A
		}
		return x.B - y.B
	})
}

// down is how many links of a pair of two GPUs are off: only where they are each other's only peers is that known.
func (w *walker) down(a, b int) int {
	if len(w.links) != 2 {
		return 0
	}
	off := func(d int) (n int) {
		for i := range w.links[d] {
			if l := &w.links[d][i]; l.known && !l.up {
				n++
			}
		}
		return n
	}
	return max(off(a), off(b))
}
