// Package collective says how long one collective takes on one member list of GPUs, with an interval, and why.
//
//	m := collective.New(cluster, profiles, collective.Options{})
//	e, err := m.Price(collective.Request{Op: parallel.AllReduce, Bytes: 1 << 20, Members: group})
//	// e.Time, e.P10, e.P90, e.Algorithm, e.Protocol, e.Bottleneck, e.Provenance, e.Flags
//
// The way of one price:
//
//	members ── topology.Shaper ──► shape        how many ranks, domains, endpoints; the slowest links; who shares them
//	shape ──── link.go, route.go ─► profile     the system's own, its sibling's, the nearest generation's; or a refusal
//	profile ── form.go ───────────► physics     latency, hops and bandwidth of two protocols inside one domain
//	           fabricform.go ─────►             the same across nodes
//	           grid.go ───────────► correction  what physics misses, by library version and group size
//	           band.go ───────────► interval    from cross-validation, by provenance, operation and size
//	           choice.go ─────────► algorithm   from NCCL's own tuning model (nccltune); it does not set the time
//
// Profiles are fitted by fit*.go from measured points (internal/tools/fitprofiles writes configs/hardware), adapted to a
// user's measurements by Calibrate, and read by hardware.LoadProfiles. TextbookModel is the alpha-beta model that one finds
// in books, for comparison. CustomAllReduce and Dispatch cover kernels of serving frameworks that are not NCCL's.
//
// What the package promises: more bytes never take less; a faster link never makes a group slower; the order of the
// members does not matter; one rank takes no time; the same inputs give the same numbers; a price of a group seen before
// allocates nothing. What it does not do: it reads no files, measures nothing, and knows nothing of ranks or strategies.
package collective
