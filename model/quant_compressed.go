package model

import "strings"

// compressedTensors reads config_groups: what each group's targets are stored as.
func (b *builder) compressedTensors(o *object, q *quantisation) {
	groups := o.get("config_groups").object()
	if groups == nil {
		b.warnf("quantization_config has no config_groups: weights counted as not quantised")
		return
	}
	q.only = true
	for _, k := range groups.keys {
		g := groups.at[k].object()
		st, ok := groupStorage(g.get("weights").object(), g.get("format").text()+o.get("format").text())
		if !ok {
			continue
		}
		q.on = true
		for _, t := range g.get("targets").list() {
			if name := t.text(); name == "Linear" {
				q.base, q.only = st, false
			} else {
				r := b.pattern(name)
				r.store = st
				q.include = append(q.include, r)
			}
		}
	}
}

// groupStorage reads the "weights" object of compressed-tensors.
func groupStorage(w *object, format string) (Storage, bool) {
	if w == nil {
		return Storage{}, false
	}
	bits, group := 0, 0
	if n := w.get("num_bits"); n != nil {
		bits, _ = n.whole()
	}
	if n := w.get("group_size"); n != nil {
		group, _ = n.whole()
	}
	float := w.get("type").text() == "float"
	strategy := w.get("strategy").text()
	switch {
	case bits == 4 && float && strings.Contains(format, "mxfp4"):
		return storeMXFP4, true
	case bits == 4 && float:
		st := storeNVFP4
		if group > 0 {
			st.Group = group
		}
		return st, true
	case bits == 8 && float && strategy == "block":
		st := storeFP8Block
		if bs := w.get("block_structure").list(); len(bs) == 2 {
			r, okR := bs[0].whole()
			c, okC := bs[1].whole()
			if okR && okC && r > 0 && c > 0 {
				st.BlockOut, st.Group = r, c
			}
		}
		return st, true
	case bits == 8 && float && strategy == "tensor":
		return storeFP8Tensor, true
	case bits == 8 && float:
		return Storage{Format: FP8, ScaleBytes: 2}, true
	case bits == 8:
		return Storage{Format: INT8, ScaleBytes: 2, Group: max(group, 0)}, true
	case bits == 4:
		sym, _ := w.get("symmetric").boolean()
		return Storage{Format: INT4, Group: max(group, 0), ScaleBytes: 2, ZeroPoints: !sym}, true
	}
	return Storage{}, false
}
