// Package whatif answers questions about machines that do not exist: another cluster, a part that fails, a faster NIC, a
// larger NVLink domain, more GPUs. It never measures; it asks the planner for the best plan of each machine (or for the
// price of a layout that is kept) and sets the answers side by side.
//
// Everything is a Column: one machine, one plan, what it costs, what binds it. Compare lists the best plan of several
// machines; Keep prices an existing layout on a changed machine and plans it anew; Sweep moves one quantity and finds by
// bisection where the best plan changes; Ladder lists the bandwidths of a machine from the memory outwards.
//
// Promises: the same inputs give the same columns; a change that changes nothing gives an empty diff; a change and its
// inverse give the machine that was there before.
//
//	cmp, err := whatif.Compare(ctx, problem, []whatif.Machine{h100, gb200}, whatif.Whole)
package whatif
