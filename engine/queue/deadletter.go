package queue

import (
	"cmp"
	"time"
)

// MaxAttemptsKept is how many ended tries of a chunk are remembered, the newest. Older errors are cut to MaxPastErrorBytes.
const (
	MaxAttemptsKept   = 10
	MaxPastErrorBytes = 256
)

// Attempt is one ended try of a chunk.
type Attempt struct {
	Ended    Time
	Consumer string        // who held the chunk; "": not known, as after a restart
	Held     time.Duration // for how long, in whole milliseconds
	Expired  bool          // it ended by its deadline
	Lost     bool          // it ended because its consumer was lost
	Error    string
}

// DeadChunk is a dead letter: a dead chunk that can be redriven or deleted.
type DeadChunk struct {
	Chunk       ChunkID
	State       SubmissionState // of its submission: Open or CompletedWithDead
	Attempts    uint16          // tries since the insert, or since the last redrive
	Expiries    uint8           // those of them that ended by their deadline
	Redrives    uint16          // how often it was redriven so far
	Died        Time            // when the last try ended; 0: not known
	Consumer    string          // of the last try
	Error       string          // of the last try
	Fingerprint string          // of Error, see Fingerprint
	Past        []Attempt       // the last tries, oldest first, over all redrives
}

// Bytes is about how much memory an answer takes for the letter, before it is encoded.
func (d *DeadChunk) Bytes() int {
	const fixed = 256
	n := fixed + len(d.Error)
	for i := range d.Past {
		n += fixed + len(d.Past[i].Error)
	}
	return n
}

// UnknownDeadLetter is the error of a chunk that is not dead, or not in this queue.
func UnknownDeadLetter(id ChunkID) error {
	return &Error{Code: CodeUnknownDeadLetter, Message: "Chunk " + id.String() +
		" is no dead letter of this queue: it never became one, or it was redriven, deleted or forwarded."}
}

// ChunkKey is one number for a chunk of a shard, by the number of its submission and its index.
func ChunkKey(seq, index uint32) uint64 { return uint64(seq)<<32 | uint64(index) }

// DeadFilter says which dead letters are meant. The zero value means all.
type DeadFilter struct {
	Submission  SubmissionID // 0: of any
	Fingerprint string       // "": any
	DiedBefore  Time         // died earlier than this; 0: at any time
	DiedAfter   Time         // died at this time or later; a letter with an unknown time does not match
	Oldest      uint32       // only this many, those that died first; 0: all. Until is the last of them
	Until       DeadAge      // died no later than that letter; zero: at any time
}

// DeadAge is the place of a dead letter among others, by its time of death, and at the same time by chunk.
type DeadAge struct {
	Died  Time
	Chunk ChunkID
}

// Age is the letter's place.
func (d *DeadChunk) Age() DeadAge { return DeadAge{d.Died, d.Chunk} }

// Compare orders letters by when they died.
func (a DeadAge) Compare(b DeadAge) int {
	return cmp.Or(cmp.Compare(a.Died, b.Died), cmp.Compare(a.Chunk.Submission, b.Chunk.Submission),
		cmp.Compare(a.Chunk.Index, b.Chunk.Index))
}

// Timed says that the filter depends on the time of death.
func (f *DeadFilter) Timed() bool { return f.DiedBefore != 0 || f.DiedAfter != 0 }

// Matches says whether the filter means this dead letter.
func (f *DeadFilter) Matches(d *DeadChunk) bool {
	return (f.Submission == 0 || f.Submission == d.Chunk.Submission) &&
		(f.Fingerprint == "" || f.Fingerprint == d.Fingerprint) &&
		(f.DiedBefore == 0 || d.Died < f.DiedBefore) && d.Died >= f.DiedAfter &&
		(f.Until == DeadAge{} || d.Age().Compare(f.Until) <= 0)
}

// Origin is the dead letter of another queue that a submission was forwarded from.
type Origin struct {
	Source   uint64 // identifies its outbox, for ever
	Number   uint64 // in that outbox; they grow
	Queue    string
	Chunk    ChunkID
	First    uint32 // the index that the content of this submission's chunk 0 has in its prefix or template
	Attempts uint32 // in the other queue
	Died     Time   // when the last of them ended; 0: not known
	Error    string // of the last of them
}

// Outgoing is a dead letter on its way to another queue.
type Outgoing struct {
	Number uint64
	Queue  string // where to
	Chunk  ChunkID
	Stuck  bool // it could not be read, and later ones may have overtaken it
}

// Delivery is a dead letter as it arrives: Submission.Origin is set, and there is one chunk.
type Delivery struct {
	Number     uint64
	Submission NewSubmission
}
