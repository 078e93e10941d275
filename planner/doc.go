// Package planner chooses: it enumerates the ways to split a model over a cluster, drops those that the model, the
// memory or the user's limits forbid, seats the ranks of each on GPUs, prices every collective on its real member list
// and every kernel on its real shape, and returns the best plan with its bound, its nearest losers and the reasons.
//
// Nothing here says "TP inside the node": the rule comes out of the prices, and where the prices say otherwise the
// planner follows them.
//
// The package is pure. A search that finds nothing returns *Infeasible, which names the binding constraint and the
// nearest change that would help.
package planner
