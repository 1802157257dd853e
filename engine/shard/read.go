package shard

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// Submissions are what has been inserted, open and ended, with their chunks and outputs.
type Submissions struct{ s *Shard }

// Get tells what is known about a submission, open or ended.
func (p *Submissions) Get(ctx context.Context, id queue.SubmissionID) (queue.Submission, error) {
	s := p.s
	s.mu.Lock()
	if r := s.m.record(id); r != nil {
		sub := s.m.info(r, s.options.Queue)
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
	r, _, err := endedRecord(&row)
	if err != nil {
		return queue.Submission{}, err
	}
	return r.info(s.options.Queue, r.ended.meta, 0), nil
}

func (m *machine) info(r *record, queueName string) queue.Submission {
	if r.sub == nil {
		return r.info(queueName, r.ended.meta, 0)
	}
	return r.info(queueName, r.sub.Meta(), r.sub.Available())
}

func unknownSubmission(id queue.SubmissionID) error {
	return &queue.Error{Code: queue.CodeUnknownSubmission,
		Message: fmt.Sprintf("There is no submission %s: it never was, or it ended and its retention is over.", id)}
}

// endedRecord reads a history row, and the backlog's part of it.
func endedRecord(row *store.Ended) (*record, *backlog.Submission, error) {
	spec, err := journal.DecodeInsert(row.Spec)
	if err != nil {
		return nil, nil, fmt.Errorf("store: history of %s: %w", row.ID, err)
	}
	r := newRecord(spec)
	r.state = row.State
	n, size := binary.Uvarint(row.Final)
	if size <= 0 || n > uint64(len(row.Final)-size) {
		return nil, nil, errSnapshot
	}
	r.ended = &ending{at: row.Finished, meta: spec.Meta, reason: string(row.Final[size : size+int(n)])}
	chunks, err := r.restore(row.Final[size+int(n):])
	if err != nil {
		return nil, nil, err
	}
	sub, err := backlog.New().Restore(specOf(spec), chunks)
	return r, sub, err
}

// Trace is the trace context of a submission that is in memory, or "".
func (s *Shard) Trace(id queue.SubmissionID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.m.record(id); r != nil {
		return r.details().trace
	}
	return ""
}

// Filter says which submissions a list shows. Empty States are all; every entry of Meta has to match.
type Filter struct {
	States   []queue.SubmissionState
	Meta     queue.Meta
	Schedule string             // that inserted it; "": any, or none
	Before   queue.SubmissionID // only smaller ids; 0: any
	From     queue.SubmissionID // only this and larger ids
}

func (f *Filter) matches(r *record) bool {
	if len(f.States) > 0 && !slices.Contains(f.States, r.state) {
		return false
	}
	if f.Schedule != "" && r.details().schedule != f.Schedule {
		return false
	}
	return f.ofMeta(r.meta())
}

func (f *Filter) ofMeta(meta queue.Meta) bool {
	for _, entry := range f.Meta {
		if value, there := meta.Find(entry.Key); !there || value != entry.Value {
			return false
		}
	}
	return true
}

// listSlice is how many submissions one hold of the mutex looks at.
const listSlice = 1000

// List returns up to `limit` submissions with ids below `before` (0: from the newest), newest first.
func (p *Submissions) List(ctx context.Context, f Filter, before queue.SubmissionID, limit int) ([]queue.Submission, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	if f.Before != 0 {
		before = min(before, f.Before)
	}
	memory := p.listMemory(&f, before, limit)
	history, err := p.listHistory(ctx, &f, before, limit)
	if err != nil {
		return nil, err
	}
	all := append(memory, history...)
	slices.SortStableFunc(all, func(a, b queue.Submission) int { return -compareIDs(a.ID, b.ID) })
	all = slices.CompactFunc(all, func(a, b queue.Submission) bool { return a.ID == b.ID }) // checkpointed in between: memory's comes first
	return all[:min(limit, len(all))], nil
}

func compareIDs(a, b queue.SubmissionID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (p *Submissions) listMemory(f *Filter, before queue.SubmissionID, limit int) []queue.Submission {
	s := p.s
	var list []queue.Submission
	for before != 0 && len(list) < limit {
		s.mu.Lock()
		over := false
		before = s.m.order.before(before, listSlice, func(r *record) bool {
			if over = r.id < f.From; over {
				return false
			}
			if f.matches(r) {
				list = append(list, s.m.info(r, s.options.Queue))
			}
			return len(list) < limit
		})
		s.mu.Unlock()
		if over {
			break
		}
	}
	return list
}

// endStates are the states that the history holds.
func endStates() []queue.SubmissionState {
	return []queue.SubmissionState{queue.Completed, queue.CompletedWithDead, queue.Failed, queue.Cancelled, queue.Expired}
}

func (p *Submissions) listHistory(ctx context.Context, f *Filter, before queue.SubmissionID, limit int) ([]queue.Submission, error) {
	s := p.s
	states := f.States
	if len(states) == 0 {
		states = endStates()
	}
	var list []queue.Submission
	for len(list) < limit {
		rows, err := s.store.History.ListEnded(ctx, before, states, listSlice)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if rows[i].ID < f.From {
				return list, nil
			}
			r, _, err := endedRecord(&rows[i])
			if err != nil {
				return nil, err
			}
			if f.matches(r) && !s.remembers(r.id) {
				list = append(list, r.info(s.options.Queue, r.ended.meta, 0))
			}
			before = rows[i].ID
		}
		if len(rows) < listSlice {
			break
		}
	}
	return list, nil
}

// remembers says that memory knows the submission, and so better than the history: it may have been opened again since, and may have
// ended otherwise.
func (s *Shard) remembers(id queue.SubmissionID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.record(id) != nil
}

// chunkSlice is how many chunks one hold of the mutex looks at, chunkSlices how many slices one call looks at most: a
// sparse state in a huge submission is found over several calls.
const (
	chunkSlice  = 1000
	chunkSlices = 200
)

// Chunks returns up to `limit` chunks from index `from` on whose state is one of `states` (empty: all), and the index to
// go on from: a page may hold fewer than `limit`, or none, before the end. next is the number of chunks at the end.
func (p *Submissions) Chunks(ctx context.Context, id queue.SubmissionID, states []queue.ChunkState, from uint32,
	limit int) (list []queue.Chunk, next uint32, err error) {
	next = from
	for n := 0; n < chunkSlices && len(list) < limit; n++ {
		total, seq, err := p.chunkSlice(ctx, id, states, &next, limit, &list)
		if err != nil {
			return nil, 0, err
		}
		if next >= total {
			return list, total, p.addOutputs(ctx, id, seq, list)
		}
		if n == chunkSlices-1 || len(list) >= limit {
			return list, next, p.addOutputs(ctx, id, seq, list)
		}
	}
	return list, next, nil
}

func (p *Submissions) chunkSlice(ctx context.Context, id queue.SubmissionID, states []queue.ChunkState, next *uint32,
	limit int, list *[]queue.Chunk) (total, seq uint32, err error) {
	s := p.s
	s.mu.Lock()
	r := s.m.live(id)
	if r == nil {
		s.mu.Unlock()
		return p.endedChunks(ctx, id, states, next, limit, list)
	}
	defer s.mu.Unlock()
	r.scan(states, next, limit, list, func(index uint32) queue.Chunk { return s.m.chunk(r, index) })
	return r.chunks, r.seq, nil
}

func (r *record) scan(states []queue.ChunkState, next *uint32, limit int, list *[]queue.Chunk, chunk func(uint32) queue.Chunk) {
	for n := 0; n < chunkSlice && *next < r.chunks && len(*list) < limit; n++ {
		c := chunk(*next)
		if len(states) == 0 || slices.Contains(states, c.State) {
			*list = append(*list, c)
		}
		*next++
	}
}

// chunk tells where one chunk of an open submission stands.
func (m *machine) chunk(r *record, index uint32) queue.Chunk {
	c := queue.Chunk{Index: index, State: queue.ChunkDone}
	if t := r.tries[index]; t != nil {
		t.describe(&c)
	}
	if slot, held := m.holds.Find(r.seq, index); held {
		h := m.holds.At(slot)
		c.State, c.Consumer, c.Deadline = queue.ChunkReserved, m.holds.Consumer(h), h.Deadline
	} else if r.sub.IsAvailable(index) {
		c.State = queue.ChunkReady
		if r.parked {
			c.State, c.NotBefore = queue.ChunkWaiting, r.details().runAt
		}
	}
	return c
}

func (t *try) describe(c *queue.Chunk) {
	c.Attempts, c.Error = t.attempts, t.err
	switch {
	case t.reason == journal.Dead:
		c.State = queue.ChunkDead
	case t.reason == journal.Skipped:
		c.State = queue.ChunkSkipped
	case t.reason == journal.Forwarded:
		c.State, c.To = queue.ChunkForwarded, t.to
	case t.waiting:
		c.State, c.NotBefore = queue.ChunkWaiting, t.notBefore
	}
}

// endedChunks looks at the chunks of an ended submission, from its last snapshot.
func (p *Submissions) endedChunks(ctx context.Context, id queue.SubmissionID, states []queue.ChunkState, next *uint32,
	limit int, list *[]queue.Chunk) (total, seq uint32, err error) {
	row, err := p.endedRow(ctx, id)
	if err != nil {
		return 0, 0, err
	}
	r, sub, err := endedRecord(row)
	if err != nil {
		return 0, 0, err
	}
	r.scan(states, next, limit, list, func(index uint32) queue.Chunk { return endedChunk(r, sub, index) })
	return r.chunks, r.seq, nil
}

// endedChunk tells where one chunk of an ended submission stands.
func endedChunk(r *record, sub *backlog.Submission, index uint32) queue.Chunk {
	c := queue.Chunk{Index: index, State: queue.ChunkDone}
	if sub.IsAvailable(index) {
		c.State = queue.ChunkSkipped
	}
	if t := r.tries[index]; t != nil {
		t.describe(&c)
	}
	return c
}

// endedRow is the history row of an ended submission, also when it is not written yet.
func (p *Submissions) endedRow(ctx context.Context, id queue.SubmissionID) (*store.Ended, error) {
	s := p.s
	s.mu.Lock()
	m := s.m
	r := m.ended[id]
	s.mu.Unlock()
	if r != nil {
		s.drain(m, r)
		return r.endedRow(), nil
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
