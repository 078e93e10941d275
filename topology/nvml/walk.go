package nvml

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rankmap/internal/units"
	"rankmap/topology"
)

// maxGPUs bounds the GPUs of one host.
const maxGPUs = 256

// Result is what the driver says about a host.
type Result struct {
	Node     topology.NodeClass
	Facts    []topology.Fact
	Warnings []string // what could not be read, each once for all devices
	// Unhealthy tells of GPUs whose NVLink fabric reports trouble, "GPU 3: route unhealthy".
	Unhealthy []string
	// Trouble tells of GPUs that do not answer, "GPU 3 is lost".
	Trouble []string
	// NVLinkUnclear says that links are up and their remote ends are hidden, so that the pairs need another source.
	NVLinkUnclear bool
}

// Walk asks everything about every device. The error says that not even the number of devices is known.
func Walk(api API) (*Result, error) {
	n, err := api.Count()
	if err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, &Unavailable{Why: "the driver is loaded and lists no GPU", Hint: "in a container, give it GPUs (--gpus all); see nvidia-smi -L"}
	}
	if n > maxGPUs {
		return nil, fmt.Errorf("the driver lists %d GPUs, want at most %d", n, maxGPUs)
	}
	w := &walker{api: api, res: &Result{}, missed: map[string][]int{}, links: make([][]link, n)}
	w.versions()
	w.res.Node.GPUs = make([]topology.GPU, n)
	for i := range n {
		w.device(i)
	}
	w.paths()
	w.peers()
	w.lost()
	w.pairs()
	w.cliques()
	w.report()
	return w.res, nil
}

// walker holds one Walk.
type walker struct {
	api    API
	res    *Result
	links  [][]link
	missed map[string][]int // question and reason -> devices
	order  []string

	lostPairs map[[2]int]bool // a < b
}

func (w *walker) fact(what, value string) {
	if value != "" {
		w.res.Facts = append(w.res.Facts, topology.Fact{What: what, Value: value, Source: "nvml"})
	}
}

func (w *walker) versions() {
	if v, err := w.api.DriverVersion(); err == nil {
		w.fact("driver version", v)
	}
	if v, err := w.api.LibraryVersion(); err == nil {
		w.fact("NVML version", v)
	}
}

// miss notes an answer that did not come. What a device does not support is nothing to tell; a lost device is bad.
func (w *walker) miss(dev int, what string, err error) {
	var e *Error
	if errors.As(err, &e) {
		switch e.Code {
		case CodeNotSupported, CodeNoFunction:
			return
		case CodeLost, CodeResetRequired:
			w.bad(dev, map[int]string{CodeLost: "the GPU is lost: it fell off the bus", CodeResetRequired: "the GPU needs a reset"}[e.Code])
			return
		}
	}
	key := what + ": " + err.Error()
	if w.missed[key] == nil {
		w.order = append(w.order, key)
	}
	if !slices.Contains(w.missed[key], dev) {
		w.missed[key] = append(w.missed[key], dev)
	}
}

// missPair notes a question about two devices without an answer. Which of them is lost, lost tells.
func (w *walker) missPair(a, b int, what string, err error) {
	var e *Error
	if errors.As(err, &e) && (e.Code == CodeLost || e.Code == CodeResetRequired) {
		if w.lostPairs == nil {
			w.lostPairs = map[[2]int]bool{}
		}
		w.lostPairs[[2]int{min(a, b), max(a, b)}] = true
		return
	}
	w.miss(a, what+" to some GPUs", err)
}

// lost finds the devices that were lost after their own questions: every question with another device fails.
func (w *walker) lost() {
	gpus := w.res.Node.GPUs
	var found []int
	for d := range gpus {
		others, failed := 0, 0
		for o := range gpus {
			if o != d && gpus[o].Bad == "" {
				others++
				failed += map[bool]int{true: 1}[w.lostPairs[[2]int{min(d, o), max(d, o)}]]
			}
		}
		if gpus[d].Bad == "" && others > 1 && failed == others {
			found = append(found, d)
		} else if gpus[d].Bad == "" && others == 1 && failed == 1 {
			w.miss(d, "answer about pairs", errors.New("one of the two GPUs is lost"))
		}
	}
	for _, d := range found {
		w.bad(d, "the GPU is lost: it fell off the bus")
	}
}

func (w *walker) bad(dev int, why string) {
	if g := &w.res.Node.GPUs[dev]; g.Bad == "" {
		g.Bad = why
		w.res.Trouble = append(w.res.Trouble, fmt.Sprintf("GPU %d: %s", dev, why))
	}
}

func (w *walker) report() {
	for _, key := range w.order {
		var who []string
		for _, d := range w.missed[key] {
			who = append(who, strconv.Itoa(d))
		}
		w.res.Warnings = append(w.res.Warnings, fmt.Sprintf("nvml: GPU %s: no %s", strings.Join(who, ", "), key))
	}
}

// ask gets one answer of a device; the zero value where there is none.
func ask[T any](w *walker, dev int, what string, get func(int) (T, error)) (v T, ok bool) {
	v, err := get(dev)
	if err != nil {
		w.miss(dev, what, err)
		var zero T
		return zero, false
	}
	return v, true
}

func (w *walker) device(i int) {
	g := &w.res.Node.GPUs[i]
	*g = topology.GPU{Index: i, NUMA: -1, GPUNUMA: -1}
	at := fmt.Sprintf("GPU%d ", i)
	g.Name, _ = ask(w, i, "name", w.api.Name)
	g.UUID, _ = ask(w, i, "UUID", w.api.UUID)
	if s, ok := ask(w, i, "PCI address", w.api.PCI); ok {
		if id, ok := normalPCI(s); ok {
			g.PCI = id
		} else {
			w.miss(i, "PCI address", fmt.Errorf("%q is none", s))
		}
	}
	g.Memory, _ = ask(w, i, "memory", w.api.Memory)
	cc, _ := ask(w, i, "compute capability", w.api.Compute)
	g.ComputeMajor, g.ComputeMinor = cc.Major, cc.Minor
	g.MIG, _ = ask(w, i, "MIG mode", w.api.MIG)
	for _, f := range []struct {
		what PCIeField
		into *int
		most int
	}{{PCIeGen, &g.PCIe.Gen, 7}, {PCIeMaxGen, &g.PCIe.MaxGen, 7}, {PCIeWidth, &g.PCIe.Width, 32}, {PCIeMaxWidth, &g.PCIe.MaxWidth, 32}} {
		v, ok := ask(w, i, "PCIe "+string(f.what), func(d int) (int, error) { return w.api.PCIe(d, f.what) })
		if ok && v > 0 && v <= f.most { // some virtual machines answer 0 or 255
			*f.into = v
		}
	}
	if v, ok := ask(w, i, "NUMA node", w.api.NUMA); ok && v >= 0 {
		g.NUMA = v
		w.fact(at+"NUMA", strconv.Itoa(v))
	}
	if v, ok := ask(w, i, "GPU NUMA node", w.api.GPUNUMA); ok && v >= 0 {
		g.GPUNUMA = v
	}
	g.CPUAffinity, _ = ask(w, i, "CPU affinity", w.api.CPUs)
	w.fact(at+"name", g.Name)
	w.fact(at+"UUID", g.UUID)
	w.fact(at+"PCI", g.PCI)
	w.fact(at+"CPU affinity", g.CPUAffinity)
	if g.Memory > 0 {
		w.fact(at+"memory", g.Memory.String())
	}
	if g.MIG {
		w.fact(at+"MIG", "on")
	}
	w.fabric(i, g)
	w.readLinks(i)
}

// normalPCI brings an address to 8 digits of domain and lower case.
func normalPCI(s string) (string, bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == ':' || r == '.' })
	if len(parts) != 4 || strings.Count(s, ":") != 2 {
		return "", false
	}
	var v [4]uint64
	for i, bits := range []int{32, 8, 8, 4} {
		n, err := strconv.ParseUint(parts[i], 16, bits)
		if err != nil {
			return "", false
		}
		v[i] = n
	}
	return fmt.Sprintf("%08x:%02x:%02x.%x", v[0], v[1], v[2], v[3]), true
}

// paths asks how far any two devices are apart on the PCI tree.
func (w *walker) paths() {
	kinds := map[Ancestor]topology.PathKind{AncestorInternal: topology.PathPIX, AncestorSingle: topology.PathPIX, AncestorMultiple: topology.PathPXB,
		AncestorHostBridge: topology.PathPHB, AncestorNode: topology.PathNODE, AncestorSystem: topology.PathSYS}
	n := len(w.res.Node.GPUs)
	m := make([][]topology.PathKind, n)
	for a := range m {
		m[a] = make([]topology.PathKind, n)
		for b := range a {
			v, err := w.api.Ancestor(b, a)
			if err != nil {
				w.missPair(b, a, "distance", err)
				continue
			}
			m[a][b], m[b][a] = kinds[v], kinds[v]
		}
	}
	w.res.Node.GPUPaths = m
}

// peers asks whether copies between GPUs work. One GPU that cannot reach any other has peer-to-peer off.
func (w *walker) peers() {
	n := len(w.res.Node.GPUs)
	for a := range n {
		asked, works := 0, 0
		why := P2PUnknown
		for b := range n {
			if a == b {
				continue
			}
			v, err := w.api.P2P(a, b, P2PRead)
			if err != nil {
				w.missPair(a, b, "P2P status", err)
				continue
			}
			if v == P2PUnknown {
				continue
			}
			if asked++; v == P2POK {
				works++
			} else {
				why = v
			}
		}
		if asked > 0 && works == 0 {
			w.res.Node.GPUs[a].NoP2P = true
			w.fact(fmt.Sprintf("GPU%d P2P", a), "off: "+why.String())
		} else if asked > 0 && works < asked {
			w.fact(fmt.Sprintf("GPU%d P2P", a), fmt.Sprintf("works to %d of %d GPUs: %s", works, asked, why))
		}
	}
}

// rateText prints a link's rate for provenance.
func rateText(b units.Bandwidth) string {
	if b <= 0 {
		return ""
	}
	return ", " + b.String() + " each"
}
