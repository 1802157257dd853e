// Package schedules is the part of a shard that knows when to insert what: definitions,
// ticks that are due, and what each schedule has inserted lately. Which ticks were emitted
// is in the journal, in one batch with what they inserted, so that a tick is emitted once.
//
//quern:tests pure
package schedules
