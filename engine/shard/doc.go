// Package shard is one shard of a queue: a deterministic state machine (machine) under one mutex, and the shell around it
// (Shard) that commits its ops in groups, folds them into snapshot rows and recovers from both.
//
//	command ──► machine: checks, draws ids, marks reservations Finishing, encodes ops into the open batch
//	                │
//	          group commit: one journal append of whatever arrived during the previous one
//	                │
//	            machine.apply: the only code that changes durable state, live and at recovery alike
//	                │
//	          waiters that can be served now are served; callers get their answers
//
// Because effects are applied only after their commit, memory without the reservations always equals the journal up to
// the applied position, and every snapshot row can carry the position up to which it is true.
package shard
