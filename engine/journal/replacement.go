package journal

import "github.com/quern-queue/quern/engine/queue"

// Replacement gives a dead chunk another inline content. It stands beside the bytes of the insert,
// which stay as they are: those may be in a blob, which never changes.
type Replacement struct {
	Seq, Index uint32
	ID         queue.SubmissionID // of the same submission
	Bytes      []byte             // they lie in the batch that they are read from
}

func (r *Replacement) fields(c *coder) {
	unsigned(c, &r.Seq)
	unsigned(c, &r.Index)
	unsigned(c, &r.ID)
	c.bytes(&r.Bytes)
}
