package machine

import (
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// LetterWalk goes over dead letters.
type LetterWalk struct {
	Filter *queue.BulkFilter
	Visit  func(*queue.DeadChunk) (more bool) // called for what the filter means
	Seen   *Survey                            // nil: what it looks at is not counted
	full   bool                               // visit wants no more
}

// Over says that the walk has what it looks for, or has looked long enough.
func (w *LetterWalk) Over() bool { return w.full || w.Seen.Spent() }

// Look works out the fingerprint, and visits the letter if the filter means it.
func (w *LetterWalk) Look(d *queue.DeadChunk) {
	d.Fingerprint = queue.Fingerprint(d.Error)
	fits := w.Filter.Dead.Matches(d)
	if fits {
		w.full = !w.Visit(d)
	}
	w.Seen.saw(d, fits)
}

// Letters goes over those of an ended submission.
func (r *Record) Letters(from uint64, w *LetterWalk) {
	var found []uint32
	for index, t := range r.Tries {
		if t.Reason == journal.Dead && uint64(index) >= from {
			found = append(found, index)
		}
	}
	slices.Sort(found)
	for i := 0; i < len(found) && !w.Over(); i++ {
		d := r.Letter(found[i])
		w.Look(&d)
	}
}

// Letter describes a dead chunk, but for its fingerprint.
func (r *Record) Letter(index uint32) queue.DeadChunk {
	t := r.Tries[index]
	d := queue.DeadChunk{
		Chunk: queue.ChunkID{Submission: r.ID, Index: index}, State: r.State, Attempts: t.Attempts,
		Expiries: t.expiries, Redrives: t.redrives,
		Died: t.died(), Error: t.Err, Past: slices.Clone(t.Past),
	}
	if n := len(t.Past); n > 0 {
		d.Consumer = t.Past[n-1].Consumer
	}
	return d
}

// died is when the last try ended, which is when a dead chunk died; 0: not known.
func (t *Try) died() queue.Time {
	if n := len(t.Past); n > 0 {
		return t.Past[n-1].Ended
	}
	return 0
}
