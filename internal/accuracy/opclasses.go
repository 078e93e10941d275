package accuracy

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"

	"rankmap/compute"
)

// OpClass sums up the computations of one kind, compute type (with the cache type for attention) and system, apart for
// rows that took part in the fit of the shipped records and rows that did not.
type OpClass struct {
	Op      string `json:"op" yaml:"op"`
	DType   string `json:"dtype" yaml:"dtype"`
	System  string `json:"system" yaml:"system"`
	HeldOut bool   `json:"heldOut" yaml:"heldOut"` // false also for rows of tables that no record was fitted to
	Stats   `yaml:",inline"`
}

// opKey is what an OpClass is about.
type opKey struct {
	op, dtype, system string
	heldOut           bool
}

// OpClasses groups the cases that are computations, sorted by kind, type, system; "all" stands for every type or system.
func OpClasses(cases []Case) []OpClass {
	groups := map[opKey][]Case{}
	for i := range cases {
		c := &cases[i]
		if c.Op == nil {
			continue
		}
		dtype := c.Op.DType
		if c.Op.Cache != "" {
			dtype += "/" + c.Op.Cache
		}
		held := c.Op.Framework == compute.DefaultFramework && compute.HeldOut(c.Op)
		for _, k := range []opKey{{c.Op.Kind, dtype, c.System, held}, {c.Op.Kind, "all", c.System, held}, {c.Op.Kind, "all", "all", held}} {
			groups[k] = append(groups[k], *c)
		}
	}
	out := make([]OpClass, 0, len(groups))
	for k, cs := range groups {
		out = append(out, OpClass{k.op, k.dtype, k.system, k.heldOut, Score(cs, Ours)})
	}
	slices.SortFunc(out, func(a, b OpClass) int {
		return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.System, b.System), cmp.Compare(a.DType, b.DType), cmp.Compare(heldOrder(a), heldOrder(b)))
	})
	return out
}

// heldOrder puts held-out rows first.
func heldOrder(c OpClass) int {
	if c.HeldOut {
		return 0
	}
	return 1
}

// WriteOpClasses prints them as a table; nothing when there are none.
func WriteOpClasses(w io.Writer, classes []OpClass) error {
	if len(classes) == 0 {
		return nil
	}
	b := bufio.NewWriter(w)
	t := grid{head: []string{"op", "dtype", "system", "rows", "n", "median / p90", "bias", "in 80 %"}}
	for _, c := range classes {
		rows := "fitted"
		if c.HeldOut {
			rows = "held out"
		}
		t.rows = append(t.rows, []string{c.Op, c.DType, c.System, rows, fmt.Sprint(c.N), pair(c.Stats), signed(c.Bias), percents(c.Coverage)})
	}
	t.write(b)
	return b.Flush()
}
