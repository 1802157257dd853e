package journal

// The progress of a bulk operation. One op per slice of work stands in the same batch as the work
// of the slice. After a crash, either both are there or neither is: the operation continues exactly
// behind its last slice, and its counts agree with its work.

import (
	"github.com/quern-queue/quern/engine/coding"
	"github.com/quern-queue/quern/engine/queue"
)

// Bulk is the progress of a bulk operation. It is in one batch with the changes that it counts, so a
// crash keeps both or neither. The numbers are totals, so applying it twice has the same result as
// once.
type Bulk struct {
	ID      queue.SubmissionID // drawn like that of a submission
	Step    uint64             // one more each time; 0 starts the operation
	State   queue.BulkState
	Counts  queue.BulkCounts
	After   queue.ChunkID // the last chunk that it looked at; the zero value: none yet
	Ended   queue.Time    // 0: it runs
	Failure string        // of a failed one
	Request string        // the request, in step 0 only; the shard chooses its encoding
	Walk    queue.BulkWalk
	EndedBy string // who cancelled it, by their own account
}

func (b *Bulk) fields(c *coder) {
	coding.Unsigned(&c.Coder, &b.ID)
	coding.Unsigned(&c.Coder, &b.Step)
	coding.Octet(&c.Coder, &b.State, queue.BulkFailed)
	for _, n := range [...]*uint64{
		&b.Counts.Matched, &b.Counts.Done, &b.Counts.Unchanged, &b.Counts.Refused, &b.Walk.Examined, &b.Walk.ToExamine,
	} {
		coding.Unsigned(&c.Coder, n)
	}
	coding.Unsigned(&c.Coder, &b.After.Submission)
	coding.Unsigned(&c.Coder, &b.After.Index)
	coding.Signed(&c.Coder, &b.Ended)
	c.Text(&b.Failure)
	c.Text(&b.Request)
	c.Text(&b.EndedBy)
}

// AppendBulk appends the encoding of the op without its code. The store keeps the same
// bytes as the operation's row.
func AppendBulk(dst []byte, b *Bulk) []byte {
	c := writer(dst)
	b.fields(&c)
	return c.B
}

// DecodeBulk reads a bulk operation that AppendBulk wrote.
func DecodeBulk(row []byte) (*Bulk, error) {
	c, b := reader(row), new(Bulk)
	b.fields(&c)
	if !c.Whole() {
		return nil, errDamaged
	}
	return b, nil
}
