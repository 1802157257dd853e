package web

import (
	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/sdk/api"
)

func apiRecount(r *engine.Recount) api.Recount {
	out := api.Recount{
		EveryMS: int64(r.Every), Rounds: r.Rounds, Progress: r.Progress, Submissions: r.Checked[engine.OfSubmission],
		Values:      r.Checked[engine.OfValue],
		QueueTotals: r.Checked[engine.OfQueue], Suspected: r.Suspected, Drifts: r.Drifted(),
		ByCounter: []api.RecountDrift{}, Stopped: r.Stopped,
	}
	for _, n := range r.Skipped {
		out.Skipped += n
	}
	if r.Last != 0 {
		out.LastRoundAt = new(r.Last.API())
	}
	for counter, n := range r.Drifts {
		if c := engine.Counter(counter); n > 0 {
			out.ByCounter = append(out.ByCounter, api.RecountDrift{Scope: c.Scope().String(), Counter: c.String(), Drifts: n})
		}
	}
	if d := r.Newest; d != nil {
		newest := api.CounterDrift{
			Scope: d.Counter.Scope().String(), Counter: d.Counter.String(), Kept: d.Kept, Recounted: d.Found,
			Corrected: d.Corrected, At: d.At.API(),
		}
		switch d.Counter.Scope() {
		case engine.OfSubmission:
			newest.Submission = d.Submission.String()
		case engine.OfValue:
			newest.Key, newest.Value = d.Entry.Key, new(d.Entry.Value)
		}
		out.Newest = &newest
	}
	return out
}
