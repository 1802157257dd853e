// Package backlog holds one shard's submissions in memory and answers "which chunk next?" for every strategy.
//
// No chunk has any state of its own. A submission is two cursors, one over a permutation of its chunks that was fixed at
// insertion (order Random) and one in index order (all other orders), plus two small exception sets:
//
//	taken  =  visited by a cursor, and not put back  |  in the skip set
//
// so "is chunk i taken?" is arithmetic, and 4*10^9 chunks cost what 10 cost.
//
// Strategies are served by standing views, one per distinct branch (filters, limits, order). A view keeps the submissions
// that match its filters and have an available chunk, sorted into gates: one gate per value of a limited key, and the free
// gate for submissions without limits. A gate whose value has its maximum in flight is shut and stands outside the view's
// top, so saturated values are never scanned.
//
// Views with one limit that differ only in its number stand on one frame, whose gates lie in bands: each between two of the numbers, by
// what counts. So a number more costs next to nothing. Views of several limits, and those that share fairly, have a frame each.
//
// In a view of several limits the submissions under the same values of the limited keys are a cell, which stands in one of the
// gates of these. A pick that meets a cell while another of its limits is reached moves all of it to that shut gate and looks
// on. When several were blocked, and the values that are not shut have few combinations, it looks these up instead. So a
// pick under two limits of 100 values each, all of them reached but one of each, looks at four things, not at a hundred.
//
// Everything here is pure and deterministic: no clock, no goroutine, no I/O, no lock. The caller holds the shard's mutex.
//
// A Backlog has parts, each of which owns its fields: the keys and values (terms.go), what rules cover (ruled.go), the standing views
// (view.go), the ledgers of the fair ones (fair.go) and a recount (recount.go). They reach one another through the Backlog.
//
// Read submission.go first (what is stored), then chunks.go (cursors), view.go, frame.go and pick.go (views), band.go (views that
// differ in a number), cell.go and draw.go (several limits).
//
//quern:tests pure
package backlog
