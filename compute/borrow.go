package compute

import "rankmap/internal/hardware"

// Borrow gives plans the grouped decode kernel where a GPU's table ran the multi-head kernel for every shape (GB200,
// library 1.3.0rc10: time follows the query heads): the record of the family's GPU whose table has the grouped path,
// times scaled by the clock. The table's own record moves to DecodeTable, which only scoring uses.
func Borrow(from []Fitting) {
	for _, f := range from {
		fw := f.Kernels.Frameworks[DefaultFramework]
		if fw == nil || fw.DecodeTable != nil || grouped(fw.Decode) {
			continue
		}
		d := deriver{g: f.GPU, fam: familyOf(f.GPU), used: map[string]bool{}}
		for _, o := range from {
			if x := o.Kernels.Frameworks[DefaultFramework]; o.GPU != f.GPU && x != nil && grouped(x.Decode) {
				d.from = append(d.from, o)
			}
		}
		if len(d.from) == 0 {
			continue
		}
		fw.DecodeTable = fw.Decode
		fw.Decode = map[string]hardware.Decode{}
		derive(&d, fw.Decode, func(k *hardware.Kernels) map[string]hardware.Decode {
			return k.Frameworks[DefaultFramework].Decode
		})
	}
}

// grouped says whether some record uses the grouped path.
func grouped(m map[string]hardware.Decode) bool {
	for _, r := range m {
		if r.MaxGroup > 0 {
			return true
		}
	}
	return false
}
