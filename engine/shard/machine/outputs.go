package machine

import (
	"fmt"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// This file reads outputs, and notices those that are gone. An output is in the store before its completion is in the journal, so one that
// the journal tells of and the store does not have was lost: by damage, or because the file is another one. It must not read as a chunk
// without an output. Which chunks have one is not kept, as that would be state for each chunk; how many there are is enough to know that
// one is missing, and the sum of their indexes to say which.

// OutputCount is what the journal has counted of a submission's outputs.
type OutputCount struct {
	Chunks uint32 // done ones with an output
	Sum    uint32 // of their indexes, modulo 2^32
}

// OutputsUnknown is the count when some chunk was done by an op of before version 3, which does not say whether it has an output: there
// may be any number, and none is missed. No count is like it, because the sum of no indexes is 0.
var OutputsUnknown = OutputCount{Sum: 1}

// Unknown reports whether the count says nothing.
func (t *OutputCount) Unknown() bool { return *t == OutputsUnknown }

// Add counts the output of a chunk that had none.
func (t *OutputCount) Add(index uint32) {
	if !t.Unknown() {
		t.Chunks++
		t.Sum += index
	}
}

func (t *OutputCount) note(c *journal.Completed) {
	if c.Output {
		t.Add(c.Index)
	}
	if c.OutputUnknown {
		*t = OutputsUnknown
	}
}

// Some says whether the submission has outputs, as far as that is known.
func (t *OutputCount) Some() bool { return t.Chunks > 0 || t.Unknown() }

// Missing names what is not among the outputs that were found; "": nothing. exact says that these are all that there were when t was
// counted.
func (t *OutputCount) Missing(found OutputCount, id queue.SubmissionID, exact bool) string {
	switch lost := int64(t.Chunks) - int64(found.Chunks); {
	case t.Unknown() || lost <= 0:
		return ""
	case lost == 1 && exact:
		return OutputOf(id, t.Sum-found.Sum)
	default:
		return fmt.Sprintf("%d of the %d outputs of submission %s", lost, t.Chunks, id)
	}
}

// OutputOf names an output in errors.
func OutputOf(id queue.SubmissionID, index uint32) string {
	return fmt.Sprintf("the output of chunk %d of submission %s", index, id)
}

// LatestMost is how many of the latest completions with an output a start looks up.
const LatestMost = 256

// Latest are those that a replay has met.
type Latest struct {
	Chunks []queue.ChunkID
	Seqs   []uint32
}

func (l *Latest) note(r *Record, index uint32) {
	if len(l.Seqs) == 2*LatestMost {
		l.Chunks = slices.Delete(l.Chunks, 0, LatestMost)
		l.Seqs = slices.Delete(l.Seqs, 0, LatestMost)
	}
	l.Chunks = append(l.Chunks, queue.ChunkID{Submission: r.ID, Index: index})
	l.Seqs = append(l.Seqs, r.Seq)
}
