package main

import (
	"strings"

	"rankmap/collective"
	"rankmap/internal/hardware"
	"rankmap/internal/measured"
)

// addKernels fits the frameworks' own all-reduces and the expert-parallel exchanges into a system's profile.
func addKernels(p *hardware.CollectiveProfile, gpu *hardware.GPU, tables, exchanges []measured.Row, symmetric []collective.CustomSample) {
	p.Custom, p.Dispatch = nil, nil
	if p.Link != "nvlink" {
		return // with peer access on or off two ranks differ by 2.5 times: not predictable over PCIe
	}
	for _, framework := range []string{"vllm", "sglang", "trtllm"} {
		var samples []collective.CustomSample
		for i := range tables {
			r := &tables[i]
			if r.Hardware == p.System && r.Library == framework && r.Nodes == 1 {
				samples = append(samples, collective.CustomSample{Version: r.Version, Ranks: r.Ranks, Bytes: r.Bytes,
					Eager: strings.HasSuffix(r.Kernel, "_eager"), Time: r.Time})
			}
		}
		if k := collective.FitCustom(framework, p.LinkGBps, samples); k != nil {
			p.Custom = append(p.Custom, *k)
		}
	}
	if p.System == symmetricSystem {
		if k := collective.FitCustom("symm", p.LinkGBps, symmetric); k != nil {
			p.Custom = append(p.Custom, *k)
		}
	}
	for _, k := range exchangeKinds(exchanges, p.System) {
		if fit := collective.FitDispatch(k.mode, k.phase, k.kernel, p.LinkGBps, gpu.SMs, k.samples); fit != nil {
			p.Dispatch = append(p.Dispatch, *fit)
		}
	}
}

// exchangeKind is all samples of one phase of one kernel.
type exchangeKind struct {
	mode, phase, kernel string
	samples             []collective.ExchangeSample
}

// exchangeKinds sorts the exchanges by kernel and phase, inside one domain and over several nodes.
func exchangeKinds(rows []measured.Row, system string) []exchangeKind {
	by := map[string]*exchangeKind{}
	for i := range rows {
		r := &rows[i]
		x := r.Exchange
		if r.Hardware != system || x == nil || x.Phase == "prepare" {
			continue
		}
		k := exchangeKind{mode: "nvlink", phase: x.Phase, kernel: r.Kernel}
		s := collective.ExchangeSample{Time: r.Time, Exchange: collective.Exchange{Phase: x.Phase, Ranks: r.Ranks, Tokens: x.Tokens, Hidden: x.Hidden,
			TopK: x.TopK, Experts: x.Expert, SMs: x.SMs, Even: r.Library == "trtllm"}}
		switch r.Kernel {
		case "deepep_ll":
			k.mode, k.kernel = "low_latency", ""
		case "deepep_normal":
			k.mode, k.kernel = "normal", ""
		default:
			s.ValueBytes = valueBytes(x.Phase, r.DType)
		}
		if r.Library == "deepep" && r.Nodes > 1 {
			k.mode += "_nodes"
			s.Nodes, s.NICGBps = r.Nodes, r.NICPerGPU().GBps()
		}
		key := k.mode + "/" + k.kernel + "/" + k.phase
		if by[key] == nil {
			by[key] = &k
		}
		by[key].samples = append(by[key].samples, s)
	}
	var out []exchangeKind
	for _, key := range sortedKeys(by) {
		out = append(out, *by[key])
	}
	return out
}

// valueBytes is what one value of the hidden state takes on the wire: combine sends results in bf16, dispatch the type of
// the activations (nvfp4 with one fp8 scale for 16 values).
func valueBytes(phase, dtype string) float64 {
	switch {
	case phase == "combine":
		return 2
	case phase == "combine_low_precision":
		return 0.5
	case strings.HasPrefix(dtype, "fp8"):
		return 1
	case strings.Contains(dtype, "fp4"):
		return 0.5 + 1.0/16
	}
	return 2
}
