package shard

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/store"
)

// Submissions are what has been inserted, open and ended, with their chunks and outputs.
type Submissions struct{ s *Shard }

// Get tells what is known about a submission, open or ended.
func (p *Submissions) Get(ctx context.Context, id queue.SubmissionID) (queue.Submission, error) {
	s := p.s
	s.mu.Lock()
	if r := s.m.Record(id); r != nil {
		sub := machine.Info(r, s.options.Queue)
		s.mu.Unlock()
		return sub, nil
	}
	s.mu.Unlock()
	row, found, err := s.store.History.Ended(ctx, id)
	if err != nil {
		return queue.Submission{}, err
	}
	if !found {
		return queue.Submission{}, unknownSubmission(id)
	}
	r, _, err := machine.EndedRecord(&row)
	if err != nil {
		return queue.Submission{}, err
	}
	return r.Info(s.options.Queue, r.Ended.Meta, 0), nil
}

func unknownSubmission(id queue.SubmissionID) error {
	return &queue.Error{Code: queue.CodeUnknownSubmission,
		Message: fmt.Sprintf("There is no submission %s: it never was, or it ended and its retention is over.", id)}
}

// Trace is the trace context of a submission that is in memory, or "".
func (s *Shard) Trace(id queue.SubmissionID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.m.Record(id); r != nil {
		return r.Details().Trace
	}
	return ""
}

// How many submissions one list looks at, about: in memory, and in the history, where they are read and decoded.
const (
	listLook  = 20 * machine.ListSlice
	endedLook = 2 * queue.MaxListLimit
)

// List returns up to `limit` submissions with ids below `before` (0: from the newest), newest first, and below which id to go on: 0 when
// there are no more. A list that would have to look at too many ends before `limit`, perhaps with none.
func (p *Submissions) List(ctx context.Context, f machine.Filter, before queue.SubmissionID, limit int) (list []queue.Submission,
	next queue.SubmissionID, err error) {
	if before == 0 {
		before = math.MaxInt64
	}
	if f.Before != 0 {
		before = min(before, f.Before)
	}
	memory, next := p.listMemory(ctx, &f, before, limit)
	history, to, err := p.listHistory(ctx, &f, before, limit)
	if err != nil {
		return nil, 0, err
	}
	next = max(next, to) // down to there both have told all
	all := append(memory, history...)
	all = slices.DeleteFunc(all, func(s queue.Submission) bool { return s.ID < next })
	slices.SortStableFunc(all, func(a, b queue.Submission) int { return -cmp.Compare(a.ID, b.ID) })
	all = slices.CompactFunc(all, func(a, b queue.Submission) bool { return a.ID == b.ID }) // checkpointed in between: memory's comes first
	n, answer := 0, access.Gather(ctx)
	for n < min(limit, len(all)) && (answer.Fits(queue.SubmissionBytes(&all[n])) || n == 0) {
		n++
	}
	if n < len(all) {
		all, next = all[:n], all[n-1].ID
	}
	if next <= f.From {
		next = 0
	}
	return all, next, nil
}

func (p *Submissions) listMemory(ctx context.Context, f *machine.Filter, before queue.SubmissionID,
	limit int) (list []queue.Submission, to queue.SubmissionID) {
	s, answer, full := p.s, access.Gather(ctx), false
	for looked := 0; before != 0 && !full && looked < listLook; looked += machine.ListSlice {
		s.mu.Lock()
		over := false
		before = s.m.Order.Before(before, machine.ListSlice, func(r *machine.Record) bool {
			if over = r.ID < f.From; over {
				return false
			}
			if f.Matches(r) {
				list = append(list, machine.Info(r, s.options.Queue))
				full = !answer.Fits(queue.SubmissionBytes(&list[len(list)-1])) || len(list) == limit
			}
			return !full
		})
		s.mu.Unlock()
		if over {
			return list, 0
		}
	}
	return list, before
}

// endStates are the states that the history holds.
func endStates() []queue.SubmissionState {
	return []queue.SubmissionState{queue.Completed, queue.CompletedWithDead, queue.Failed, queue.Cancelled, queue.Expired}
}

func (p *Submissions) listHistory(ctx context.Context, f *machine.Filter, before queue.SubmissionID,
	limit int) (list []queue.Submission, to queue.SubmissionID, err error) {
	s := p.s
	want := wanted(f)
	scan := store.EndedScan{Before: before, States: f.States, Meta: f.Meta, Limit: limit, Bytes: queue.MaxAnswerBytes,
		Look: endedLook}
	scan.Want = func(e *checkpoint.Ended) (bool, error) {
		if s.remembers(e.ID) {
			return false, nil
		}
		return want(e)
	}
	if len(scan.States) == 0 {
		scan.States = endStates()
	}
	rows, to, err := s.store.History.ScanEnded(ctx, scan)
	if err != nil {
		return nil, 0, err
	}
	for i := range rows {
		r, _, err := machine.EndedRecord(&rows[i])
		if err != nil {
			return nil, 0, err
		}
		if r.ID >= f.From {
			list = append(list, r.Info(s.options.Queue, r.Ended.Meta, 0))
		}
	}
	return list, to, nil
}

// wanted says what of the history a filter means, of the states that it means.
func wanted(f *machine.Filter) func(*checkpoint.Ended) (bool, error) {
	return func(e *checkpoint.Ended) (bool, error) {
		if len(f.Meta) == 0 && f.Schedule == "" {
			return true, nil
		}
		spec, err := journal.DecodeInsert(e.Spec)
		if err != nil {
			return false, fmt.Errorf("store: history of %s: %w", e.ID, err)
		}
		return f.OfSpec(spec), nil
	}
}

// remembers says that memory knows the submission, and so better than the history: it may have been opened again since, and may have
// ended otherwise.
func (s *Shard) remembers(id queue.SubmissionID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.Record(id) != nil
}

// Chunks returns up to `limit` chunks from index `from` on whose state is one of `states` (empty: all), as many as fit into an answer, and
// the index to go on from: a page may hold fewer than `limit`, or none, before the end. next is the number of chunks at the end.
func (p *Submissions) Chunks(ctx context.Context, id queue.SubmissionID, states []queue.ChunkState, from uint32,
	limit int) (list []queue.Chunk, next uint32, err error) {
	next = from
	for n := 0; n < machine.ChunkSlices && len(list) < limit; n++ {
		total, seq, err := p.chunkSlice(ctx, id, states, &next, limit, &list)
		if err != nil {
			return nil, 0, err
		}
		if next = min(next, total); next == total || n == machine.ChunkSlices-1 || len(list) >= limit {
			return p.addOutputs(ctx, id, seq, list, next)
		}
	}
	return list, next, nil
}

func (p *Submissions) chunkSlice(ctx context.Context, id queue.SubmissionID, states []queue.ChunkState, next *uint32,
	limit int, list *[]queue.Chunk) (total, seq uint32, err error) {
	s := p.s
	s.mu.Lock()
	r := s.m.Live(id)
	if r == nil {
		s.mu.Unlock()
		return p.endedChunks(ctx, id, states, next, limit, list)
	}
	defer s.mu.Unlock()
	r.Scan(states, next, limit, list, func(index uint32) queue.Chunk { return s.m.Chunk(r, index) })
	return r.Chunks, r.Seq, nil
}

// endedChunks looks at the chunks of an ended submission, from its last snapshot.
func (p *Submissions) endedChunks(ctx context.Context, id queue.SubmissionID, states []queue.ChunkState, next *uint32,
	limit int, list *[]queue.Chunk) (total, seq uint32, err error) {
	row, err := p.endedRow(ctx, id)
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

// endedRow is the history row of an ended submission, also when it is not written yet.
func (p *Submissions) endedRow(ctx context.Context, id queue.SubmissionID) (*checkpoint.Ended, error) {
	s := p.s
	s.mu.Lock()
	m := s.m
	r := m.Endings.ByID[id]
	s.mu.Unlock()
	if r != nil {
		s.drain(m, r)
		return new(r.EndedRow()), nil
	}
	row, found, err := s.store.History.Ended(ctx, id)
	if err == nil && !found {
		err = unknownSubmission(id)
	}
	return &row, err
}

// Chunk tells where one chunk stands.
func (p *Submissions) Chunk(ctx context.Context, id queue.SubmissionID, index uint32) (queue.Chunk, error) {
	list, _, err := p.Chunks(ctx, id, nil, index, 1)
	if err != nil {
		return queue.Chunk{}, err
	}
	if len(list) == 0 {
		return queue.Chunk{}, queue.Invalid("/path/index", "is past the submission's last chunk")
	}
	return list[0], nil
}
