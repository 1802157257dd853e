package shard

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/recount"
	"github.com/quern-queue/quern/sdk/api"
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

// API is the recount as JSON carries it.
func (r *Recount) API() api.Recount {
	out := api.Recount{
		EveryMS: int64(r.Every), Rounds: r.Rounds, Progress: r.Progress, Submissions: r.Checked[recount.OfSubmission],
		Values: r.Checked[recount.OfValue], QueueTotals: r.Checked[recount.OfQueue], Suspected: r.Suspected, Drifts: r.Drifted(),
		ByCounter: []api.RecountDrift{}, Stopped: r.Stopped,
	}
	for _, n := range r.Skipped {
		out.Skipped += n
	}
	if r.Last != 0 {
		out.LastRoundAt = new(r.Last.API())
	}
	for counter, n := range r.Drifts {
		if c := recount.Counter(counter); n > 0 {
			out.ByCounter = append(out.ByCounter, api.RecountDrift{Scope: c.Scope().String(), Counter: c.String(), Drifts: n})
		}
	}
	if d := r.Newest; d != nil {
		out.Newest = &api.CounterDrift{
			Scope: d.Counter.Scope().String(), Counter: d.Counter.String(), Kept: d.Kept, Recounted: d.Found,
			Corrected: d.Corrected, At: d.At.API(),
		}
		switch d.Counter.Scope() {
		case recount.OfSubmission:
			out.Newest.Submission = d.Submission.String()
		case recount.OfValue:
			out.Newest.Key, out.Newest.Value = d.Entry.Key, new(d.Entry.Value)
		}
	}
	return out
}

// Drifted is how many drifts there were.
func (r *Recount) Drifted() (n uint64) {
	for _, of := range r.Drifts {
		n += of
	}
	return n
}
