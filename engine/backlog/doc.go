// Package backlog holds one shard's submissions in memory and answers "which chunk next?"
// for every strategy.
//
// No chunk has any state of its own. A submission is two cursors, one over a permutation
// of its chunks that was fixed at insertion (order Random) and one in index order (all
// other orders), plus two small exception sets:
//
//	taken  =  visited by a cursor, and not put back  |  in the skip set
//
// so "is chunk i taken?" is arithmetic, and 4*10^9 chunks cost what 10 cost.
//
// Strategies use standing views, one per distinct branch (filters, limits, order). A view keeps the
// submissions that match its filters and have an available chunk, sorted into gates: one gate per value
// of a limited key, and a free gate for submissions without limits. When a value reaches its maximum in
// flight, its gate shuts and leaves the view's top. So a pick never scans a value at its limit.
//
//	view MaxSimultaneous("company", 5, OldestFirst)
//
//	  top (a heap)          gates                     submissions, in the view's order
//	  ├─ company=8 ───────► company=8   3 in flight   s2  s9
//	  └─ free ────────────► free                      s4               (without a company)
//	                        company=7   5 in flight   s1  s3  s5       shut: not in the top
//
// Views with one limit that differ only in its number share a base. Its gates are in
// bands, one between each two of the numbers, by their counter. So another number costs
// next to nothing. Views with several limits, and fair ones, have a base each.
//
// In a view with several limits, the submissions with the same values of the limited keys form a
// cell. A cell is in the gate of one of its values. When a pick meets a cell that another limit
// blocks, it moves the whole cell to that shut gate and continues. After several blocked cells,
// if the open values have few combinations, it looks these up instead. So a pick under two limits
// of 100 values each, all but one of each at its limit, examines four cells, not a hundred.
//
// Everything here is pure and deterministic: no clock, no goroutine, no I/O, no lock. The
// caller holds the shard's mutex.
//
// A Backlog has parts. Each owns its fields and knows only the parts that it needs: the
// submissions by slot (submissions.go), the keys and values (terms.go) with their counters
// (counter.go), the submissions under rules (ruled.go), the standing views (view.go) with
// their bases (bases.go), the ledgers of fair views (fair.go) and the recount (recount.go).
//
// Read submission.go first (what is stored), then chunks.go (cursors), counter.go
// (limits), filter.go, view.go, base.go and pick.go (views), band.go (views that differ
// in a number), cell.go, grid.go and draw.go (several limits).
//
//quern:tests pure
package backlog
