// Package submissions answers calls about open and ended submissions: their chunks, their
// outputs, and their data on the disk. It has no durable state. It reads open submissions
// from the machine, and ended ones from the store.
package submissions

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/locks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/store"
)

// Submissions are the open and ended submissions, with their chunks and outputs. The places of a submission, in the
// order in which calls look for it:
//
//	open     memory (machine.Record)
//	ended    memory, until a checkpoint has written it (Endings)
//	ended    the history in the store
//	unknown  its retention is over, or its id was never given out
//
// A submission moves down that list, and back to the top by a redrive. A reader first looks in memory, then in the
// history, never the other way round: so it cannot miss a submission that moves meanwhile.
type Submissions struct {
	shell.Shell
	queue   string
	history *locks.RWMutex[shell.InHistory] // held for reading while nothing may leave the history
	bytes   Bytes
	counted counted
	reading chan struct{} // has as many as read outputs now
}

// Bytes reads the contents and the attachment of a submission.
type Bytes interface {
	Chunks(ctx context.Context, r *machine.Record, indexes []uint32, most int) ([][]byte, error)
	Attachment(ctx context.Context, r *machine.Record) ([]byte, error)
}

// New returns the calls about submissions. history is the lock that a writer holds while it
// removes rows of the history.
func New(s shell.Shell, queueName string, bytes Bytes, history *locks.RWMutex[shell.InHistory]) *Submissions {
	return &Submissions{Shell: s, queue: queueName, bytes: bytes, history: history,
		reading: make(chan struct{}, outputReaders)}
}

// Get returns a submission, open or ended.
func (s *Submissions) Get(ctx context.Context, id queue.SubmissionID) (queue.Submission, error) {
	var sub queue.Submission
	known := false
	s.Look(func(m *machine.Machine) {
		if r := m.Record(id); r != nil {
			sub, known = machine.Info(r, s.queue), true
		}
	})
	if known {
		return sub, nil
	}
	row, found, err := s.Store().History.Ended(ctx, id)
	if err != nil {
		return queue.Submission{}, err
	}
	if !found {
		return queue.Submission{}, queue.UnknownSubmission(id)
	}
	r, _, err := machine.EndedRecord(&row)
	if err != nil {
		return queue.Submission{}, err
	}
	return r.Info(s.queue, r.Ended.Meta, 0), nil
}

// Open says whether a submission is open, as far as memory knows.
func (s *Submissions) Open(id queue.SubmissionID) (open bool) {
	s.Look(func(m *machine.Machine) { open = m.Live(id) != nil })
	return open
}

// Trace is the trace context of a submission that is in memory, or "".
func (s *Submissions) Trace(id queue.SubmissionID) (trace string) {
	s.Look(func(m *machine.Machine) {
		if r := m.Record(id); r != nil {
			trace = r.Details().Trace
		}
	})
	return trace
}

// About how many submissions one list looks at: in memory, and in the history, where they are read and decoded.
const (
	listLook  = 20 * machine.ListSlice
	endedLook = 2 * queue.MaxListLimit
)

// List returns up to `limit` submissions with ids below `before` (0: from the newest), newest first, and the id below
// which to go on: 0 when there are no more. A list that would have to look at too many submissions ends early, perhaps
// with none.
func (s *Submissions) List(ctx context.Context, f machine.Filter, before queue.SubmissionID,
	limit int) (list []queue.Submission, next queue.SubmissionID, err error) {
	before = cmp.Or(before, math.MaxInt64)
	if f.Before != 0 {
		before = min(before, f.Before)
	}
	memory, next := s.listMemory(ctx, &f, before, limit)
	history, to, err := s.listHistory(ctx, &f, before, limit)
	if err != nil {
		return nil, 0, err
	}
	next = max(next, to) // down to this id both lists are complete
	all := append(memory, history...)
	all = slices.DeleteFunc(all, func(x queue.Submission) bool { return x.ID < next })
	slices.SortStableFunc(all, func(a, b queue.Submission) int { return -cmp.Compare(a.ID, b.ID) })
	// checkpointed in between: memory's comes first
	all = slices.CompactFunc(all, func(a, b queue.Submission) bool { return a.ID == b.ID })
	n, answer := 0, access.Gather(ctx)
	for n < min(limit, len(all)) && (answer.Fits(queue.SubmissionBytes(&all[n])) || n == 0) {
		n++
	}
	// The next page begins behind the last id of this one.
	if n < len(all) {
		all, next = all[:n], all[n-1].ID
	}
	if next <= f.From {
		next = 0
	}
	return all, next, nil
}

// It looks at a slice at a time, and gives up the mutex in between. A submission that is inserted meanwhile is newer
// than the rest of the list, and on no later page.
func (s *Submissions) listMemory(ctx context.Context, f *machine.Filter, before queue.SubmissionID,
	limit int) (list []queue.Submission, to queue.SubmissionID) {
	answer, full, over := access.Gather(ctx), false, false
	visit := func(r *machine.Record) bool {
		if over = r.ID < f.From; over {
			return false
		}
		if f.Matches(r) {
			list = append(list, machine.Info(r, s.queue))
			full = !answer.Fits(queue.SubmissionBytes(&list[len(list)-1])) || len(list) == limit
		}
		return !full
	}
	for looked := 0; before != 0 && !full && looked < listLook; looked += machine.ListSlice {
		s.Look(func(m *machine.Machine) { before = m.Order.Before(before, machine.ListSlice, visit) })
		if over {
			return list, 0
		}
	}
	return list, before
}

// EndStates are the states that the history holds.
func EndStates() []queue.SubmissionState {
	return []queue.SubmissionState{queue.Completed, queue.CompletedWithDead, queue.Failed, queue.Cancelled,
		queue.Expired}
}

// The store gets the filter, and passes over pages without its values: for a rare value most of a long history is never
// read.
func (s *Submissions) listHistory(ctx context.Context, f *machine.Filter, before queue.SubmissionID,
	limit int) (list []queue.Submission, to queue.SubmissionID, err error) {
	scan := store.EndedScan{Before: before, States: f.States, Meta: f.Meta, Limit: limit, Bytes: queue.MaxAnswerBytes,
		Look: endedLook}
	scan.Want = func(e *checkpoint.Ended) (bool, error) {
		if s.remembers(e.ID) {
			return false, nil
		}
		return f.MatchesEnded(e)
	}
	if len(scan.States) == 0 {
		scan.States = EndStates()
	}
	rows, to, err := s.Store().History.ScanEnded(ctx, scan)
	if err != nil {
		return nil, 0, err
	}
	for i := range rows {
		r, _, err := machine.EndedRecord(&rows[i])
		if err != nil {
			return nil, 0, err
		}
		if r.ID >= f.From {
			list = append(list, r.Info(s.queue, r.Ended.Meta, 0))
		}
	}
	return list, to, nil
}

// remembers says that the submission is in memory, which is newer than the history: it may have been opened again
// since, and have another end.
func (s *Submissions) remembers(id queue.SubmissionID) (is bool) {
	s.Look(func(m *machine.Machine) { is = m.Record(id) != nil })
	return is
}

// Chunks returns up to `limit` chunks from index `from` on whose state is one of `states`
// (empty: all), as many as fit into an answer, and the index to go on from: a page may hold
// fewer than `limit`, or none, before the end. next is the number of chunks at the end.
// The number of slices is bounded, because a filter by state may match nothing in four billion chunks.
func (s *Submissions) Chunks(ctx context.Context, id queue.SubmissionID, states []queue.ChunkState, from uint32,
	limit int) (list []queue.Chunk, next uint32, err error) {
	next = from
	for n := 0; n < machine.ChunkSlices && len(list) < limit; n++ {
		total, seq, err := s.chunkSlice(ctx, id, states, &next, limit, &list)
		if err != nil {
			return nil, 0, err
		}
		if next = min(next, total); next == total || n == machine.ChunkSlices-1 || len(list) >= limit {
			return s.addOutputs(ctx, id, seq, list, next)
		}
	}
	return list, next, nil
}

// A submission may end between two slices. The next slice then comes from the history, at the same index.
func (s *Submissions) chunkSlice(ctx context.Context, id queue.SubmissionID, states []queue.ChunkState, next *uint32,
	limit int, list *[]queue.Chunk) (total, seq uint32, err error) {
	open := false
	s.Look(func(m *machine.Machine) {
		if r := m.Live(id); r != nil {
			open, total, seq = true, r.Chunks, r.Seq
			r.Scan(states, next, limit, list, func(index uint32) queue.Chunk { return m.Chunk(r, index) })
		}
	})
	if open {
		return total, seq, nil
	}
	return s.endedChunks(ctx, id, states, next, limit, list)
}

// endedChunks looks at the chunks of an ended submission, from its last snapshot.
func (s *Submissions) endedChunks(ctx context.Context, id queue.SubmissionID, states []queue.ChunkState, next *uint32,
	limit int, list *[]queue.Chunk) (total, seq uint32, err error) {
	row, err := s.EndedRow(ctx, id)
	if err != nil {
		return 0, 0, err
	}
	r, sub, err := machine.EndedRecord(row)
	if err != nil {
		return 0, 0, err
	}
	r.Scan(states, next, limit, list, func(index uint32) queue.Chunk { return machine.EndedChunk(r, sub, index) })
	return r.Chunks, r.Seq, nil
}

// EndedRow is the history row of an ended submission, also when it is not written yet.
// One that just ended may still hold reservations, which are removed in slices (Drain): its row tells of none.
func (s *Submissions) EndedRow(ctx context.Context, id queue.SubmissionID) (*checkpoint.Ended, error) {
	var of *machine.Machine
	var r *machine.Record
	s.Look(func(m *machine.Machine) { of, r = m, m.Endings.ByID[id] })
	if r != nil {
		Drain(s, of, r)
		return new(r.EndedRow()), nil
	}
	row, found, err := s.Store().History.Ended(ctx, id)
	if err == nil && !found {
		err = queue.UnknownSubmission(id)
	}
	return &row, err
}

// Chunk tells where one chunk stands.
func (s *Submissions) Chunk(ctx context.Context, id queue.SubmissionID, index uint32) (queue.Chunk, error) {
	list, _, err := s.Chunks(ctx, id, nil, index, 1)
	if err != nil {
		return queue.Chunk{}, err
	}
	if len(list) == 0 {
		return queue.Chunk{}, queue.Invalid("/path/index", "is past the submission's last chunk")
	}
	return list[0], nil
}

// Drain removes the reservations that an ended submission still has, in slices, so that its row in the
// history can be written.
func Drain(s shell.Shell, m *machine.Machine, r *machine.Record) {
	for more := true; more; {
		s.Look(func(*machine.Machine) {
			m.Shed(r, machine.TickMost)
			more = r.Holds.Len() > 0
		})
	}
}

// MostWeighed is how many submissions Largest looks at: the newest. It takes some 100 ms.
const MostWeighed = 1_000_000

// weighed is a submission and how many of its chunks can be handed out, wait, or are in flight.
type weighed struct {
	id   queue.SubmissionID
	left uint64
}

// largest keeps the heaviest submissions, at most twice `most` of them. Sorting once per `most` additions makes the
// cost per submission logarithmic in most, and the memory independent of the backlog.
type largest struct {
	list  []weighed
	most  int
	least weighed // lighter ones are not kept
}

// heavier orders the heaviest first. Of equal ones the newest comes first, so the order is total.
func heavier(a, b weighed) int { return cmp.Or(cmp.Compare(b.left, a.left), cmp.Compare(b.id, a.id)) }

func (l *largest) add(w weighed) {
	if len(l.list) >= l.most && heavier(w, l.least) > 0 {
		return
	}
	if l.list = append(l.list, w); len(l.list) >= 2*l.most {
		l.cut()
	}
}

func (l *largest) cut() []weighed {
	slices.SortFunc(l.list, heavier)
	l.list = l.list[:min(len(l.list), l.most)]
	if len(l.list) == l.most {
		l.least = l.list[l.most-1]
	}
	return l.list
}

// Largest returns up to limit of the newest MostWeighed open submissions, those with most chunks left first. The slices
// are of different moments, so the chosen submissions are read again for the answer: their numbers are of one moment,
// and may differ from those of the choice.
func (s *Submissions) Largest(ctx context.Context, f machine.Filter, limit int) (list []queue.Submission, err error) {
	top := largest{most: limit}
	visit := func(r *machine.Record) bool {
		if r.ID < f.From {
			return false
		}
		if r.Sub != nil && !r.Ending && f.Matches(r) {
			top.add(weighed{r.ID, uint64(r.Sub.Available()) + uint64(r.Waiting) + uint64(r.Holds.Len())})
		}
		return true
	}
	before := queue.SubmissionID(math.MaxInt64)
	if f.Before != 0 {
		before = f.Before
	}
	for looked := 0; before > f.From && looked < MostWeighed; looked += machine.ListSlice {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s.Look(func(m *machine.Machine) { before = m.Order.Before(before, machine.ListSlice, visit) })
	}
	answer := access.Gather(ctx)
	chosen := top.cut()
	s.Look(func(m *machine.Machine) {
		for _, w := range chosen {
			r := m.Live(w.id)
			if r == nil {
				continue // it ended meanwhile
			}
			list = append(list, machine.Info(r, s.queue))
			if !answer.Fits(queue.SubmissionBytes(&list[len(list)-1])) {
				return
			}
		}
	})
	return list, nil
}
