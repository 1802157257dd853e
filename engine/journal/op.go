package journal

import (
	"encoding/binary"

	"github.com/quern-queue/quern/engine/queue"
)

// Version is the first byte of every batch: the version of the op encoding, described byte by byte in
// docs/formats/ops.md. A reader refuses versions that it does not know. Version 1 knows no Key of an Insert, and versions before 3 do
// not say which completions have an output; version 4 brought Contents and Output, version 5 Held. Else they are the same.
const (
	Version        = 5
	tellingOutputs = 3 // the first one that does
)

// The op codes. Numbers are never used again for something else.
const (
	opEpoch       = 1
	opInsert      = 2
	opCompleteOne = 3
	opCompleteRun = 4
	opCompleteOld = 5
	opReturn      = 6
	opEnd         = 7
	opPriority    = 8
	opRedrive     = 9
	opAttempt     = 10
	opRule        = 11
	opSchedule    = 12
	opMove        = 13
	opBulk        = 14
	opAct         = 15
	opOutputs     = 16 // stands before the op of completions that all have an output
	opContents    = 17
	opOutput      = 18
	opHeld        = 19
)

// Insert is the op that makes a submission exist.
type Insert struct {
	Seq                uint32
	ID                 queue.SubmissionID
	Chunks             uint32
	Key                uint64 // of the order in which Random visits the chunks
	Mul, Add           uint32 // instead of Key, of a submission whose order is a lattice; Mul is 0 with a Key
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
	Inline, Attachment bool   // whether it has such bytes: in the Contents before it, or in the store
	IdempotencyKey     string
	Fingerprint        [16]byte
	Schedule           string        // that inserted it; "": none
	Scheduled          queue.Time    // the tick that it is for
	Origin             *queue.Origin // of a forwarded one
}

// Completed is one chunk that was completed, under which token.
type Completed struct {
	Seq, Index    uint32
	Epoch         uint32
	Output        bool // the chunk has an output: in an Output before it, or in the store
	OutputUnknown bool // whether it has is not known: an older version wrote the op. It is not encoded
	Sequence      uint64
}

// ReturnReason says why a chunk came back undone.
type ReturnReason uint8

// The reasons. Dead and Skipped end the chunk: Dead may be redriven, Skipped is given up. Redriven and Forwarded are not written
// in a Return: they are what a chunk's history says after a Redrive, and after it went on to another queue, which ends it here.
// The others offer the chunk again, at once or later.
const (
	Failed ReturnReason = iota
	Expired
	Lost
	Dead
	Skipped
	Redriven
	Forwarded
)

// Returned is a chunk that came back undone with a try counted. The counts are the new totals, so applying it twice is
// applying it once. Skipped may also follow Dead: then a dead letter is deleted, and no try is counted.
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

// Redrive offers dead chunks of a submission again, with no try counted. A chunk that is not dead stays as it is, so
// applying it twice is applying it once. If the submission ended with dead chunks, it is open again.
type Redrive struct {
	Seq     uint32
	Indexes []uint32 // ascending, 1 to MaxRedrive
}

// MaxRedrive bounds the chunks of one Redrive, so that applying one op never takes long.
const MaxRedrive = 256

// lostFlag stands in the reason of a Return that ends a chunk because its consumer was lost.
const lostFlag = 0x80

// Encoder builds a batch. Sequence numbers are written as differences to the last one, so a common completion takes 8 to
// 10 bytes.
type Encoder struct {
	buf      []byte
	epoch    uint32
	sequence uint64
	ops      int
}

// Reset starts a new batch in the encoder's buffer. `epoch` is the shard's current one; it is written down so that a batch
// can be read without those before it, which may be trimmed.
func (e *Encoder) Reset(epoch uint32, at queue.Time) {
	e.buf = append(e.buf[:0], Version)
	e.buf = binary.AppendVarint(e.buf, int64(at))
	e.uint(uint64(epoch))
	e.epoch, e.sequence, e.ops = epoch, 0, 0
}

// Bytes is the batch so far, good until the next Reset.
func (e *Encoder) Bytes() []byte { return e.buf }

// Ops is how many ops the batch holds.
func (e *Encoder) Ops() int { return e.ops }

func (e *Encoder) uint(n uint64)     { e.buf = binary.AppendUvarint(e.buf, n) }
func (e *Encoder) int(n int64)       { e.buf = binary.AppendVarint(e.buf, n) }
func (e *Encoder) op(code byte)      { e.buf = append(e.buf, code); e.ops++ }
func (e *Encoder) epochOf(ep uint32) { e.uint(uint64(e.epoch - ep)) }

func (e *Encoder) text(text string) {
	e.uint(uint64(len(text)))
	e.buf = append(e.buf, text...)
}

func (e *Encoder) token(sequence uint64) {
	e.int(int64(sequence - e.sequence))
	e.sequence = sequence
}

// Epoch records that the shard starts a new life.
func (e *Encoder) Epoch(epoch uint32) {
	e.op(opEpoch)
	e.uint(uint64(epoch))
	e.epoch = epoch
}

// maxRun bounds a run of completions, so that applying one op never takes long.
const maxRun = 256

// Complete records completions; runs of one submission are written together.
func (e *Encoder) Complete(items []Completed) {
	for i := 0; i < len(items); {
		if items[i].Output {
			e.buf = append(e.buf, opOutputs)
		}
		if items[i].Epoch != e.epoch {
			e.completeOld(items[i])
			i++
			continue
		}
		run := i + 1
		for run < len(items) && run-i < maxRun && items[run].Seq == items[i].Seq && items[run].Epoch == e.epoch &&
			items[run].Output == items[i].Output {
			run++
		}
		if run == i+1 {
			e.op(opCompleteOne)
			e.uint(uint64(items[i].Seq))
		} else {
			e.op(opCompleteRun)
			e.uint(uint64(items[i].Seq))
			e.uint(uint64(run - i))
		}
		for ; i < run; i++ {
			e.uint(uint64(items[i].Index))
			e.token(items[i].Sequence)
		}
	}
}

func (e *Encoder) completeOld(c Completed) {
	e.op(opCompleteOld)
	e.uint(uint64(c.Seq))
	e.uint(uint64(c.Index))
	e.epochOf(c.Epoch)
	e.token(c.Sequence)
}

// Return records a chunk that came back undone.
func (e *Encoder) Return(r Returned) {
	named := r.Consumer != "" || r.Held != 0
	if named {
		e.op(opAttempt)
	} else {
		e.op(opReturn)
	}
	e.uint(uint64(r.Seq))
	e.uint(uint64(r.Index))
	e.epochOf(r.Epoch)
	e.token(r.Sequence)
	reason := byte(r.Reason)
	if r.Lost {
		reason |= lostFlag
	}
	e.buf = append(e.buf, reason)
	e.uint(uint64(r.Attempts))
	e.uint(uint64(r.Expiries))
	e.int(int64(r.NotBefore))
	e.text(r.Error)
	if named {
		e.uint(uint64(r.Held))
		e.text(r.Consumer)
	}
}

// Redrive records that dead chunks are offered again.
func (e *Encoder) Redrive(r Redrive) {
	e.op(opRedrive)
	e.uint(uint64(r.Seq))
	e.ascending(r.Indexes)
}

// End records a submission's end by decision.
func (e *Encoder) End(x End) {
	e.op(opEnd)
	e.uint(uint64(x.Seq))
	e.buf = append(e.buf, byte(x.State))
	e.text(x.Reason)
}

// Priority records a change of priority.
func (e *Encoder) Priority(p Priority) {
	e.op(opPriority)
	e.uint(uint64(p.Seq))
	e.int(p.Priority)
}

// Insert records a submission.
func (e *Encoder) Insert(s *Insert) {
	e.op(opInsert)
	e.buf = AppendInsert(e.buf, s)
}
