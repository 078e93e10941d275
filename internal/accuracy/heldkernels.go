package accuracy

import (
	"slices"

	"rankmap/collective"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
)

// Splits for the kernels of frameworks and of expert-parallel libraries.

// distinct lists the values of a key among rows, sorted.
func distinct[K ~string | ~int](rows []measured.Row, key func(*measured.Row) K) []K {
	var out []K
	for i := range rows {
		if k := key(&rows[i]); !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// filter keeps the rows that pass.
func filter(rows []measured.Row, keep func(*measured.Row) bool) []measured.Row {
	var out []measured.Row
	for i := range rows {
		if keep(&rows[i]) {
			out = append(out, rows[i])
		}
	}
	return out
}

// CustomVersionLeftOut leaves out each version of each framework's all-reduce in turn, where a system has several, and
// scores the launches from a graph.
func (h *HeldOut) CustomVersionLeftOut() []Case {
	var cases []Case
	for _, system := range distinct(h.custom, func(r *measured.Row) string { return r.Hardware }) {
		own := filter(h.custom, func(r *measured.Row) bool { return r.Hardware == system })
		for _, library := range distinct(own, func(r *measured.Row) string { return r.Library }) {
			rows := filter(own, func(r *measured.Row) bool { return r.Library == library })
			for _, v := range distinct(rows, func(r *measured.Row) string { return r.Version }) {
				train := filter(rows, func(r *measured.Row) bool { return r.Version != v })
				p := *h.base.profiles.Collective(system)
				k := collective.FitCustom(library, p.LinkGBps, customSamples(train))
				if k == nil {
					continue
				}
				p.Custom = append(slices.DeleteFunc(slices.Clone(p.Custom), func(o hardware.CustomAllReduce) bool { return o.Kernel == library }), *k)
				test := filter(rows, func(r *measured.Row) bool { return r.Version == v && r.Launch == measured.LaunchGraph })
				cases = append(cases, h.score(h.base.profiles.With(&p), test)...)
			}
		}
	}
	return cases
}

func customSamples(rows []measured.Row) []collective.CustomSample {
	out := make([]collective.CustomSample, len(rows))
	for i := range rows {
		r := &rows[i]
		out[i] = collective.CustomSample{Version: r.Version, Ranks: r.Ranks, Bytes: r.Bytes, Eager: r.Launch == measured.LaunchEager, Time: r.Time}
	}
	return out
}

// ExchangeLeftOut leaves out the rows of one library's exchange with each value of a key in turn (the group's size, the
// hidden size, the node count), system by system and kernel by kernel; nodes chooses the groups over several nodes.
func (h *HeldOut) ExchangeLeftOut(library string, nodes bool, key func(*measured.Row) int) []Case {
	var cases []Case
	class := func(r *measured.Row) string { return r.Hardware + " " + r.Kernel + " " + r.Exchange.Phase }
	of := filter(h.moe, func(r *measured.Row) bool { return r.Library == library && r.Origin == "" && overNodes(r) == nodes })
	for _, name := range distinct(of, class) {
		rows := filter(of, func(r *measured.Row) bool { return class(r) == name })
		values := distinct(rows, key)
		if len(values) < 2 {
			continue
		}
		for _, v := range values {
			if p := h.withoutExchange(rows, func(r *measured.Row) bool { return key(r) == v }); p != nil {
				cases = append(cases, h.score(h.base.profiles.With(p), filter(rows, func(r *measured.Row) bool { return key(r) == v }))...)
			}
		}
	}
	return cases
}

// withoutExchange fits one kernel again without some rows; nil when too few remain or the GPU is unknown.
func (h *HeldOut) withoutExchange(rows []measured.Row, out func(*measured.Row) bool) *hardware.CollectiveProfile {
	first := &rows[0]
	shipped := h.base.profiles.Collective(first.Hardware)
	sheet, err := h.base.catalog.GPU(first.Hardware)
	if err != nil || shipped == nil {
		return nil
	}
	mode, kernel := exchangeMode(first)
	var samples []collective.ExchangeSample
	for i := range rows {
		if r := &rows[i]; !out(r) {
			samples = append(samples, collective.ExchangeSample{Exchange: exchangeOf(r), Time: r.Time})
		}
	}
	if overNodes(first) {
		mode += "_nodes"
	}
	k := collective.FitDispatch(mode, first.Exchange.Phase, kernel, shipped.LinkGBps, sheet.SMs, samples)
	if k == nil {
		return nil
	}
	p := *shipped
	p.Dispatch = append(slices.DeleteFunc(slices.Clone(p.Dispatch), func(o hardware.DispatchKernel) bool {
		return o.Mode == k.Mode && o.Phase == k.Phase && o.Kernel == k.Kernel
	}), *k)
	return &p
}
