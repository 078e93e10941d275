// Package model says what a network is and what it costs to hold, to run and to split.
//
// Parse reads a config.json of transformers' form (and the hf_quant_config.json beside it) into a Spec: kinds of layer,
// each a list of weights with their shapes, their storage and the way they are dealt out over ranks. Everything else is
// counted from these lists: parameters by part, bytes with scales, cache and state of a sequence, the computations and
// the collectives of a step on one rank, memory of a GPU by part, and the rules that a strategy must keep.
//
//	spec, err := model.Load(configs.FS, "deepseek-v3")
//	st := parallel.Strategy{DP: 32, EP: 32}.Normalize()
//	work := model.Work{Phase: model.Decode, Batch: 128, Tokens: 1, Context: 4096}
//	ops := spec.StepOps(st, work, 0)          // sizes after sharding, for package compute
//	colls := spec.StepCollectives(st, work, 0) // bytes as nccl-tests counts, for package collective
//	mem := spec.Memory(st, work, model.MemoryOptions{Capacity: 141e9})
//
// The package is pure: it reads from io.Reader and fs.FS, keeps no state and is deterministic. No bytes make it panic.
// It prices nothing: time is the work of packages compute and collective.
//
// # Families
//
// A family (family*.go) is the layer shapes that one line of architectures shares: what the modelling code of its
// publisher or of transformers builds from the fields, with the defaults of its configuration class for absent ones.
// Unknown architectures are refused with the fields found; Options.Assume takes them as dense, marked as an estimate.
//
// # Splitting
//
// tp cuts attention and dense layers by heads and columns; KV heads are copied once tp exceeds them, MLA's latent is
// whole on every rank. ep x expertTp deals the experts out over the same ranks of a stage. Where a replica's ranks all
// hold its tokens, experts' results meet in one all-reduce; where they do not (attention data parallelism, training),
// tokens are exchanged: see StepCollectives. Embedding and head are cut over tp and copied over attention replicas.
package model
