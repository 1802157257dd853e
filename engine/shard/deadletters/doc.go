// Package deadletters is the part of a shard that knows the dead letters: dead chunks of
// open submissions, and of those that completed with dead ones. They are grouped by what
// went wrong (lettergroups), offered again, given up, or sent on to another queue (outbox).
//
// Dead letters go on to another queue in three steps, each durable before the next one begins, so
// that a crash anywhere leaves exactly one copy: a Move puts them into the outbox in the very
// commit that ends them here; the other queue's shard inserts them, and with them the number up to
// which it has those of this outbox (arrive.go), so that it knows what it is given again; and a
// second Move takes them out. Numbers grow, and those for one queue are delivered in their order.
package deadletters
