package journal

// The ops are the changes of a shard as the journal has them. An op is a decision that was made, not a
// request. It has the outcome (which chunk, how many attempts there are now, until when it waits) and never
// the reasons, so a replay decides nothing and needs neither clock nor chance.
//
// Two rules for every op, old and new:
//
//	1. Applying it twice is applying it once. Fields are absolute totals, not increments.
//	2. Its code and its fields keep their meaning for good. Later releases read the journals of earlier ones.
//
// One field list per op, in a method `fields`, both writes and reads the op (coder.go), so the two directions
// cannot differ.

import (
	"math"
	"time"

	"github.com/quern-queue/quern/engine/coding"
	"github.com/quern-queue/quern/engine/queue"
)

// Version is the first byte of every batch: the version of the op encoding, described byte by byte in
// docs/formats/ops.md. A reader refuses versions that it does not know.
const Version = 1

// The op codes. Numbers are never used again for something else.
const (
	opEpoch       = 1
	opContents    = 2
	opInsert      = 3
	opPriority    = 4
	opOutput      = 5
	opOutputs     = 6 // stands before the op of completions that all have an output
	opCompleteOne = 7
	opCompleteRun = 8
	opCompleteOld = 9
	opReturn      = 10
	opRedrive     = 11
	opMove        = 12
	opEnd         = 13
	opRule        = 14
	opSchedule    = 15
	opBulk        = 16
	opSet         = 17
	opAct         = 18
	opHeld        = 19
	opSnapshot    = 20
	opReplacement = 21
	opDeletion    = 22
	opAwaited     = 23
)

// Insert is the op that makes a submission exist.
type Insert struct {
	Seq                uint32
	ID                 queue.SubmissionID
	Chunks             uint32
	Key                uint64 // of the order in which Random visits the chunks
	Priority           int64
	Meta               queue.Meta
	Prefix, Template   string
	Group, Trace       string
	OperationsPerChunk uint32
	RunAt              queue.Time
	DeadDeadline       queue.Time
	MaxAttempts        uint16
	OnExhausted        queue.OnExhausted
	MaxFailed          uint32 // chunks that may be given up before the submission fails; 0: any number
	Inline, Attachment bool   // whether it has such bytes: in the Contents before it, or in blobs
	Blobs              *Blobs // nil: it has none
	IdempotencyKey     string
	Fingerprint        [16]byte
	Schedule           string         // that inserted it; "": none
	Scheduled          queue.Time     // the tick that it is for
	Origin             *queue.Origin  // of a forwarded one
	RetryBackoff       *queue.Backoff // nil: the queue's
	Unique             *queue.Unique  // nil: it has no unique key. Not in the journal: Replace
	After              *queue.After   // nil: it waits for no other submission
	Bytes              uint32         // of its contents and its attachment
	AttemptTimeout     time.Duration  // whole milliseconds; 0: as the queue says
}

// Completed is one chunk that was completed, under which token.
type Completed struct {
	Seq, Index uint32
	Epoch      uint32
	Output     bool // the chunk has an output: in an Output before it, or in the store
	Sequence   uint64
}

// ReturnReason says why a chunk came back undone. It stands in the journal as a number: never
// renumber, only append.
type ReturnReason uint8

// The reasons. Dead and Skipped end the chunk: Dead may be redriven, Skipped is given up.
// Snoozed is a release with a delay. Overdue is the passing of the submission's dead_deadline or, with
// an error, the end of another submission that it waited for; after it the chunk is Dead. Cancelled is an
// order to give the chunk up; after it the chunk is Skipped. None of the three counts a try: no consumer
// had its chance. Redriven and Forwarded are not written in a Return: a chunk's history has them after a
// Redrive, and after the chunk went on to another queue, which ends it here. The others offer the chunk
// again, at once or later.
const (
	Failed ReturnReason = iota
	Expired
	Lost
	Dead
	Skipped
	Redriven
	Forwarded
	Snoozed
	Overdue
	Cancelled
)

// Returned is a chunk that came back undone with a try counted, unless it was Snoozed. The counts are the new
// totals, so applying it twice is applying it once.
type Returned struct {
	Seq, Index uint32
	Epoch      uint32
	Sequence   uint64
	Reason     ReturnReason
	Attempts   uint16
	Expiries   uint8
	NotBefore  queue.Time // 0: at once
	Error      string
	Consumer   string // who held the chunk; "": not known
	Held       uint32 // for how many milliseconds
	Lost       bool   // with Dead and Skipped: the consumer was lost
}

// End moves a submission out of Open by decision (completion needs no op: it follows from the counts).
type End struct {
	Seq    uint32
	State  queue.SubmissionState
	Reason string
}

// Priority gives a submission another priority.
type Priority struct {
	Seq      uint32
	Priority int64
}

// Redrive offers dead chunks of a submission again, with no try counted. A chunk that is
// not dead stays as it is, so applying it twice is applying it once. If the submission
// ended with dead chunks, it is open again.
type Redrive struct {
	Seq     uint32
	Indexes []uint32 // ascending, 1 to MaxRedrive
}

// MaxRedrive bounds the chunks of one Redrive, so that applying one op never takes long.
const MaxRedrive = 256

// lostFlag stands in the reason of a Return that ends a chunk because its consumer was lost.
const lostFlag = 0x80

// chunk is the part of a completion that each chunk has; the op before it says which submission it is of.
func (x *Completed) chunk(c *coder, code byte) {
	coding.Unsigned(&c.Coder, &x.Index)
	if code == opCompleteOld {
		c.epochOf(&x.Epoch)
	}
	c.token(&x.Sequence)
}

// completions is the head of an op of completions, before its chunks: their submission, and how many there
// are.
func (c *coder) completions(code byte, seq, count *uint32) {
	coding.Unsigned(&c.Coder, seq)
	if code == opCompleteRun {
		coding.Unsigned(&c.Coder, count)
	}
}

func (r *Returned) fields(c *coder) {
	coding.Unsigned(&c.Coder, &r.Seq)
	coding.Unsigned(&c.Coder, &r.Index)
	c.epochOf(&r.Epoch)
	c.token(&r.Sequence)
	reason := r.Reason
	if r.Lost {
		reason |= lostFlag
	}
	coding.Octet(&c.Coder, &reason, math.MaxUint8)
	r.Reason, r.Lost = reason&^lostFlag, reason&lostFlag != 0
	c.Must(r.Reason <= Skipped && (!r.Lost || r.Reason >= Dead) ||
		r.Reason >= Snoozed && r.Reason <= Cancelled && !r.Lost)
	coding.Unsigned(&c.Coder, &r.Attempts)
	coding.Unsigned(&c.Coder, &r.Expiries)
	coding.Signed(&c.Coder, &r.NotBefore)
	c.Text(&r.Error)
	coding.Unsigned(&c.Coder, &r.Held)
	c.Text(&r.Consumer)
}

func (r *Redrive) fields(c *coder) {
	coding.Unsigned(&c.Coder, &r.Seq)
	c.ascending(&r.Indexes)
}

func (x *End) fields(c *coder) {
	coding.Unsigned(&c.Coder, &x.Seq)
	coding.Octet(&c.Coder, &x.State, queue.Expired)
	c.Must(x.State > queue.Open)
	c.Text(&x.Reason)
}

func (p *Priority) fields(c *coder) {
	coding.Unsigned(&c.Coder, &p.Seq)
	coding.Signed(&c.Coder, &p.Priority)
}

// Deletion orders that an ended submission leaves the history with all that belongs to it. The op is written
// before the store deletes the submission, so that a store that is older than the deletion learns of it at a
// replay. Applying it twice is applying it once: an unknown submission is gone already.
type Deletion struct{ ID queue.SubmissionID }

func (d *Deletion) fields(c *coder) { coding.Unsigned(&c.Coder, &d.ID) }

// Replacement gives a dead chunk another inline content. It stands beside the bytes of the insert,
// which stay as they are: those may be in a blob, which never changes.
type Replacement struct {
	Seq, Index uint32
	ID         queue.SubmissionID // of the same submission
	Bytes      []byte             // they lie in the batch that they are read from
}

func (r *Replacement) fields(c *coder) {
	coding.Unsigned(&c.Coder, &r.Seq)
	coding.Unsigned(&c.Coder, &r.Index)
	coding.Unsigned(&c.Coder, &r.ID)
	c.Bytes(&r.Bytes)
}

// actVersion is the first byte of an act as the store keeps it.
const actVersion = 1

// Act is an entry of the audit log. It is in the batch of the change that it describes, so a crash
// keeps both or neither.
type Act struct {
	Number uint64 // within the shard: rises by at least 1 with each
	queue.Act
}

func (a *Act) fields(c *coder) {
	coding.Unsigned(&c.Coder, &a.Number)
	actFields(&a.Act, c)
}

// actFields are those of the entry itself. The queue is not among them: its journal knows it.
func actFields(a *queue.Act, c *coder) {
	coding.Signed(&c.Coder, &a.At)
	for _, text := range [...]*string{
		&a.Action, &a.Actor, &a.OnBehalfOf, &a.From, &a.RequestID, &a.Target, &a.Before, &a.After, &a.Outcome,
	} {
		c.Text(text)
	}
}

// AppendAct appends the encoding of an act as the store keeps it, described in docs/formats/ops.md.
func AppendAct(dst []byte, a *queue.Act) []byte {
	return appendRow(dst, actVersion, actFields, a)
}

// DecodeAct reads an act that AppendAct wrote.
func DecodeAct(b []byte) (queue.Act, error) { return readRow(b, actVersion, actFields) }

// Snapshot names a copy of the store that is kept elsewhere. From it, and from the journal behind its
// position, a lost store can be made again. From the first one on, every byte that a client brings is in the
// journal. A later one takes its place, so applying it twice is applying it once.
type Snapshot struct {
	Kept     bool     // false: of nothing, snapshots are not kept any more
	Key      string   // of the copy; "": there is none yet, the journal has everything from its first batch on
	Position Position // up to which the rows of the copy are true
	Size     uint64   // of the copy in bytes
	Sum      string   // SHA-256 of the copy, in hex
}

// snapshotVersion is the first byte of a Snapshot as the store keeps it.
const snapshotVersion = 1

func (s *Snapshot) fields(c *coder) {
	if c.Yes(&s.Kept); s.Kept {
		if c.Text(&s.Key); s.Key != "" {
			coding.Unsigned(&c.Coder, &s.Position)
			coding.Unsigned(&c.Coder, &s.Size)
			c.Text(&s.Sum)
			c.Must(s.Position > 0)
		}
	}
}

// AppendSnapshot appends the encoding of a Snapshot as the store keeps it, described in
// docs/formats/ops.md.
func AppendSnapshot(dst []byte, s *Snapshot) []byte {
	return appendRow(dst, snapshotVersion, (*Snapshot).fields, s)
}

// DecodeSnapshot reads a Snapshot that AppendSnapshot wrote.
func DecodeSnapshot(b []byte) (Snapshot, error) {
	return readRow(b, snapshotVersion, (*Snapshot).fields)
}
