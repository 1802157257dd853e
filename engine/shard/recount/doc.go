// Package recount counts again what is kept as counters, while work goes on: in slices of
// a bounded number of steps, between which anything may happen. A round has three stages,
// in this order, as each rests on the one before:
//
//	own     what each submission keeps of its own chunks, from its tries, its reservations and its cursors
//	totals  those of the queue and of each value, from what submissions keep
//	values  comparing those
//
// A submission's own recount is of the moment at which it ends: what changes of a try that
// the walk has met is counted too (machine.Counting). The totals are of the moment at which
// their stage begins: each submission is counted as it was then, by the walk or by the first
// change after (machine.Changing; engine/backlog/recount.go). Nothing in here knows the time.
package recount
