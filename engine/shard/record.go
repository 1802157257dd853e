package shard

import (
	"strings"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// record is what the shard knows of a submission beyond its chunks' availability, which the backlog keeps.
//
// Its size counts, as 10^6 of them are kept, and so does the order of its fields: a pick and a completion wait for memory more than for
// anything else. It is three cache lines of 64 bytes (TestRecordLayout).
type record struct {
	// What completions read, and all else.
	sub      *backlog.Submission // nil once ended
	tries    map[uint32]*try
	more     *details
	applied  journal.Position // last op that is in here
	holds    reserver.List
	chunks   uint32
	done     uint32
	seq      uint32
	state    queue.SubmissionState
	inline   bool
	attached bool
	dirty    bool // in the list of the next checkpoint
	ending   bool // its end is on its way to the disk: nothing can be finished any more
	parked   bool // hidden until run_at
	stored   bool // has its row
	reshaped bool // its spec changed since

	// What a reservation tells besides.
	id       queue.SubmissionID
	prefix   string
	known    queue.Meta // the submission's, once someone reserved from it
	priority int64
	dead     uint32 // not those given up
	skips    uint32 // given up

	// What most submissions never need.
	ended        *ending
	deads        *indexes // of an open one: its dead chunks
	delays       *indexes // its chunks that wait for a retry
	outputs      outputCount
	forwards     uint32 // of the chunks given up, those that have gone on to another queue
	waiting      uint32 // chunks that wait for a retry time, or are shelved
	shelved      uint32 // of them
	lent         uint32 // suspects that are offered or held
	ready        uint32 // of them, those that no one holds
	dying        uint32 // chunks whose end is on its way to the disk
	checkpointed bool   // has its history row, or is about to get it
	reopened     bool   // the history may still have it
	replaced     bool   // it ended, and was opened again as another record
	met          bool   // what try.met is when a recount has met it, and while there is none
}

// details are the fields that few submissions have.
type details struct {
	template, group, trace string
	operations, maxFailed  uint32
	attempts               uint16 // max_attempts of its own, 0: the queue's
	policy                 queue.OnExhausted
	runAt, deadDeadline    queue.Time
	key                    string
	fingerprint            [16]byte
	schedule               string     // that inserted it
	scheduled              queue.Time // the tick that it is for
	origin                 *queue.Origin
}

// try is the history of one chunk that did not succeed at first.
type try struct {
	notBefore queue.Time
	sequence  uint64 // of the last token
	epoch     uint32
	attempts  uint16
	expiries  uint8
	reason    journal.ReturnReason
	waiting   bool // for notBefore, or shelved
	met       bool // by the recount of its submission: as record.met, or not yet
	redrives  uint16
	suspect   suspicion
	since     queue.Time // when it was shelved, or lent
	number    uint64     // of a forwarded chunk: its place in the outbox
	to        string     // where it went
	err       string
	past      []queue.Attempt // the last queue.MaxAttemptsKept, oldest first
}

// gone says that the chunk is not offered again, unless someone redrives it.
func (t *try) gone() bool {
	return t.reason == journal.Dead || t.reason == journal.Skipped || t.reason == journal.Forwarded
}

// delayed says that the chunk waits for a time that has come at `at`. An entry of the timers for an earlier one stands for nothing:
// the chunk was offered meanwhile, and failed again, or was told to wait longer.
func (t *try) delayed(at queue.Time) bool {
	return t.waiting && t.suspect != shelved && t.notBefore <= at
}

// ended adds a try to the history of the chunk.
func (t *try) ended(a queue.Attempt) {
	if n := len(t.past); n > 0 {
		t.past[n-1].Error = strings.Clone(clip(t.past[n-1].Error, queue.MaxPastErrorBytes))
		if n == queue.MaxAttemptsKept {
			t.past = append(t.past[:0], t.past[1:]...)
		}
	}
	t.past = append(t.past, a)
}

var noDetails = details{operations: 1}

func (r *record) details() *details {
	if r.more == nil {
		return &noDetails
	}
	return r.more
}

func newRecord(s *journal.Insert) *record {
	r := &record{
		id: s.ID, seq: s.Seq, chunks: s.Chunks, inline: s.Inline, attached: s.Attachment,
		priority: s.Priority, prefix: s.Prefix, holds: reserver.NewList(),
	}
	d := details{
		template: s.Template, group: s.Group, trace: s.Trace, operations: max(s.OperationsPerChunk, 1),
		maxFailed: s.MaxFailed, attempts: s.MaxAttempts,
		policy: s.OnExhausted, runAt: s.RunAt, deadDeadline: s.DeadDeadline, key: s.IdempotencyKey, fingerprint: s.Fingerprint,
		origin:   s.Origin,
		schedule: s.Schedule, scheduled: s.Scheduled,
	}
	if d != noDetails {
		r.more = &d
	}
	return r
}

// spec encodes the record's unchanging part, as it came in. The submission has not ended yet.
func (r *record) spec() []byte {
	d := r.details()
	key, mul, add := r.sub.Order()
	return journal.AppendInsert(nil, &journal.Insert{
		Seq: r.seq, ID: r.id, Chunks: r.chunks, Key: key, Mul: mul, Add: add, Priority: r.priority, Meta: r.sub.Meta(),
		Prefix: r.prefix, Template: d.template, Group: d.group, Trace: d.trace, OperationsPerChunk: d.operations,
		RunAt: d.runAt, DeadDeadline: d.deadDeadline, MaxAttempts: d.attempts, OnExhausted: d.policy,
		MaxFailed: d.maxFailed, Inline: r.inline,
		Attachment: r.attached, IdempotencyKey: d.key, Fingerprint: d.fingerprint, Schedule: d.schedule, Scheduled: d.scheduled,
		Origin: d.origin,
	})
}

// over says whether nothing is left to do.
func (r *record) over() bool { return r.done+r.dead+r.skips == r.chunks }

// info is what is known about the submission now. `available` of its chunks are not taken.
func (r *record) info(queueName string, meta queue.Meta, available uint32) queue.Submission {
	d := r.details()
	s := queue.Submission{
		ID: r.id, Queue: queueName, State: r.state, Group: d.group, Meta: meta, Priority: r.priority, Chunks: r.chunks,
		Waiting: r.waiting, Reserved: r.holds.Len(), Done: r.done, Dead: r.dead, Skipped: r.skips,
		Forwarded: r.forwards, OperationsPerChunk: d.operations,
		Prefix: r.prefix, Template: d.template, HasAttachment: r.attached, Created: r.id.Time(), RunAt: d.runAt,
		DeadDeadline: d.deadDeadline, MaxAttempts: d.attempts, OnExhausted: d.policy, MaxFailedChunks: d.maxFailed, Trace: d.trace,
		Schedule: d.schedule, Scheduled: d.scheduled, Origin: d.origin,
	}
	switch {
	case r.state != queue.Open:
		s.Finished, s.Failure, s.FailedChunk = r.ended.at, r.ended.reason, r.ended.failed
		s.Waiting, s.Reserved = 0, 0
		s.Skipped = r.chunks - r.done - r.dead
	case r.parked:
		s.Waiting += available
	default:
		switch r.ruling() {
		case queue.PausedByRule:
			s.Paused = available
		case queue.BlockedByRule:
			s.Blocked = available
		default:
			s.Ready = available
		}
	}
	return s
}

// ruling is what all rules say of the submission; of one that is not in the backlog nothing.
func (r *record) ruling() queue.Ruling {
	if r.sub == nil {
		return queue.Unruled
	}
	return r.sub.Ruling()
}

// meta is the submission's strategic metadata; the backlog keeps it while the submission is open.
func (r *record) meta() queue.Meta {
	switch {
	case r.known != nil:
		return r.known
	case r.sub != nil:
		return r.sub.Meta()
	}
	return r.ended.meta
}
