package measured

import (
	"io"
	"strings"

	"rankmap/internal/units"
)

// ReadPublished reads tables that others published: nccl-tests output and expert-parallel exchanges of many sites, one
// row a size. Only rows that are marked healthy are kept. Launches are eager.
func ReadPublished(r io.Reader, name string) ([]Row, []Skip, error) {
	t, err := newSheet(r, name, false, "gpu", "nodes", "gpus_per_node", "ranks", "intra_link", "inter_link", "nccl_version",
		"algo_forced", "proto_forced", "collective", "bytes", "datatype", "time_us", "healthy")
	if err != nil {
		return nil, nil, err
	}
	var rows []Row
	var skipped []Skip
	for t.next() {
		before := t.noted()
		row := Row{
			GPU: t.str("gpu"), Library: "nccl", Version: t.str("nccl_version"), Launch: LaunchEager,
			Ranks: t.small("ranks", 1), Nodes: t.small("nodes", 1), GPUsPerNode: t.small("gpus_per_node", 1),
			ForcedAlgorithm: t.str("algo_forced"), ForcedProtocol: t.str("proto_forced"),
			FabricDetail: t.str("inter_link"), Origin: t.str("source"),
			File: name, Line: t.line,
		}
		link := t.str("intra_link")
		row.GPU = oneOfSeveral(row.GPU, row.FabricDetail+" "+row.ForcedAlgorithm)
		m, stated := machineOf(row.GPU, link)
		row.System, row.Hardware, row.Wiring, row.DomainGPUs = m.system, m.hardware, m.wiring, m.domain
		net := parseNetwork(row.FabricDetail, row.GPUsPerNode)
		row.NICs, row.NICRate, row.Fabric = net.nics, net.rate, net.fabric
		known := t.publishedOp(&row, t.str("note"))
		if t.str("bytes") != "" {
			row.Bytes = units.Bytes(t.count("bytes", 1))
		}
		t.dtypeInto(&row, "datatype")
		time, timed := t.micros("time_us")
		if t.noted() > before {
			continue
		}
		if row.Ranks > row.Nodes*row.GPUsPerNode {
			t.addf(t.line, "%d ranks on %d nodes of %d GPUs", row.Ranks, row.Nodes, row.GPUsPerNode)
			continue
		}
		reason := ""
		switch healthy := t.str("healthy"); {
		case healthy == "no":
			reason = SkipUnhealthy
		case healthy == "unknown":
			reason = SkipUnknown
		case healthy != "yes":
			t.addf(t.line, "healthy %q: want yes, no or unknown", healthy)
			continue
		case known && !timed && row.Kind == Exchange:
			reason = SkipBandwidth
		case !known || !timed:
			reason = noOpOrTime(known)
		case row.Kind == Exchange && mistyped(&row, t.str("algo_forced"), t.str("note")):
			reason = SkipMistyped
		case row.Bytes == 0 && row.Kind == Collective:
			reason = SkipNoBytes
		case !stated:
			reason = SkipGPUUnclear
		}
		if reason != "" {
			skipped = append(skipped, Skip{name, t.line, reason})
			continue
		}
		row.Time = time
		rows = append(rows, row)
	}
	return rows, skipped, t.err()
}

// publishedOp reads the collective, or the phase of an expert-parallel exchange, whose library stands in algo_forced
// ("deepep:low_latency"); false for a collective that rankmap does not price.
func (t *sheet) publishedOp(row *Row, note string) bool {
	phase, isExchange := strings.CutPrefix(t.str("collective"), "ep_")
	if !isExchange {
		return t.opInto(row, "collective")
	}
	row.Kind = Exchange
	row.Library, row.Kernel, _ = strings.Cut(row.ForcedAlgorithm, ":")
	row.Library, _, _ = strings.Cut(strings.ToLower(row.Library), "-") // "pplx-EFA": the library and the network
	row.ForcedAlgorithm, row.Version = "", ""
	row.Exchange = parseExchangeNote(note)
	row.Exchange.Phase = phase
	row.fromPublisher()
	return true
}
