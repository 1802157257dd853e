// Package recount recounts all counters while work goes on: in slices of a bounded number of steps, between which
// anything may happen. A round has three stages, in this order, as each builds on the one before:
//
//	own     each submission's counters of its own chunks, from its tries, its reservations and its cursors
//	totals  the totals of the queue and of each value, from the counters of submissions
//	values  the comparison of the totals of values
//
// A submission's own recount holds for the moment at which it ends: changes of tries that the walk has met are counted
// too (machine.Counting). The totals hold for the moment at which their stage begins: each submission is counted as it
// was then, by the walk or by the first later change (machine.Counting.Changing; engine/backlog/recount.go). Nothing in
// here knows the time.
package recount
