package journal

import (
	"github.com/quern-queue/quern/engine/coding"
	"github.com/quern-queue/quern/engine/queue"
)

// Encoder builds a batch. Sequence numbers are written as differences to the last one, so
// a common completion takes 8 to 10 bytes.
//
// The encoder is kept from batch to batch with its memory. The next Reset therefore overwrites the
// bytes that Bytes and Packed returned, and an append must be through by then.
type Encoder struct {
	c      coder
	ops    int
	packed []byte // the memory of Packed
}

// Reset starts a new batch in the encoder's buffer. `epoch` is the shard's current one; it
// is written down so that a batch can be read without those before it, which may be trimmed.
func (e *Encoder) Reset(epoch uint32, at queue.Time) {
	e.c = writer(append(e.c.B[:0], Version))
	e.ops = 0
	e.c.head(&epoch, &at)
}

// head codes the head of a batch: the time of its first op's decision, and the epoch of the shard.
func (c *coder) head(epoch *uint32, at *queue.Time) {
	coding.Signed(&c.Coder, at)
	coding.Unsigned(&c.Coder, epoch)
	c.epoch = *epoch
}

// Bytes is the batch so far, good until the next Reset.
func (e *Encoder) Bytes() []byte { return e.c.B }

// Ops is how many ops the batch holds.
func (e *Encoder) Ops() int { return e.ops }

// op begins an op, and returns the coder for its fields.
func (e *Encoder) op(code byte) *coder {
	e.c.B = append(e.c.B, code)
	e.ops++
	return &e.c
}

// Epoch records that the shard starts a new life.
func (e *Encoder) Epoch(epoch uint32) { e.op(opEpoch).newEpoch(&epoch) }

func (c *coder) newEpoch(epoch *uint32) {
	coding.Unsigned(&c.Coder, epoch)
	c.epoch = *epoch
}

// maxRun bounds a run of completions, so that applying one op never takes long.
const maxRun = 256

// Complete records completions; runs of one submission are written together.
func (e *Encoder) Complete(items []Completed) {
	for len(items) > 0 {
		code, count := e.run(items)
		if items[0].Output {
			e.c.B = append(e.c.B, opOutputs)
		}
		c := e.op(code)
		c.completions(code, &items[0].Seq, &count)
		for i := range items[:count] {
			items[i].chunk(c, code)
		}
		items = items[count:]
	}
}

// run is how many completions go into the next op, and which op that is.
func (e *Encoder) run(items []Completed) (code byte, count uint32) {
	first := &items[0]
	if first.Epoch != e.c.epoch {
		return opCompleteOld, 1
	}
	n := 1
	for n < len(items) && n < maxRun && items[n].Seq == first.Seq && items[n].Epoch == first.Epoch &&
		items[n].Output == first.Output {
		n++
	}
	if n == 1 {
		return opCompleteOne, 1
	}
	return opCompleteRun, uint32(n)
}

// Return records a chunk that came back undone.
func (e *Encoder) Return(r Returned) { r.fields(e.op(opReturn)) }

// Redrive records that dead chunks are offered again.
func (e *Encoder) Redrive(r Redrive) { r.fields(e.op(opRedrive)) }

// End records a submission's end by decision.
func (e *Encoder) End(x End) { x.fields(e.op(opEnd)) }

// Priority records a change of priority.
func (e *Encoder) Priority(p Priority) { p.fields(e.op(opPriority)) }

// Insert records a submission.
func (e *Encoder) Insert(s *Insert) { s.fields(e.op(opInsert)) }

// Contents records the bytes of the submission that the next insert creates.
func (e *Encoder) Contents(c *Contents) { c.fields(e.op(opContents)) }

// Output records the output of a chunk whose completion follows.
func (e *Encoder) Output(o *Output) { o.fields(e.op(opOutput)) }

// Replacement records another content of a dead chunk.
func (e *Encoder) Replacement(r *Replacement) { r.fields(e.op(opReplacement)) }

// Awaited records that a submission no longer waits for another one.
func (e *Encoder) Awaited(a *Awaited) { a.fields(e.op(opAwaited)) }

// Deletion records the order to delete a submission.
func (e *Encoder) Deletion(d *Deletion) { d.fields(e.op(opDeletion)) }

// Move records a change of chunks that no consumer holds.
func (e *Encoder) Move(m Move) { m.fields(e.op(opMove)) }

// Rule records that a rule is set or lifted.
func (e *Encoder) Rule(r Rule) { r.fields(e.op(opRule)) }

// Schedule records the change of a schedule.
func (e *Encoder) Schedule(s *Schedule) { s.fields(e.op(opSchedule)) }

// Bulk records how far a bulk operation got.
func (e *Encoder) Bulk(b *Bulk) { b.fields(e.op(opBulk)) }

// Act records that an operator changed something.
func (e *Encoder) Act(a *Act) { a.fields(e.op(opAct)) }

// Held records the reservations of a consumer.
func (e *Encoder) Held(h *Held) { h.fields(e.op(opHeld)) }

// Set records settings by an operator.
func (e *Encoder) Set(s *Set) { s.fields(e.op(opSet)) }

// Snapshot records a published copy of the store.
func (e *Encoder) Snapshot(s *Snapshot) { s.fields(e.op(opSnapshot)) }
