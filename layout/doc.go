// Package layout is the rank layout: the document that plan writes and that validate, what-if, view and export read.
//
// A layout is self-contained: the cluster in compact form, the workload, the volumes of every collective and the
// predictions are inside; digests name the sources. The same inputs give the same bytes: no timestamps, no map order.
// Reading is strict: unknown keys, duplicate keys, anchors and floats where integers belong are errors with file:line.
//
// Above CompactRanks ranks the lists of ranks and groups are written in a compact form (node blocks and repeats) that
// loses nothing and is expanded on reading.
package layout
