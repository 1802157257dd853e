package shard

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/recount"
)

// Recount is how far the recounts of a shard have come. Totals count from the server's start.
type Recount struct {
	Every     queue.Time             // how often a round is made, and how long one takes at least, in milliseconds; 0: none is
	Rounds    uint64                 // that were finished
	Last      queue.Time             // when the last one was; 0: none yet
	Progress  float64                // of the round under way, from 0 to 1; 0: none is
	Checked   [recount.Scopes]uint64 // submissions, values, and totals of the queue that were compared
	Skipped   [recount.Skips]uint64  // comparisons that could not be made
	Suspected uint64                 // totals that differed; if they do so in the next round again, it is a drift
	Drifts    [recount.Counters]uint64
	Newest    *recount.Drift // the last drift; nil: none yet
	Stopped   bool           // a recount broke off with a programming error: none is made until the next start
}

// Drifted is how many drifts there were.
func (r *Recount) Drifted() (n uint64) {
	for _, of := range r.Drifts {
		n += of
	}
	return n
}
