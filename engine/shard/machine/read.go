package machine

// Reads of submissions for callers: filters, pages and chunks. They look at a bounded number of submissions or chunks
// in one hold of the mutex, so a list never delays a reserve by more than a slice.

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// Info describes a submission to callers.
func Info(r *Record, queueName string) queue.Submission {
	if r.Sub == nil {
		return r.Info(queueName, r.Ended.Meta, 0)
	}
	return r.Info(queueName, r.Sub.Meta(), r.Sub.Available())
}

// ListSlice is how many submissions one hold of the mutex looks at.
const ListSlice = 1000

// EndedRecord reads a history row, and the backlog's part of it.
func EndedRecord(row *checkpoint.Ended) (*Record, *backlog.Submission, error) {
	spec, err := journal.DecodeInsert(row.Spec)
	if err != nil {
		return nil, nil, fmt.Errorf("store: history of %s: %w", row.ID, err)
	}
	r := NewRecord(spec)
	r.State = row.State
	n, size := binary.Uvarint(row.Final)
	if size <= 0 || n > uint64(len(row.Final)-size) {
		return nil, nil, ErrSnapshot
	}
	r.Ended = &ending{At: row.Finished, Meta: spec.Meta, reason: string(row.Final[size : size+int(n)])}
	chunks, err := r.restore(row.Final[size+int(n):])
	if err != nil {
		return nil, nil, err
	}
	sub, err := backlog.New().Restore(specOf(spec), chunks)
	return r, sub, err
}

// Filter says which submissions a list shows. Empty States are all; every entry of Meta has to match.
type Filter struct {
	States   []queue.SubmissionState
	Meta     queue.Meta
	Schedule string             // that inserted it; "": any, or none
	Before   queue.SubmissionID // only smaller ids; 0: any
	From     queue.SubmissionID // only this and larger ids
}

// Matches says whether a list with this filter has the submission.
func (f *Filter) Matches(r *Record) bool {
	if len(f.States) > 0 && !slices.Contains(f.States, r.State) {
		return false
	}
	return (f.Schedule == "" || r.Details().Schedule == f.Schedule) && f.ofMeta(r.Meta())
}

func (f *Filter) ofMeta(meta queue.Meta) bool {
	for _, entry := range f.Meta {
		if value, there := meta.Find(entry.Key); !there || value != entry.Value {
			return false
		}
	}
	return true
}

// ChunkSlice is how many chunks one hold of the mutex looks at, chunkSlices how many slices
// one call looks at most: a sparse state in a huge submission is found over several calls.
const (
	ChunkSlice  = 1000
	ChunkSlices = 200
)

// Scan appends the chunks in these states from *next on, at most limit of them, and looks
// at no more than ChunkSlice.
func (r *Record) Scan(states []queue.ChunkState, next *uint32, limit int, list *[]queue.Chunk,
	chunk func(uint32) queue.Chunk) {
	for n := 0; n < ChunkSlice && *next < r.Chunks && len(*list) < limit; n++ {
		c := chunk(*next)
		if len(states) == 0 || slices.Contains(states, c.State) {
			*list = append(*list, c)
		}
		*next++
	}
}

// Chunk tells where one chunk of an open submission stands.
func (m *Machine) Chunk(r *Record, index uint32) queue.Chunk {
	c := queue.Chunk{Index: index, State: queue.ChunkDone}
	if t := r.Tries[index]; t != nil {
		t.Describe(&c)
	}
	if slot, held := m.Holds.Find(r.Seq, index); held {
		h := m.Holds.At(slot)
		c.State, c.Consumer, c.Since, c.Deadline = queue.ChunkReserved, m.Holds.Consumer(h), h.Reserved, h.Deadline
		c.Reported = m.Holds.Reported(h)
	} else if r.Sub.IsAvailable(index) {
		c.State = queue.ChunkReady
		if r.Parked {
			c.State, c.NotBefore = queue.ChunkWaiting, r.Details().RunAt
		}
	}
	return c
}

// Describe fills in the attempts of the chunk.
func (t *Try) Describe(c *queue.Chunk) {
	c.Attempts, c.Error = t.Attempts, t.Err
	switch {
	case t.Reason == journal.Dead:
		c.State = queue.ChunkDead
	case t.Reason == journal.Skipped:
		c.State = queue.ChunkSkipped
	case t.Reason == journal.Forwarded:
		c.State, c.To = queue.ChunkForwarded, t.To
	case t.Waiting:
		c.State, c.NotBefore = queue.ChunkWaiting, t.NotBefore
	}
}

// EndedChunk tells where one chunk of an ended submission stands.
func EndedChunk(r *Record, sub *backlog.Submission, index uint32) queue.Chunk {
	c := queue.Chunk{Index: index, State: queue.ChunkDone}
	if sub.IsAvailable(index) {
		c.State = queue.ChunkSkipped
	}
	if t := r.Tries[index]; t != nil {
		t.Describe(&c)
	}
	return c
}

// OfSpec is Matches for the unchanging part of a submission.
func (f *Filter) OfSpec(spec *journal.Insert) bool {
	return cmp.Or(f.Schedule, spec.Schedule) == spec.Schedule && f.ofMeta(spec.Meta)
}

// MatchesEnded says whether the filter means a row of the history, of a state that it means.
func (f *Filter) MatchesEnded(e *checkpoint.Ended) (bool, error) {
	if len(f.Meta) == 0 && f.Schedule == "" {
		return true, nil
	}
	spec, err := journal.DecodeInsert(e.Spec)
	if err != nil {
		return false, fmt.Errorf("store: history of %s: %w", e.ID, err)
	}
	return f.OfSpec(spec), nil
}

// FirstState is the state of a submission at its insert, with no chunk done. It replaces a state
// that was lost.
func FirstState(spec []byte) ([]byte, error) {
	s, err := journal.DecodeInsert(spec)
	if err != nil {
		return nil, err
	}
	return NewRecord(s).appendSnapshot(nil, nil, backlog.New().Insert(specOf(s))), nil
}

// Overdue says that a chunk is held for longer than the queue's reservation timeout: its
// consumer extends it, or asked for longer.
func Overdue(m *Machine, h *reserver.Hold, now queue.Time) bool {
	return h.Reserved.Add(m.Settings.ReservationTimeout) < now
}

// HeldChunk describes a reservation.
func HeldChunk(m *Machine, r *Record, h *reserver.Hold, now queue.Time) queue.HeldChunk {
	return queue.HeldChunk{
		Chunk: queue.ChunkID{Submission: r.ID, Index: h.Index}, Meta: r.Meta(), Consumer: m.Holds.Consumer(h),
		Attempt:  h.Attempt,
		Reserved: h.Reserved, Deadline: h.Deadline, Overdue: Overdue(m, h, now),
		Finishing: h.State == reserver.Finishing, Reported: m.Holds.Reported(h),
	}
}

// Questions about strategies change nothing and must not slow down other calls: each is answered in short holds of the
// mutex, between which all others have a turn. So a long answer covers several moments.

// LookMost is how much one hold of the mutex looks at for a question: submissions, times the
// blocks or branches that each is held against, tenants, and chunks picked or given back.
const LookMost = 1000

// Looks are how much one hold of the mutex has looked at.
type Looks int

// TopMost is how many values and tenants are named, mostValues how many values of one block are counted apart.
const (
	TopMost    = 10
	MostValues = 10_000
)
