// Package schedules is the part of a shard that inserts submissions on a schedule. It has
// the definitions, finds the ticks that are due, and remembers the last submissions of each
// schedule. A tick and its submission are in one batch of the journal, so that no crash
// makes the server emit a tick twice.
//
//quern:tests pure
package schedules
