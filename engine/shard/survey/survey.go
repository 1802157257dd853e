// Package survey is how pages are made of what there is much of: dead letters, chunks that wait
// for a retry, submissions. A walk looks at one after the other, and counts what it looks at.
package survey

import (
	"math"

	"github.com/quern-queue/quern/engine/queue"
)

// How far a bulk operation got is counted by what it walked over, whether its filter means it or not,
// of what there was when it started. That number comes from maintained counters, so it costs the same
// at any backlog. What comes later is not counted. What goes away before the walk comes to it would be
// waited for without success, so with every step the rest is bounded by what is there at that moment.

// mostLooks is how much a page looks at before it breaks off, so that no call costs much.
// A bulk operation notes then how far it got: also one whose filter means little shows
// progress, and goes on from there after a crash.
const mostLooks = 4096

// Survey counts what a walk looks at. The methods of a nil one do nothing: what retention
// looks at is not counted.
type Survey struct {
	Started  queue.Time // chunks whose last try ended then or later were not there at the start
	Examined uint64
	Marks    []uint64      // examined up to and with each one that fits
	looks    int           // how often something was looked at
	Last     queue.ChunkID // what was looked at last
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
