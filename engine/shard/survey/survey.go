// Package survey makes pages of long lists: dead letters, chunks that wait for a retry, submissions.
// A walk examines one item after another, and counts how many it examined, so that callers can stop it.
package survey

import (
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// The progress of a bulk operation is how many items it walked over, whether its filter means them or not, of those
// that there were when it started. That number comes from maintained counters, so it costs the same at any backlog.
// Later items are not counted. Items that go away before the walk comes to them would keep it from reaching the number,
// so with every step the rest is bounded by the present number.

// mostLooks is how much a page looks at before it breaks off, so that no call costs much. A bulk operation then notes
// how far it got. So even one whose filter means little shows progress, and goes on from there after a crash.
const mostLooks = 4096

// Survey counts the items that a walk examines. The methods of a nil Survey do nothing, so the
// items that retention examines are not counted.
type Survey struct {
	Started  queue.Time // chunks whose last try ended then or later were not there at the start
	Examined uint64
	Marks    []uint64      // for each item that fits: the number examined by then
	looks    int           // how many looks there were
	Last     queue.ChunkID // the last item that was looked at
}

// Spent says that the walk breaks off here.
func (v *Survey) Spent() bool { return v != nil && v.looks >= mostLooks }

// saw counts a chunk.
func (v *Survey) saw(d *queue.DeadChunk, fits bool) {
	if v == nil {
		return
	}
	v.looks++
	v.Last = d.Chunk
	if d.Died < v.Started {
		v.Examined++
	}
	if fits {
		v.Marks = append(v.Marks, v.Examined)
	}
}

// Passed counts chunks of a submission that the filter does not mean, all at once.
func (v *Survey) Passed(id queue.SubmissionID, n uint64) {
	if v == nil {
		return
	}
	v.looks++
	v.Last = queue.ChunkID{Submission: id, Index: math.MaxUint32}
	v.Examined += n
}

// SawSubmission counts a whole submission.
func (v *Survey) SawSubmission(id queue.SubmissionID, fits bool) {
	v.Passed(id, 1)
	v.Last.Index = 0
	if fits {
		v.Marks = append(v.Marks, v.Examined)
	}
}

// Walk goes over dead letters.
type Walk struct {
	Filter *queue.BulkFilter
	Visit  func(*queue.DeadChunk) (more bool) // called for letters that the filter means
	Seen   *Survey                            // nil: nothing is counted
	full   bool                               // visit wants no more
}

// Over reports whether the walk has found enough, or has examined enough.
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
