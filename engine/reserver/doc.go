// Package reserver knows who holds which chunk: fencing tokens, deadlines and the reservations of each submission and
// consumer. It is pure and deterministic: no clock, no goroutine, no I/O; its caller holds the shard's mutex.
//
// Reservations live in memory only. The token in the consumer's hands survives a restart: its MAC, made with a durable key, lets a later
// life of the server recognise it.
//
//quern:tests pure
package reserver
