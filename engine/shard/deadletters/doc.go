// Package deadletters is the part of a shard with the dead letters: dead chunks of
// submissions that are open or completed_with_dead. It groups them by error (lettergroups),
// redrives them, deletes them, and forwards them to another queue (outbox).
//
// A forward takes three steps. Each is durable before the next one begins, so a crash anywhere leaves
// exactly one copy:
//
//  1. A Move puts the letters into the outbox, in the commit that ends them here.
//  2. The other queue's shard inserts them. In the same commit it records the number up to which it
//     has the letters of this outbox, so it recognises those that it gets again (arrive.go).
//  3. A second Move takes them out of the outbox.
//
// Numbers grow, and the letters for one queue are delivered in the order of their numbers.
package deadletters
