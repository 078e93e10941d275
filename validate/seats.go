package validate

import (
	"cmp"
	"strconv"
	"strings"
)

// resolveSeats gives every rank of this node the UUID of its GPU, so that the driver, CUDA and NCCL speak of the same one.
// The layout's UUID or PCI id wins; a bare index counts the GPUs that CUDA_VISIBLE_DEVICES shows, in its order, as CUDA does.
// Ranks that cannot be resolved stay as they are: preflight names them.
func resolveSeats(ranks []JobRank, n *NodeFacts, visible string) []JobRank {
	shown := visibleGPUs(n, visible)
	out := make([]JobRank, len(ranks))
	for i, r := range ranks {
		out[i] = r
		if r.UUID != "" {
			continue
		}
		if r.PCI != "" {
			if k := n.find(r); k >= 0 {
				out[i].UUID = n.GPUs[k].UUID
			}
			continue
		}
		if r.GPU < len(shown) {
			out[i].UUID, out[i].PCI = n.GPUs[shown[r.GPU]].UUID, n.GPUs[shown[r.GPU]].PCI
		}
	}
	return out
}

// visibleGPUs reads CUDA_VISIBLE_DEVICES as CUDA does: a list of indices (in PCI order, see ChildEnv) or unambiguous UUID
// prefixes; the first entry that means no GPU ends it. Unset shows all.
func visibleGPUs(n *NodeFacts, visible string) []int {
	var all []int
	for i := range n.GPUs {
		all = append(all, i)
	}
	if visible == "" {
		return all
	}
	var shown []int
	for part := range strings.SplitSeq(visible, ",") {
		part = strings.TrimSpace(part)
		k := -1
		if v, err := strconv.Atoi(part); err == nil {
			if v >= 0 && v < len(n.GPUs) {
				k = v
			}
		} else if len(part) > len("GPU-") {
			matches := 0
			for i, g := range n.GPUs {
				if strings.HasPrefix(strings.ToLower(g.UUID), strings.ToLower(part)) {
					k = i
					matches++
				}
			}
			if matches > 1 {
				k = -1
			}
		}
		if k < 0 {
			break
		}
		shown = append(shown, k)
	}
	return shown
}

// ByIndex drops the UUIDs and PCI ids of a layout, so that its GPUs are matched by index: for a layout that was made on
// another machine of the same kind.
func (j *Job) ByIndex() {
	for i := range j.Ranks {
		j.Ranks[i].UUID, j.Ranks[i].PCI = "", ""
	}
}

// wanted names the GPU of a rank in messages.
func (r JobRank) wanted() string {
	return cmp.Or(r.UUID, r.PCI, "GPU "+strconv.Itoa(r.GPU))
}
