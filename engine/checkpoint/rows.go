// Package checkpoint has the rows of a checkpoint. A shard's machine makes them, its store keeps them, and a recovery reads them. The store
// does not look into their bytes, which docs/formats/ops.md describes.
package checkpoint

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// Row is the snapshot of one open submission. Only the machine looks into Spec and State.
type Row struct {
	Seq   uint32
	ID    queue.SubmissionID
	Spec  []byte // what never changes; nil in a checkpoint: it is stored already
	State []byte // what does; nil after a load: it was never stored

	Reopened bool // in a checkpoint: the history has it, and is to forget it
}

// Key is an idempotency key, and the submission that was inserted with it.
type Key struct {
	Hash        queue.KeyHash
	Fingerprint [16]byte // of the request
	ID          queue.SubmissionID
	At          queue.Time // when it was used: it is known for queue.IdempotencyWindow from then on
}

// Ended is a submission in the history.
type Ended struct {
	Seq         uint32
	ID          queue.SubmissionID
	State       queue.SubmissionState
	Finished    queue.Time
	Position    journal.Position // of the batch that ended it
	Spec, Final []byte

	Reopened bool // in a checkpoint: the history has an older end of it, and is to forget that
}

// EndPlace is the place of the end among all ends.
func (e *Ended) EndPlace() queue.EndPlace {
	return queue.EndPlace{Position: uint64(e.Position), Seq: e.Seq}
}

// Own is the submission with a copy of its bytes, so that the page that they lie in does not stay in memory.
func (e *Ended) Own() Ended {
	c := *e
	c.Spec, c.Final = append([]byte{}, e.Spec...), append([]byte{}, e.Final...)
	return c
}

// Aside is a row of the things that a shard keeps beside its submissions: its outbox, how far it got with the outboxes of others, its bulk
// operations. Only the machine knows the kinds and bytes. A key is unique within its kind.
type Aside struct {
	Kind  uint8
	Key   uint64
	Bytes []byte // nil in a checkpoint: the row goes
}
