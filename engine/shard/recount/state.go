package recount

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// State is how far the recounts of a shard have come. Totals count from the server's start.
type State struct {
	Every     queue.Time     // how often a round is made, and how long one takes at least, in milliseconds; 0: none is
	Rounds    uint64         // that were finished
	Last      queue.Time     // when the last one was; 0: none yet
	Progress  float64        // of the round under way, from 0 to 1; 0: none is
	Checked   [Scopes]uint64 // submissions, values, and totals of the queue that were compared
	Skipped   [Skips]uint64  // comparisons that could not be made
	Suspected uint64         // totals that differed; if they do so in the next round again, it is a drift
	Drifts    [Counters]uint64
	Newest    *Drift // the last drift; nil: none yet
	Stopped   bool   // a recount broke off with a programming error: none is made until the next start
}

// API is the recount as JSON carries it.
func (s *State) API() api.Recount {
	out := api.Recount{
		EveryMS: int64(s.Every), Rounds: s.Rounds, Progress: s.Progress, Submissions: s.Checked[OfSubmission],
		Values: s.Checked[OfValue], QueueTotals: s.Checked[OfQueue], Suspected: s.Suspected, Drifts: s.Drifted(),
		ByCounter: []api.RecountDrift{}, Stopped: s.Stopped,
	}
	for _, n := range s.Skipped {
		out.Skipped += n
	}
	if s.Last != 0 {
		out.LastRoundAt = new(s.Last.API())
	}
	for counter, n := range s.Drifts {
		if c := Counter(counter); n > 0 {
			out.ByCounter = append(out.ByCounter, api.RecountDrift{Scope: c.Scope().String(), Counter: c.String(),
				Drifts: n})
		}
	}
	if d := s.Newest; d != nil {
		out.Newest = &api.CounterDrift{
			Scope: d.Counter.Scope().String(), Counter: d.Counter.String(), Kept: d.Kept, Recounted: d.Found,
			Corrected: d.Corrected, At: d.At.API(),
		}
		switch d.Counter.Scope() {
		case OfSubmission:
			out.Newest.Submission = d.Submission.String()
		case OfValue:
			out.Newest.Key, out.Newest.Value = d.Entry.Key, new(d.Entry.Value)
		}
	}
	return out
}

// Drifted is how many drifts there were.
func (s *State) Drifted() (n uint64) {
	for _, of := range s.Drifts {
		n += of
	}
	return n
}
