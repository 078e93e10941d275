package source

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rankmap/topology"
)

// visible restricts the node to the GPUs that CUDA_VISIBLE_DEVICES names, in its order: position i is then CUDA device
// i, and GPU.Index stays the driver's number.
func (l *liveReader) visible() error {
	env, ok := l.c.Env["CUDA_VISIBLE_DEVICES"]
	if !ok || env == "" {
		return nil
	}
	order, err := VisibleGPUs(env, l.node.GPUs)
	if err != nil {
		l.a.warn(l.say(err.Error()))
	}
	if len(order) == 0 {
		return fmt.Errorf("CUDA_VISIBLE_DEVICES=%s hides every GPU: unset it", env)
	}
	if mixed(l.node.GPUs) && !slices.ContainsFunc(strings.Split(env, ","), isUUID) && l.c.Env["CUDA_DEVICE_ORDER"] != "PCI_BUS_ID" {
		l.a.warn(l.say("CUDA_VISIBLE_DEVICES names GPUs by number and their models differ: CUDA numbers the fastest first unless CUDA_DEVICE_ORDER=PCI_BUS_ID, the driver by PCI address"))
	}
	all := len(l.node.GPUs)
	*l.node = subset(l.node, order)
	l.facts = append(l.facts, topology.Fact{What: "GPUs visible", Value: fmt.Sprintf("%d of %d, in the order of CUDA_VISIBLE_DEVICES=%s", len(order), all, env), Source: "environment"})
	return nil
}

func mixed(gpus []topology.GPU) bool {
	return slices.ContainsFunc(gpus, func(g topology.GPU) bool { return g.Name != gpus[0].Name })
}

func isUUID(s string) bool {
	s = strings.TrimSpace(s)
	return strings.HasPrefix(s, "GPU-") || strings.HasPrefix(s, "MIG-")
}

// VisibleGPUs reads CUDA_VISIBLE_DEVICES as CUDA does: numbers and UUIDs, the latter also shortened to a unique
// beginning, up to the first entry that names no GPU; what stands behind it is hidden, and the error says so. An entry
// that stands twice makes CUDA fail: no GPU is visible.
func VisibleGPUs(env string, gpus []topology.GPU) (order []int, err error) {
	for _, entry := range strings.Split(env, ",") {
		entry = strings.TrimSpace(entry)
		at := findGPU(entry, gpus)
		switch {
		case at == notFound && len(order) == 0:
			return nil, fmt.Errorf("CUDA_VISIBLE_DEVICES=%s: %q names no GPU", env, entry)
		case at == notFound:
			return order, fmt.Errorf("CUDA_VISIBLE_DEVICES=%s: %q names no GPU: it and what follows is hidden", env, entry)
		case at == ambiguous:
			return order, fmt.Errorf("CUDA_VISIBLE_DEVICES=%s: %q begins several UUIDs: it and what follows is hidden", env, entry)
		case slices.Contains(order, at):
			return nil, fmt.Errorf("CUDA_VISIBLE_DEVICES=%s: %q names a GPU again: CUDA shows none", env, entry)
		}
		order = append(order, at)
	}
	return order, nil
}

const (
	notFound  = -1
	ambiguous = -2
)

func findGPU(entry string, gpus []topology.GPU) int {
	if rest, ok := strings.CutPrefix(entry, "MIG-"); ok { // "MIG-GPU-UUID/3/0", or a UUID of its own that names no GPU
		uuid, _, slash := strings.Cut(rest, "/")
		if !slash {
			return notFound
		}
		entry = uuid
	}
	if strings.HasPrefix(entry, "GPU-") {
		at := notFound
		for i := range gpus {
			if len(entry) > len("GPU-") && strings.HasPrefix(strings.ToLower(gpus[i].UUID), strings.ToLower(entry)) {
				if at != notFound {
					return ambiguous
				}
				at = i
			}
		}
		return at
	}
	n, err := strconv.Atoi(entry)
	if err != nil || n < 0 {
		return notFound
	}
	return slices.IndexFunc(gpus, func(g topology.GPU) bool { return g.Index == n })
}

// subset is the node with some of its GPUs, in the given order.
func subset(n *topology.NodeClass, order []int) topology.NodeClass {
	out := *n
	out.GPUs, out.NVLinks = nil, nil
	to := map[int]int{}
	for i, at := range order {
		out.GPUs = append(out.GPUs, n.GPUs[at])
		to[at] = i
	}
	for _, l := range n.NVLinks {
		a, okA := to[l.A]
		b, okB := to[l.B]
		if okA && okB {
			l.A, l.B = min(a, b), max(a, b)
			out.NVLinks = append(out.NVLinks, l)
		}
	}
	slices.SortFunc(out.NVLinks, func(x, y topology.NVLink) int {
		if x.A != y.A {
			return x.A - y.A
		}
		return x.B - y.B
	})
	square := func(m [][]topology.PathKind) [][]topology.PathKind {
		if m == nil {
			return nil
		}
		r := unknownPaths(len(order), len(order))
		for i, a := range order {
			for j, b := range order {
				r[i][j] = m[a][b]
			}
		}
		return r
	}
	out.GPUPaths, out.PCIePaths = square(n.GPUPaths), square(n.PCIePaths)
	if n.NICPaths != nil {
		out.NICPaths = nil
		for _, a := range order {
			out.NICPaths = append(out.NICPaths, n.NICPaths[a])
		}
	}
	return out
}
