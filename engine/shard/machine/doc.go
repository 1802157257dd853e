// Package machine is the state of one shard and everything that may change it: submissions, their
// chunks and reservations, and the parts beside them (parts.go): rules, schedules, suspects, dead
// letters and their forwarding, bulk operations. It reads no clock, starts no goroutine and does no
// I/O: every input carries its time and its random seed, and the caller holds the shard's mutex.
//
//	a command checks, draws ids, marks reservations as finishing, and encodes ops into the open Batch
//	Apply... are the only functions that change durable state, live and at recovery alike
//
// A decision that is not on the disk yet is an Intent of the batch that holds its op (intent.go): applied with it, or
// undone when its commit fails. The shard hands a machine all data from the disk: rows (engine/checkpoint), and at a
// replay rows of the history.
package machine
