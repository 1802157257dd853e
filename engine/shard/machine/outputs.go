package machine

import (
	"fmt"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// This file takes outputs out of the journal, and notices those that are gone. An output
// is in the batch of its completion, and in the store before the journal forgets that batch. So an output that was
// counted and is not in the store was lost: by damage, or because the file is another one. It must not read as a chunk
// without an output. No list of chunks with outputs is kept, as that would be state for each chunk: their number is
// enough to know that one is missing, and the sum of their indexes to say which.

// OutputCount has the journal's counts of a submission's outputs.
type OutputCount struct {
	Chunks uint32 // done ones with an output
	Sum    uint32 // of their indexes, modulo 2^32
}

// Add counts the output of a chunk that had none.
func (t *OutputCount) Add(index uint32) {
	t.Chunks++
	t.Sum += index
}

func (t *OutputCount) note(c *journal.Completed) {
	if c.Output {
		t.Add(c.Index)
	}
}

// Some says whether the submission has outputs.
func (t *OutputCount) Some() bool { return t.Chunks > 0 }

// Missing names the outputs that were counted and not found; "": none. exact says that `found` has all that there were
// when t was counted.
func (t *OutputCount) Missing(found OutputCount, id queue.SubmissionID, exact bool) string {
	switch lost := int64(t.Chunks) - int64(found.Chunks); {
	case lost <= 0:
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

// brought are the outputs in the batch being applied whose completions are still to come, in the order of these.
type brought struct {
	list []journal.Output
	next int // of the list: the first one whose completion is still to come
}

func (b *brought) add(o *journal.Output) {
	if b.next == len(b.list) {
		clear(b.list) // they are memory of an earlier batch
		b.list, b.next = b.list[:0], 0
	}
	b.list = append(b.list, *o)
}

// take is the output of a completion, valid until the next add; nil: it has none. An output belongs to the completion
// behind it and to no other one, so a completion whose output does not stand before it, or that stands behind the
// output of another one, is damage.
func (b *brought) take(c *journal.Completed) (*journal.Output, error) {
	if !c.Output {
		return nil, nil
	}
	if b.next == len(b.list) || b.list[b.next].Seq != c.Seq || b.list[b.next].Index != c.Index {
		return nil, fmt.Errorf("shard: the journal is damaged: the output of chunk %d of seq %d does not stand "+
			"before its completion", c.Index, c.Seq)
	}
	b.next++
	return &b.list[b.next-1], nil
}
