// Package shard is one shard of a queue: a deterministic state machine (package machine)
// under one mutex, and the shell around it (Shard) that commits its ops in groups, writes
// rows at checkpoints and recovers from both.
//
//	command ──► machine: checks, draws ids, marks reservations as finishing, encodes ops into the open batch
//	                │
//	          group commit: one journal append of whatever arrived during the previous one
//	                │
//	            machine.Apply...: the only code that changes durable state, live and at recovery alike
//	                │
//	          waiters that can be served now are served; callers get their answers
//
// The features beside insert, reserve and complete are fields of the shard (resources.go):
// Rules.Set, Inspect.Explain, DeadLetters.Redrive. docs/ARCHITECTURE.md has a picture, and
// follows one reserve and one complete.
//
// The shard applies effects only after their commit. So memory without the reservations
// always equals the journal up to the applied position, and every snapshot row can carry
// the position up to which it is true.
package shard
