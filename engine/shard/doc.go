// Package shard is one shard of a queue: a deterministic state machine (machine) under one mutex, and the shell around it
// (Shard) that commits its ops in groups, writes snapshot rows at checkpoints and recovers from both.
//
//	command ──► machine: checks, draws ids, marks reservations Finishing, encodes ops into the open batch
//	                │
//	          group commit: one journal append of whatever arrived during the previous one
//	                │
//	            machine.Apply...: the only code that changes durable state, live and at recovery alike
//	                │
//	          waiters that can be served now are served; callers get their answers
//
// The machine has the submissions, their chunks and reservations. What else a queue can do is a part of it (parts.go): rules, schedules,
// suspects, dead letters and their forwarding, bulk operations. Each part has its state, its ops and what it does about them. A decision
// that is not on the disk yet is an intent of the batch that holds its op (intent.go): applied with it, or undone when its commit fails.
// Callers find what a shard has beside inserting, reserving and completing as its fields (resources.go): Rules.Set, Inspect.Explain,
// DeadLetters.Redrive. docs/ARCHITECTURE.md has a picture, and a walk of one reserve and one complete.
//
// Because effects are applied only after their commit, memory without the reservations always equals the journal up to
// the applied position, and every snapshot row can carry the position up to which it is true.
package shard
