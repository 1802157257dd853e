package shard

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// folder decides when to fold: to write the rows of what changed, so that the journal before them can be forgotten.
type folder struct {
	bytes atomic.Int64 // journaled since the last fold began
	wake  chan struct{}
	quit  chan struct{}
	force chan chan error
	once  sync.Once
}

func (f *folder) init() {
	f.wake = make(chan struct{}, 1)
	f.quit = make(chan struct{})
	f.force = make(chan chan error)
}

func (f *folder) stop() { f.once.Do(func() { close(f.quit) }) }

func (f *folder) restart(bytes int64) { f.bytes.Store(bytes) }

// batchCost stands for what a journal row takes beyond its ops.
const batchCost = 64

func (f *folder) note(bytes int) {
	f.bytes.Add(int64(bytes) + batchCost)
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// folder runs folds beside the commits: it only holds the mutex to encode a slice of rows.
func (s *Shard) folder() {
	defer close(s.folded)
	for {
		select {
		case <-s.fold.quit:
			return
		case answer := <-s.fold.force:
			answer <- s.foldAll()
		case <-s.fold.wake:
			if s.foldDue() {
				if err := s.foldAll(); err != nil {
					s.options.Logger.Error("fold failed; it is tried again later", "queue", s.options.Queue, "error", err)
				}
			}
		}
	}
}

func (s *Shard) foldDue() bool {
	if s.fold.bytes.Load() >= s.options.FoldBytes {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.m.gone) >= s.options.FoldEnded
}

// Fold writes all rows now and forgets the journal before them.
func (s *Shard) Fold() error {
	answer := make(chan error)
	select {
	case s.fold.force <- answer:
		return <-answer
	case <-s.fold.quit:
		return errClosing
	}
}

// foldAll writes the rows of everything that changed up to a position, then lets the journal forget what came before.
// Rows hold absolute state and the position up to which they are true, so a fold can be cut off anywhere: replay skips
// what a row already has.
func (s *Shard) foldAll() error {
	s.applying.Lock()
	s.mu.Lock()
	m, log := s.m, s.journal
	upTo, dirty, gone := m.applied, m.dirty, m.gone
	m.dirty, m.gone = nil, nil
	ruled := m.rules.rows(m.now)
	s.fold.bytes.Store(0)
	s.mu.Unlock()
	s.applying.Unlock()

	ctx := context.Background()
	s.ahead.Store(true)
	if err := s.Rules.store(ctx, m, ruled); err != nil {
		s.unfold(m, dirty, gone, &foldSlice{})
		return err
	}
	for len(dirty) > 0 || len(gone) > 0 {
		slice := foldSlice{dirty: dirty[:min(len(dirty), foldMost)], gone: gone[:min(len(gone), foldMost)]}
		s.encode(m, &slice)
		s.bury(m, &slice)
		err := s.write(func() error { return s.store.Checkpoint(ctx, slice.rows, slice.ended) })
		if err != nil {
			s.unfold(m, dirty, gone, &slice)
			return err
		}
		s.forget(m, &slice)
		s.pack(ctx, slice.ending)
		dirty, gone = dirty[len(slice.dirty):], gone[len(slice.gone):]
	}
	if err := s.foldAside(ctx, m); err != nil {
		return err
	}
	if err := s.Schedules.fold(ctx, m); err != nil {
		return err
	}
	if err := s.foldActs(ctx, m); err != nil {
		return err
	}
	if err := s.store.SetCheckpointed(ctx, upTo); err != nil {
		return err
	}
	s.ahead.Store(false)
	return log.Trim(ctx, max(upTo, 1)-1) // the last batch stays: replay reads the epoch from it
}

// foldMost is how many submissions of either list one transaction carries and one hold of the mutex encodes.
const foldMost = 512

// foldSlice is one transaction's worth of a fold.
type foldSlice struct {
	dirty, gone []*record
	rows        []store.Row
	ended       []store.Ended
	ending      []*record // whose history rows are in ended
}

// encode takes the rows between two batches, never within one, so that their position is exact; each has its own. A submission that
// ended since the fold began gets its history row too, before the journal that tells of it is trimmed.
func (s *Shard) encode(m *machine, f *foldSlice) {
	for rest := f.dirty; len(rest) > 0; {
		rest = rest[s.encodeSome(m, f, rest):]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range f.gone {
		if r = m.current(r); r != nil && r.state != queue.Open {
			f.end(r)
		}
	}
}

// current is the record that tells of a submission now; nil: the history does. One that ended may have been opened again since the fold
// began, as another record: its row has to be written by this very fold, which lets the journal forget all that came before.
func (m *machine) current(r *record) *record {
	if r.replaced {
		return m.record(r.id)
	}
	return r
}

// encodeSome takes the rows of some of a list, from its start, and says of how many.
func (s *Shard) encodeSome(m *machine, f *foldSlice, list []*record) (n int) {
	s.applying.Lock()
	defer s.applying.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for room := s.options.FoldItems; n < len(list) && room > 0; n++ {
		r := m.current(list[n])
		if r == nil {
			continue
		}
		if r.state != queue.Open {
			f.end(r)
			continue
		}
		size := r.size()
		if size > room && n > 0 {
			break
		}
		room -= size
		if r == list[n] { // else it is in the list of the next fold, and stays there
			r.dirty = false
		}
		row := store.Row{Seq: r.seq, ID: r.id, Reopened: r.reopened}
		if !r.stored || r.reshaped {
			row.Spec, r.reshaped = r.spec(), false
		}
		if size > s.options.FoldItems {
			row.State = s.largeSnapshot(m, r)
		} else {
			row.State = m.snapshot(nil, r)
		}
		f.rows = append(f.rows, row)
	}
	return n
}

// end notes that a submission gets its history row, once.
func (f *foldSlice) end(r *record) {
	if r.folded {
		return
	}
	r.folded = true
	f.ending = append(f.ending, r)
}

// bury makes the history rows. What they tell does not change any more, so the mutex is held for slices only.
func (s *Shard) bury(m *machine, f *foldSlice) {
	for _, r := range f.ending {
		s.drain(m, r)
		f.ended = append(f.ended, *r.endedRow())
	}
}

// forget drops the ended submissions from memory, as the history has them now.
func (s *Shard) forget(m *machine, f *foldSlice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range f.dirty {
		r.stored = true
		m.rowed(r)
	}
	m.rows += uint64(len(f.ending))
	for _, r := range f.ending {
		if m.ended[r.id] == r {
			delete(m.ended, r.id)
			if v := m.letters.moving[r.seq]; v != nil {
				v.row = r.endedRow()
			}
		}
		m.order.remove(r)
		m.letters.index.remove(r)
		m.rowed(r)
	}
}

// pack brings the outputs of ended submissions into index order. A failure leaves them as they are, which is only slower
// to read.
func (s *Shard) pack(ctx context.Context, ended []*record) {
	for _, r := range ended {
		if r.state != queue.CompletedWithDead { // else a redrive may open it again
			s.store.TrustAll(r.seq)
		}
		if !r.outputs.some() {
			continue
		}
		if err := s.store.PackOutputs(ctx, r.seq); err != nil {
			s.options.Logger.Warn("packing outputs failed", "queue", s.options.Queue, "submission", r.id, "error", err)
			return
		}
	}
}

// unfold puts everything that was not written back for the next fold.
func (s *Shard) unfold(m *machine, dirty, gone []*record, f *foldSlice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range f.ending {
		r.folded = false
	}
	for i, r := range dirty {
		if i < len(f.dirty) {
			r.reshaped = true // if its spec was among what was not written
		}
		if i < len(f.dirty) && r.dirty && r.state == queue.Open {
			continue // changed again since its row was taken: it is in the list already
		}
		r.dirty = true
		m.dirty = append(m.dirty, r)
	}
	m.gone = append(m.gone, gone...)
}
