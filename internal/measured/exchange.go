package measured

import (
	"io"
	"strconv"
	"strings"

	"rankmap/internal/parallel"
	"rankmap/internal/units"
)

// ReadDeepEP reads dispatch and combine times of DeepEP: one row of the file gives two Rows. Groups span 8 GPUs a node.
func ReadDeepEP(r io.Reader, name string) ([]Row, []Skip, error) {
	t, err := newSheet(r, name, false, "system", "mode", "version", "nodes", "hidden", "tokens_per_rank", "topk", "experts", "sms", "dispatch_us", "combine_us")
	if err != nil {
		return nil, nil, err
	}
	var rows []Row
	var skipped []Skip
	for t.next() {
		before := t.noted()
		row := Row{
			Kind: Exchange, Op: parallel.AllToAll, System: t.str("system"), Library: "deepep", Version: t.str("version"), Kernel: t.str("mode"),
			Nodes: t.small("nodes", 1), GPUsPerNode: 8, File: name, Line: t.line,
		}
		row.GPU, row.Hardware = row.System, hardwareOf(row.System)
		row.Ranks = 8 * row.Nodes
		if row.Nodes > 1 { // the table states no network: these boxes come with a 400 Gb/s NIC a GPU
			row.NICs, row.NICRate, row.Fabric = 8, units.Gbps(400), "InfiniBand"
			row.Flags = append(row.Flags, "NIC rate assumed")
		}
		shape := ExchangeShape{Hidden: t.small("hidden", 1), Tokens: t.small("tokens_per_rank", 1), TopK: t.small("topk", 1), Expert: t.small("experts", 1)}
		if t.str("sms") != "" {
			shape.SMs = t.small("sms", 1)
		}
		// DeepEP's buffers cannot be told from the mode alone: low latency sends fp8 and combines bf16; normal mode as well
		// in these tables (COLLECTIVE-MODEL.md section 6: 1.031 bytes a value on dispatch, 2 on combine).
		for _, phase := range []string{"dispatch", "combine"} {
			time, stated := t.micros(phase + "_us")
			if t.noted() > before {
				break
			}
			if !stated {
				skipped = append(skipped, Skip{name, t.line, SkipNoTime})
				continue
			}
			one, s := row, shape
			s.Phase = phase
			one.DType = map[string]string{"dispatch": "fp8", "combine": "bf16"}[phase]
			one.Exchange, one.Time = &s, time
			if copied := row.System == "h200_sxm" && strings.HasPrefix(row.Version, "0.5.6"); copied {
				skipped = append(skipped, Skip{name, t.line, SkipCopied}) // README of the tables: these rows repeat h100's
				continue
			}
			rows = append(rows, one)
		}
	}
	return rows, skipped, t.err()
}

// ReadNVLinkAllToAll reads times of TensorRT-LLM's NVLink exchange: ep_size ranks of one NVLink domain.
func ReadNVLinkAllToAll(r io.Reader, name string) ([]Row, []Skip, error) {
	t, err := newSheet(r, name, false, "system", "version", "kernel", "op", "dtype", "tokens", "hidden", "topk", "experts", "ep_size", "time_us")
	if err != nil {
		return nil, nil, err
	}
	var rows []Row
	var skipped []Skip
	for t.next() {
		before := t.noted()
		row := Row{
			Kind: Exchange, Op: parallel.AllToAll, System: t.str("system"), Library: "trtllm", Version: t.str("version"), Kernel: t.str("kernel"),
			Ranks: t.small("ep_size", 1), Wiring: WiringRack, DomainGPUs: 72, File: name, Line: t.line,
		}
		row.GPU, row.Hardware = row.System, hardwareOf(row.System)
		row.GPUsPerNode = min(max(row.Ranks, 1), 4) // a tray of the rack
		row.Nodes = (row.Ranks + row.GPUsPerNode - 1) / row.GPUsPerNode
		t.dtypeInto(&row, "dtype")
		phase, ok := strings.CutPrefix(t.str("op"), "alltoall_")
		if !ok {
			t.addf(t.line, "op %q: want alltoall_prepare, alltoall_dispatch or alltoall_combine", t.str("op"))
		}
		row.Exchange = &ExchangeShape{Phase: phase, Tokens: t.small("tokens", 1), Hidden: t.small("hidden", 1), TopK: t.small("topk", 1), Expert: t.small("experts", 1)}
		time, stated := t.micros("time_us")
		switch {
		case t.noted() > before:
		case !stated:
			skipped = append(skipped, Skip{name, t.line, SkipNoTime})
		default:
			row.Time = time
			rows = append(rows, row)
		}
	}
	return rows, skipped, t.err()
}

// parseExchangeNote reads the shape out of a published remark such as "128 tokens, hidden 7168, top-8, 256 experts, 24
// SMs". What it does not say stays 0.
func parseExchangeNote(note string) *ExchangeShape {
	s := new(ExchangeShape)
	words := strings.FieldsFunc(note, func(r rune) bool { return r == ' ' || r == ',' || r == ';' })
	number := func(w string) int {
		mul := 1
		if k, ok := strings.CutSuffix(w, "K"); ok {
			w, mul = k, 1024
		}
		v, err := strconv.Atoi(w)
		if err != nil || v < 0 || v > 1<<20 {
			return 0
		}
		return v * mul
	}
	for i, w := range words {
		if top, ok := strings.CutPrefix(w, "top-"); ok {
			s.TopK = number(top)
		}
		if i == 0 {
			continue
		}
		switch prev := words[i-1]; {
		case w == "tokens" || w == "token":
			s.Tokens = number(prev)
		case w == "experts":
			s.Expert = number(prev)
		case w == "SMs":
			s.SMs = number(prev)
		case prev == "hidden":
			s.Hidden = number(w)
		}
	}
	return s
}
