package survey

import (
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Walk goes over dead letters.
type Walk struct {
	Filter *queue.BulkFilter
	Visit  func(*queue.DeadChunk) (more bool) // called for what the filter means
	Seen   *Survey                            // nil: what it looks at is not counted
	full   bool                               // visit wants no more
}

// Over says that the walk has what it looks for, or has looked long enough.
func (w *Walk) Over() bool { return w.full || w.Seen.Spent() }

// Look works out the fingerprint, and visits the letter if the filter means it.
func (w *Walk) Look(d *queue.DeadChunk) {
	d.Fingerprint = queue.Fingerprint(d.Error)
	fits := w.Filter.Dead.Matches(d)
	if fits {
		w.full = !w.Visit(d)
	}
	w.Seen.saw(d, fits)
}

// Of goes over the dead letters of a submission that has ended, from an index on.
func (w *Walk) Of(r *machine.Record, from uint64) {
	var found []uint32
	for index, t := range r.Tries {
		if t.Reason == journal.Dead && uint64(index) >= from {
			found = append(found, index)
		}
	}
	slices.Sort(found)
	for i := 0; i < len(found) && !w.Over(); i++ {
		d := Letter(r, found[i])
		w.Look(&d)
	}
}

// Letter describes a dead chunk, but for its fingerprint.
func Letter(r *machine.Record, index uint32) queue.DeadChunk {
	t := r.Tries[index]
	d := queue.DeadChunk{
		Chunk: queue.ChunkID{Submission: r.ID, Index: index}, State: r.State, Attempts: t.Attempts,
		Expiries: t.Expiries, Redrives: t.Redrives,
		Died: t.Died(), Error: t.Err, Past: slices.Clone(t.Past),
	}
	if n := len(t.Past); n > 0 {
		d.Consumer = t.Past[n-1].Consumer
	}
	return d
}
