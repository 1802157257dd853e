package machine

import (
	"math"
	"sort"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/indexset"
)

// Record has all data of a submission but the availability of its chunks, which the backlog keeps.
//
// Its size matters, as 10^6 of them are kept, and so does the order of its fields: picks and completions spend most of
// their time waiting for memory. It is three cache lines of 64 bytes (TestRecordLayout).
type Record struct {
	// Fields that completions and all other calls read.
	Sub       *backlog.Submission // nil once ended
	Tries     map[uint32]*Try
	more      *details
	AppliedAt journal.Position // last op that is in here
	Holds     reserver.List
	Chunks    uint32
	Done      uint32
	Seq       uint32
	State     queue.SubmissionState
	Inline    bool
	Attached  bool
	Dirty     bool // in the list of the next checkpoint
	Ending    bool // its end is on its way to the disk: nothing can be finished any more
	Parked    bool // hidden until run_at, and while it waits for others
	Stored    bool // has its row
	Reshaped  bool // its spec changed since

	// Fields that a reservation carries besides.
	ID       queue.SubmissionID
	Prefix   string
	Known    queue.Meta // the submission's, once someone reserved from it
	Priority int64
	Dead     uint32 // not those given up
	Begun    Begun  // when its first reservation was made

	// Fields that most submissions never need.
	Ended        *ending
	Deads        *indexset.Set // of an open one: its dead chunks
	Delays       *indexset.Set // its chunks that wait for a retry
	Outputs      OutputCount
	Forwards     uint32 // of the chunks given up, those that have gone on to another queue
	Waiting      uint32 // chunks that wait for a retry time, or are shelved
	Shelved      uint32 // of them
	Lent         uint32 // suspects that are offered or held
	Ready        uint32 // of them, those that no one holds
	Dying        uint32 // chunks whose end is on its way to the disk
	Skips        uint32 // chunks given up
	Checkpointed bool   // has its history row, or is about to get it
	Reopened     bool   // the history may still have it
	met          bool   // the value of Try.met for tries that the recount has met, and without a recount
}

// details are the fields that few submissions have.
type details struct {
	Template, Group, Trace string
	Operations, maxFailed  uint32
	attempts               uint16 // max_attempts of its own, 0: the queue's
	policy                 queue.OnExhausted
	retry                  *queue.Backoff // nil: the queue's
	timeout                time.Duration  // of an attempt, 0: the queue's
	RunAt, DeadDeadline    queue.Time
	Schedule               string     // that inserted it
	Scheduled              queue.Time // the tick that it is for
	origin                 *queue.Origin
	Blobs                  *Blobs        // that have its bytes
	Unique                 *queue.Unique // nil: it has no unique key
	After                  *queue.After  // nil: it never waited for another submission
	Waits                  *Waits        // of one that is open; nil: it waits for none
}

// Blobs are the blobs of a submission.
type Blobs struct {
	journal.Blobs
	Intact bool // they are known to be there: it was inserted in this life, or the start has looked
}

// Part is the part that has the first of these chunks, and how many of them, from the first on, are in it.
func (b *Blobs) Part(indexes []uint32) (part, n int) {
	behind := sort.Search(len(b.Firsts), func(i int) bool { return b.Firsts[i] > indexes[0] })
	part = behind - 1
	for n < len(indexes) && indexes[n] >= b.Firsts[part] && (behind == len(b.Firsts) || indexes[n] < b.Firsts[behind]) {
		n++
	}
	return part, n
}

// Try is the history of one chunk that did not succeed at first.
//
// A chunk has a Try from its first failure on, until it is completed. So chunks that fail take memory, and
// chunks that succeed at once take none.
type Try struct {
	NotBefore queue.Time
	sequence  uint64 // of the last token
	epoch     uint32
	Attempts  uint16
	Expiries  uint8
	Reason    journal.ReturnReason
	Waiting   bool // for notBefore, or shelved
	met       bool // by the recount of its submission: as Record.met, or not yet
	Redrives  uint16
	Suspect   suspicion
	since     queue.Time // when it was shelved, or lent
	Number    uint64     // of a forwarded chunk: its place in the outbox
	To        string     // where it went
	Err       string
	Past      []queue.Attempt // the last queue.MaxAttemptsKept, oldest first
}

// OneMore is n+1, or n where the type has no larger number: a counter of tries stays at
// its end and never begins again at 0.
func OneMore[T uint8 | uint16](n T) T { return max(n, n+1) }

// Gone says that the chunk is not offered again, unless someone redrives it.
func (t *Try) Gone() bool {
	return t.Reason == journal.Dead || t.Reason == journal.Skipped || t.Reason == journal.Forwarded
}

// over says that the reservation ended without a result. The consumer may still send one, and it counts.
func (t *Try) over() bool {
	return t.Reason == journal.Expired || t.Reason == journal.Lost || t.Reason == journal.Snoozed
}

// delayed says that the chunk waits, and that its time has come at `at`. A timer entry for an earlier time is moot: the
// chunk was offered meanwhile and failed again, or its wait was made longer.
func (t *Try) delayed(at queue.Time) bool {
	return t.Waiting && t.Suspect != Shelved && t.NotBefore <= at
}

// ended adds a try to the history of the chunk.
func (t *Try) ended(a queue.Attempt) {
	if n := len(t.Past); n > 0 {
		t.Past[n-1].Error = strings.Clone(Clip(t.Past[n-1].Error, queue.MaxPastErrorBytes))
		if n == queue.MaxAttemptsKept {
			t.Past = append(t.Past[:0], t.Past[1:]...)
		}
	}
	t.Past = append(t.Past, a)
}

var noDetails = details{Operations: 1}

// Details are the fields that few submissions have; all zero if this one has none. They must not be changed.
func (r *Record) Details() *details {
	if r.more == nil {
		return &noDetails
	}
	return r.more
}

// NewRecord is a submission as it is inserted.
func NewRecord(s *journal.Insert) *Record {
	r := RecordOf(s)
	return &r
}

// RecordOf is NewRecord for a record that is looked at and forgotten: it need not be on the heap.
func RecordOf(s *journal.Insert) Record {
	r := Record{
		ID: s.ID, Seq: s.Seq, Chunks: s.Chunks, Inline: s.Inline, Attached: s.Attachment,
		Priority: s.Priority, Prefix: s.Prefix, Holds: reserver.NewList(),
	}
	d := details{
		Template: s.Template, Group: s.Group, Trace: s.Trace, Operations: max(s.OperationsPerChunk, 1),
		maxFailed: s.MaxFailed, attempts: s.MaxAttempts,
		policy: s.OnExhausted, retry: s.RetryBackoff, timeout: s.AttemptTimeout,
		RunAt: s.RunAt, DeadDeadline: s.DeadDeadline, origin: s.Origin,
		Schedule: s.Schedule, Scheduled: s.Scheduled,
		Unique: s.Unique, After: s.After,
	}
	if s.Blobs != nil {
		d.Blobs = &Blobs{Blobs: *s.Blobs}
	}
	if d != noDetails {
		r.more = new(d) // a copy: d itself stays off the heap, as most have no details
	}
	return r
}

// Spec encodes the unchanging part of a record that has not ended, as it came in. meta is
// its own: the caller may need it too.
func (r *Record) Spec(meta queue.Meta) []byte {
	d := r.Details()
	insert := journal.Insert{
		Seq: r.Seq, ID: r.ID, Chunks: r.Chunks, Key: r.Sub.Order(), Priority: r.Priority, Meta: meta,
		Prefix: r.Prefix, Template: d.Template, Group: d.Group, Trace: d.Trace, OperationsPerChunk: d.Operations,
		RunAt: d.RunAt, DeadDeadline: d.DeadDeadline, MaxAttempts: d.attempts, OnExhausted: d.policy,
		MaxFailed: d.maxFailed, Inline: r.Inline,
		Attachment: r.Attached, Schedule: d.Schedule, Scheduled: d.Scheduled,
		Origin: d.origin, RetryBackoff: d.retry, Unique: d.Unique, After: d.After, AttemptTimeout: d.timeout,
		Bytes: r.Sub.Bytes,
	}
	if d.Blobs != nil {
		insert.Blobs = &d.Blobs.Blobs
	}
	return journal.AppendInsert(make([]byte, 0, specRoom), &insert)
}

// over says whether nothing is left to do. It asks the backlog first. That answers for nearly all completions from a
// cache line that they have changed a moment ago, and Skips is in one that they do not need.
func (r *Record) over() bool {
	return r.Sub.Available() == 0 && r.Done+r.Dead+r.Skips == r.Chunks
}

// Info describes the submission as it is now. `available` is the number of its chunks that are not
// taken.
func (r *Record) Info(queueName string, meta queue.Meta, available uint32) queue.Submission {
	d := r.Details()
	s := queue.Submission{
		ID: r.ID, Queue: queueName, State: r.State, Group: d.Group, Meta: meta, Priority: r.Priority, Chunks: r.Chunks,
		Waiting: r.Waiting, Reserved: r.Holds.Len(), Done: r.Done, Dead: r.Dead, Skipped: r.Skips,
		Forwarded: r.Forwards, OperationsPerChunk: d.Operations,
		Prefix: r.Prefix, Template: d.Template, HasAttachment: r.Attached, Created: r.ID.Time(), RunAt: d.RunAt,
		DeadDeadline: d.DeadDeadline, MaxAttempts: d.attempts, OnExhausted: d.policy, MaxFailedChunks: d.maxFailed,
		Trace:    d.Trace,
		Schedule: d.Schedule, Scheduled: d.Scheduled, Origin: d.origin, RetryBackoff: d.retry, Unique: d.Unique,
		After: d.After, AttemptTimeout: d.timeout,
	}
	if d.Waits != nil {
		s.WaitsFor = d.Waits.Left
	}
	switch {
	case r.State != queue.Open:
		s.Finished, s.Failure, s.FailedChunk = r.Ended.At, r.Ended.reason, r.Ended.failed
		s.Waiting, s.Reserved = 0, 0
		s.Skipped = r.Chunks - r.Done - r.Dead
	case r.Parked:
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

// ruling is the effect of all rules on the submission; Unruled if it is not in the backlog.
func (r *Record) ruling() queue.Ruling {
	if r.Sub == nil {
		return queue.Unruled
	}
	return r.Sub.Ruling()
}

// Meta is the submission's strategic metadata; the backlog keeps it while the submission is open.
func (r *Record) Meta() queue.Meta {
	switch {
	case r.Known != nil:
		return r.Known
	case r.Sub != nil:
		return r.Sub.Meta()
	}
	return r.Ended.Meta
}

// First is the index that the content of chunk 0 has in the prefix or template.
func (r *Record) First() uint32 {
	if o := r.Details().origin; o != nil {
		return o.First
	}
	return 0
}

// Died is when the last try ended, which is when a dead chunk died; 0: not known.
func (t *Try) Died() queue.Time {
	if n := len(t.Past); n > 0 {
		return t.Past[n-1].Ended
	}
	return 0
}

// Begun is when the first chunk of a submission was reserved: this many steps after its insert, the first one being 1.
// It is only in memory, as reservations are: for a submission that was read from the disk it is not known.
type Begun uint32

const (
	notBegun    Begun = 0
	begunBefore Begun = math.MaxUint32

	begunStep = 100 * time.Millisecond // 13 years fit
)

// begin notes the first reservation.
func (b *Begun) begin(inserted, now queue.Time) {
	if *b == notBegun {
		*b = Begun(min(max(now.Sub(inserted)/begunStep, 0)+1, time.Duration(begunBefore)))
	}
}

// Since is the moment; 0: there was none, or it is not known.
func (b Begun) Since(inserted queue.Time) queue.Time {
	if b == notBegun || b == begunBefore {
		return 0
	}
	return inserted.Add(time.Duration(b-1) * begunStep)
}
