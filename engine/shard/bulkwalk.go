package shard

import (
	"math"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// How far a bulk operation got is counted by what it walked over, whether its filter means it or not, of what there was when it started.
// That number comes from maintained counters, so it costs the same at any backlog. What comes later is not counted. What goes away before
// the walk comes to it would be waited for without success, so with every step the rest is bounded by what is there at that moment.

// bulkLook is how much a page looks at before it breaks off and notes how far it got, so that also an operation whose filter means little
// shows progress, and goes on from there after a crash.
const bulkLook = 4096

// survey counts what a walk looks at. The methods of a nil one do nothing: a list of dead letters is not counted.
type survey struct {
	started  queue.Time // chunks whose last try ended then or later were not there at the start
	examined uint64
	marks    []uint64      // examined up to and with each one that fits
	looks    int           // how often something was looked at
	last     queue.ChunkID // what was looked at last
}

// spent says that the walk breaks off here.
func (v *survey) spent() bool { return v != nil && v.looks >= bulkLook }

// saw counts a chunk.
func (v *survey) saw(d *queue.DeadChunk, fits bool) {
	if v == nil {
		return
	}
	v.looks++
	v.last = d.Chunk
	if d.Died < v.started {
		v.examined++
	}
	if fits {
		v.marks = append(v.marks, v.examined)
	}
}

// passed counts chunks of a submission that the filter does not mean, all at once.
func (v *survey) passed(id queue.SubmissionID, n uint64) {
	if v == nil {
		return
	}
	v.looks++
	v.last = queue.ChunkID{Submission: id, Index: math.MaxUint32}
	v.examined += n
}

// sawSubmission counts a whole submission.
func (v *survey) sawSubmission(id queue.SubmissionID, fits bool) {
	v.passed(id, 1)
	v.last.Index = 0
	if fits {
		v.marks = append(v.marks, v.examined)
	}
}

// present is how much there is now of what a request walks over.
func (bs *bulks) present(r *queue.BulkRequest) uint64 {
	m := bs.m
	id := r.Filter.Dead.Submission
	if id == 0 {
		switch {
		case r.Action.OnLetters():
			return m.stats.dead + m.stats.endedLetters
		case r.Action == queue.BulkRetry:
			return m.stats.waiting
		}
		return uint64(m.backlog.Len())
	}
	x := m.live(id)
	switch {
	case r.Action.OnLetters() && x == nil:
		return uint64(m.letters.ofEnded[id])
	case x == nil:
		return 0
	case r.Action.OnLetters():
		return uint64(x.dead)
	case r.Action == queue.BulkRetry:
		return uint64(x.delays.len())
	}
	return 1
}

// walked is a step's progress: n more were walked over, and what is there now bounds the rest.
func (bs *bulks) walked(w *queue.BulkWalk, n uint64, r *queue.BulkRequest) {
	if !w.Known {
		return
	}
	w.Examined = min(w.Examined+n, w.ToExamine)
	w.ToExamine = min(w.ToExamine, w.Examined+bs.present(r))
}

// arrivedAt notes that everything was walked over.
func (p *bulkPage) arrivedAt(next *journal.Bulk) {
	if w := &next.Walk; w.Known {
		w.Examined = min(w.Examined+p.seen.examined-p.noted, w.ToExamine)
		w.ToExamine = w.Examined
	}
}

// pause notes how far a page got that broke off with less found than it may take.
func (p *bulkPage) pause() error {
	return p.locked(func(now queue.Time) {
		p.note(now, 0, p.seen.last, p.seen.examined, func(*machine) (done, refused int) { return 0, 0 })
	})
}
