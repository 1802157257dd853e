package shard

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// checkpointer decides when to checkpoint: to write the rows of what changed, so that the journal before them can be forgotten.
type checkpointer struct {
	s     *Shard
	bytes atomic.Int64 // journaled since the last checkpoint began
	wake  chan struct{}
	quit  chan struct{}
	ended chan struct{} // closed when run has
	force chan chan error
	once  sync.Once
}

func (p *checkpointer) init(s *Shard) {
	p.s = s
	p.wake = make(chan struct{}, 1)
	p.quit, p.ended = make(chan struct{}), make(chan struct{})
	p.force = make(chan chan error)
}

func (p *checkpointer) stop() { p.once.Do(func() { close(p.quit) }) }

func (p *checkpointer) restart(bytes int64) { p.bytes.Store(bytes) }

// batchCost stands for what a journal row takes beyond its ops.
const batchCost = 64

func (p *checkpointer) note(bytes int) {
	p.bytes.Add(int64(bytes) + batchCost)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run runs checkpoints beside the commits: it only holds the mutex to encode a slice of rows.
func (p *checkpointer) run() {
	defer close(p.ended)
	for {
		select {
		case <-p.quit:
			return
		case answer := <-p.force:
			answer <- p.write()
		case <-p.wake:
			if p.due() {
				if err := p.write(); err != nil {
					p.s.options.Logger.Error("a checkpoint failed; it is tried again later", "queue", p.s.options.Queue, "error", err)
				}
			}
		}
	}
}

func (p *checkpointer) due() bool {
	s := p.s
	if p.bytes.Load() >= s.options.CheckpointBytes {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.m.gone) >= s.options.CheckpointEnded
}

// Checkpoint writes all rows now and forgets the journal before them.
func (s *Shard) Checkpoint() error {
	answer := make(chan error)
	select {
	case s.checkpoints.force <- answer:
		return <-answer
	case <-s.checkpoints.quit:
		return errClosing
	}
}

// write writes the rows of everything that changed up to a position, then lets the journal forget what came before.
// Rows hold absolute state and the position up to which they are true, so a checkpoint can be cut off anywhere: replay skips
// what a row already has.
func (p *checkpointer) write() error {
	s := p.s
	s.applying.Lock()
	s.mu.Lock()
	m, log := s.m, s.journal
	upTo, dirty, gone := m.applied, m.dirty, m.gone
	m.dirty, m.gone = nil, nil
	ruled := m.rules.rows(m.now)
	p.bytes.Store(0)
	s.mu.Unlock()
	s.applying.Unlock()

	for _, list := range [][]*record{dirty, gone} { // neighbours in the file: a page is written once, not for each of its rows
		slices.SortFunc(list, func(a, b *record) int { return cmp.Compare(a.seq, b.seq) })
	}
	ctx := context.Background()
	s.ahead.Store(true)
	err := s.Rules.store(ctx, m, ruled)
	if err == nil {
		err = s.disk.write(func() error { return s.store.Memtable.Flush(ctx) })
	}
	if err != nil {
		p.putBack(m, dirty, gone, &checkpointSlice{})
		return err
	}
	for len(dirty) > 0 || len(gone) > 0 {
		slice := checkpointSlice{dirty: dirty[:min(len(dirty), checkpointMost)], gone: gone[:min(len(gone), checkpointMost)]}
		p.encode(m, &slice)
		p.historyRows(m, &slice)
		err := s.disk.write(func() error { return s.store.Checkpoint(ctx, slice.rows, slice.ended) })
		if err != nil {
			p.putBack(m, dirty, gone, &slice)
			return err
		}
		p.forget(m, &slice)
		p.pack(ctx, slice.ending)
		dirty, gone = dirty[len(slice.dirty):], gone[len(slice.gone):]
	}
	if err := p.asides(ctx, m); err != nil {
		return err
	}
	if err := s.Schedules.checkpoint(ctx, m); err != nil {
		return err
	}
	if err := p.acts(ctx, m); err != nil {
		return err
	}
	if err := s.store.SetCheckpointed(ctx, upTo); err != nil {
		return err
	}
	s.mu.Lock()
	m.ends.written(upTo)
	s.mu.Unlock()
	s.ahead.Store(false)
	return log.Trim(ctx, max(upTo, 1)-1) // the last batch stays: replay reads the epoch from it
}

// checkpointMost is how many submissions of either list one transaction carries: enough that a page which holds many of their rows is
// written once for most of them. checkpointHold is how many one hold of the mutex looks at.
const (
	checkpointMost = 2048
	checkpointHold = 512
)

// checkpointSlice is one transaction's worth of a checkpoint.
type checkpointSlice struct {
	dirty, gone []*record
	rows        []store.Row
	ended       []store.Ended
	ending      []*record // whose history rows are in ended
}

// encode takes the rows between two batches, never within one, so that their position is exact; each has its own. A submission that
// ended since the checkpoint began gets its history row too, before the journal that tells of it is trimmed.
func (p *checkpointer) encode(m *machine, f *checkpointSlice) {
	for rest := f.dirty; len(rest) > 0; {
		rest = rest[p.encodeSome(m, f, rest):]
	}
	p.inHolds(f.gone, func(r *record) {
		if r = m.current(r); r != nil && r.state != queue.Open {
			f.end(r)
		}
	})
}

// inHolds calls fn for a list of records, a few for each hold of the mutex.
func (p *checkpointer) inHolds(list []*record, fn func(r *record)) {
	for some := range slices.Chunk(list, checkpointHold) {
		p.s.mu.Lock()
		for _, r := range some {
			fn(r)
		}
		p.s.mu.Unlock()
	}
}

// current is the record that tells of a submission now; nil: the history does. One that ended may have been opened
// again since the checkpoint began, as another record: its row has to be written by this very checkpoint, which lets
// the journal forget all that came before.
func (m *machine) current(r *record) *record {
	if r.replaced {
		return m.record(r.id)
	}
	return r
}

// encodeSome takes the rows of some of a list, from its start, and says of how many.
func (p *checkpointer) encodeSome(m *machine, f *checkpointSlice, list []*record) (n int) {
	s := p.s
	s.applying.Lock()
	defer s.applying.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for room := s.options.CheckpointItems; n < min(len(list), checkpointHold) && room > 0; n++ {
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
		if r == list[n] { // else it is in the list of the next checkpoint, and stays there
			r.dirty = false
		}
		row := store.Row{Seq: r.seq, ID: r.id, Reopened: r.reopened}
		if !r.stored || r.reshaped {
			row.Spec, r.reshaped = r.spec(), false
		}
		if size > s.options.CheckpointItems {
			row.State = s.largeSnapshot(m, r)
		} else {
			row.State = m.snapshot(nil, r)
		}
		f.rows = append(f.rows, row)
	}
	return n
}

// end notes that a submission gets its history row, once.
func (f *checkpointSlice) end(r *record) {
	if r.checkpointed {
		return
	}
	r.checkpointed = true
	f.ending = append(f.ending, r)
}

// historyRows makes the history rows. What they tell does not change any more, so the mutex is held for slices only.
func (p *checkpointer) historyRows(m *machine, f *checkpointSlice) {
	for _, r := range f.ending {
		p.s.drain(m, r)
		f.ended = append(f.ended, *r.endedRow())
	}
}

// forget drops the ended submissions from memory, as the history has them now.
func (p *checkpointer) forget(m *machine, f *checkpointSlice) {
	p.inHolds(f.dirty, func(r *record) {
		r.stored = true
		m.rowed(r)
	})
	p.inHolds(f.ending, func(r *record) {
		m.rows++
		if m.ended[r.id] == r {
			delete(m.ended, r.id)
			if v := m.letters.moving[r.seq]; v != nil {
				v.row = r.endedRow()
			}
		}
		m.order.remove(r)
		m.letters.index.remove(r)
		m.rowed(r)
	})
}

// pack brings the outputs of ended submissions into index order. A failure leaves them as they are, which is only slower
// to read.
func (p *checkpointer) pack(ctx context.Context, ended []*record) {
	s := p.s
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

// putBack puts everything that was not written back for the next checkpoint.
func (p *checkpointer) putBack(m *machine, dirty, gone []*record, f *checkpointSlice) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	for _, r := range f.ending {
		r.checkpointed = false
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
