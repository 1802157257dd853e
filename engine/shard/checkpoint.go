package shard

// Checkpoints: rows of the changed state go to the store, so that the journal before them can be trimmed.
//
//	between        with applying and the mutex: position, dirty records, ended ones; their lists are emptied
//	asides: rules  before the submissions, see rules.Part.Row
//	Flush          bytes that the store keeps in memory
//	slices         rows of submissions and of the history, one transaction for each slice
//	keys           behind the rows: a key must not outlive its submission in a power cut
//	asides: rest, entries of the audit log
//	SetCheckpointed, then Trim
//
// The order is the point. Trim comes last: until then the journal has everything that a row may
// lack. A crash after any step leaves some rows younger than others, and each says up to which position it is true, so
// the replay knows what to pass over. If a step fails, putBack puts the taken records back into the lists, and the next
// checkpoint writes them.
//
// turn is held while rows are written, and while a reload reads them: a reload must not read rows
// of two checkpoints.

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/locks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/disk"
	"github.com/quern-queue/quern/engine/shard/keys"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/submissions"
)

// checkpointer decides when to checkpoint. A checkpoint writes the rows of everything that
// changed, so that the journal before them can go.
type checkpointer struct {
	shell.Shell
	checkpointMeans
	bytes atomic.Int64 // journaled since the last checkpoint began
	wake  chan struct{}
	quit  chan struct{}
	ended chan struct{} // closed when run has
	force chan chan error
	once  sync.Once
	turn  chan struct{} // full while rows are written, or while a reload reads them
}

// checkpointMeans are the dependencies of a checkpointer beside its shard.
//
// applying comes before the mutex. A checkpoint holds it while it asks for the position, and again
// while it encodes some rows, so that no row is taken between two ops of one batch.
type checkpointMeans struct {
	options   *Options
	applying  *locks.Mutex[shell.InApplying] // held while a batch is applied
	disk      *disk.Disk
	keys      *keys.Keys
	snapshots *snapshotter
	ahead     *atomic.Bool // rows of the store may be younger than the position that a replay begins at
	// subject returns the parts and the journal that a checkpoint is of. After an error nothing may be written any
	// more: rows and journal may be another writer's, or go to a file that no one finds again. The mutex is held.
	subject  func() (parts, journal.Journal, error)
	handOver func(ctx context.Context, m *machine.Machine) error // gives entries to the audit log
}

func (p *checkpointer) init(s shell.Shell, means checkpointMeans) {
	p.Shell, p.checkpointMeans = s, means
	p.wake = make(chan struct{}, 1)
	p.quit, p.ended = make(chan struct{}), make(chan struct{})
	p.force = make(chan chan error)
	p.turn = make(chan struct{}, 1)
}

func (p *checkpointer) stop() { p.once.Do(func() { close(p.quit) }) }

func (p *checkpointer) restart(bytes int64) { p.bytes.Store(bytes) }

// batchCost is the approximate size of a journal row beyond its ops.
const batchCost = 64

// note counts a batch that was appended, and wakes run only when a checkpoint is due: waking it for every batch would
// delay the callers that wait for the batch.
func (p *checkpointer) note(bytes int) {
	p.bytes.Add(int64(bytes) + batchCost)
	p.snapshots.note(bytes)
	if !p.due() {
		return
	}
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
					p.options.Logger.Error("a checkpoint failed; the server will try again", "queue", p.options.Queue,
						"error", err)
				}
			}
		}
	}
}

func (p *checkpointer) due() (due bool) {
	if p.bytes.Load() >= p.options.CheckpointBytes {
		return true
	}
	p.Look(func(m *machine.Machine) { due = len(m.Endings.InOrder) >= p.options.CheckpointEnded })
	return due
}

// Checkpoint writes all rows now and forgets the journal before them. If that makes a snapshot due, it returns after
// the snapshot.
func (s *Shard) Checkpoint() error {
	err := s.checkpoints.now()
	s.snapshots.making.Lock()
	defer s.snapshots.making.Unlock()
	return err
}

// now makes a checkpoint, and waits for no snapshot: its callers may hold locks that others wait for.
func (p *checkpointer) now() error {
	answer := make(chan error)
	select {
	case p.force <- answer:
		return <-answer
	case <-p.quit:
		return errClosing
	}
}

// pause waits for a checkpoint or a reload that is under way, and keeps others from beginning until resume is called.
func (p *checkpointer) pause(ctx context.Context) (resume func(), err error) {
	select {
	case p.turn <- struct{}{}:
		return func() { <-p.turn }, nil
	case <-ctx.Done():
		return func() {}, ctx.Err()
	}
}

// write writes the rows of everything that changed up to a position, then trims the journal before it. Rows hold
// absolute state and the position up to which they are true, so a checkpoint can be cut off anywhere: a replay skips
// the ops that a row already has.
func (p *checkpointer) write() error {
	resume, _ := p.pause(context.Background()) // a reload that a stop ends does not last
	defer resume()
	var (
		m           *machine.Machine
		parts       parts
		log         journal.Journal
		upTo        journal.Position
		dirty, gone []*machine.Record
		fresh       []*machine.Keyed
		err         error
	)
	p.between(func(now *machine.Machine) {
		if parts, log, err = p.subject(); err != nil {
			return
		}
		m = now
		upTo, dirty, gone, fresh = m.AppliedAt, m.Dirty, m.Endings.InOrder, m.Keys.Fresh()
		m.Dirty, m.Endings.InOrder = nil, nil
		p.bytes.Store(0)
	})
	if err != nil {
		return err
	}
	bySeq(dirty) // neighbours in the file: a page is written once, not for each of its rows
	bySeq(gone)
	ctx := context.Background()
	p.ahead.Store(true)
	err = p.asides(ctx, m, machine.AsideRules) // before the submissions: see rules.Part.Row
	if err == nil {
		err = p.disk.Write(func() error { return p.Store().Memtable.Flush(ctx) })
	}
	if err != nil {
		p.putBack(m, dirty, gone, &checkpointSlice{})
		return err
	}
	for len(dirty) > 0 || len(gone) > 0 {
		slice := firstSlice(dirty, gone)
		p.encode(m, &slice)
		p.historyRows(m, &slice)
		err := p.disk.Write(func() error { return p.Store().Checkpoint(ctx, slice.rows, slice.ended) })
		if err != nil {
			p.putBack(m, dirty, gone, &slice)
			return err
		}
		p.forget(m, &parts, &slice)
		p.pack(ctx, slice.ending)
		dirty, gone = dirty[len(slice.dirty):], gone[len(slice.gone):]
	}
	// Behind the rows: a power cut under relaxed durability must not leave a key without its submission.
	if err := p.keys.Checkpoint(ctx, m, fresh); err != nil {
		return err
	}
	if err := p.asides(ctx, m, 0); err != nil {
		return err
	}
	if err := p.handOver(ctx, m); err != nil {
		return err
	}
	if err := p.Store().SetCheckpointed(ctx, upTo); err != nil {
		return err
	}
	p.Look(func(*machine.Machine) { parts.ends.Written(upTo) })
	p.ahead.Store(false)
	if err := log.Trim(ctx, p.snapshots.needless(upTo)); err != nil {
		return err
	}
	p.snapshots.checkpointed(upTo)
	return nil
}

// firstSlice is the records for the next transaction of a checkpoint: at most checkpointMost of either list, so that a
// transaction has a bound however much changed.
func firstSlice(dirty, gone []*machine.Record) checkpointSlice {
	return checkpointSlice{
		dirty: dirty[:min(len(dirty), checkpointMost)],
		gone:  gone[:min(len(gone), checkpointMost)],
	}
}

// between calls fn between two batches, with the mutex held.
func (p *checkpointer) between(fn func(m *machine.Machine)) {
	p.applying.Lock()
	defer p.applying.Unlock()
	p.Look(fn)
}

// bySeq sorts a list. It reads each record once: they are all over the memory.
func bySeq(list []*machine.Record) {
	type entry struct {
		seq uint32
		r   *machine.Record
	}
	sorted := make([]entry, len(list))
	for i, r := range list {
		sorted[i] = entry{r.Seq, r}
	}
	slices.SortFunc(sorted, func(a, b entry) int { return cmp.Compare(a.seq, b.seq) })
	for i := range sorted {
		list[i] = sorted[i].r
	}
}

// checkpointMost is how many submissions of either list one transaction carries: enough
// that a page which holds many of their rows is written once for most of them.
// checkpointHold is how many one hold of the mutex looks at.
const (
	checkpointMost = 2048
	checkpointHold = 512
)

// checkpointSlice is one transaction's worth of a checkpoint.
type checkpointSlice struct {
	dirty, gone []*machine.Record
	rows        []checkpoint.Row
	ended       []checkpoint.Ended
	ending      []*machine.Record // whose history rows are in ended
}

// encode takes the rows between two batches, never within one, so that each has an exact position of its own. A
// submission that ended since the checkpoint began gets its history row too, before the journal with its end is
// trimmed.
func (p *checkpointer) encode(m *machine.Machine, f *checkpointSlice) {
	for rest := f.dirty; len(rest) > 0; {
		rest = rest[p.encodeSome(m, f, rest):]
	}
	p.inHolds(f.gone, func(r *machine.Record) {
		if r = m.Current(r); r != nil && r.State != queue.Open {
			f.end(r)
		}
	})
}

// inHolds calls fn for a list of records, a few for each hold of the mutex.
func (p *checkpointer) inHolds(list []*machine.Record, fn func(r *machine.Record)) {
	for some := range slices.Chunk(list, checkpointHold) {
		p.Look(func(*machine.Machine) {
			for _, r := range some {
				fn(r)
			}
		})
	}
}

// encodeSome takes the rows of the first records of a list, and says of how many.
func (p *checkpointer) encodeSome(m *machine.Machine, f *checkpointSlice, list []*machine.Record) (n int) {
	p.applying.Lock()
	defer p.applying.Unlock()
	var large *machine.Record
	p.Look(func(*machine.Machine) { n, large = p.encodeHeld(m, f, list) })
	if large != nil {
		f.rows[len(f.rows)-1].State = p.largeSnapshot(m, large)
	}
	return n
}

// encodeHeld is encodeSome with the mutex held. large is the last of these records if its state is too much for one
// hold.
func (p *checkpointer) encodeHeld(m *machine.Machine, f *checkpointSlice,
	list []*machine.Record) (n int, large *machine.Record) {
	for room := p.options.CheckpointItems; n < min(len(list), checkpointHold) && room > 0; n++ {
		r := m.Current(list[n])
		if r == nil {
			continue
		}
		if r.State != queue.Open {
			f.end(r)
			continue
		}
		size := r.Size()
		if size > room && n > 0 {
			break
		}
		room -= size
		if r == list[n] { // else it is in the list of the next checkpoint, and stays there
			r.Dirty = false
		}
		row := checkpoint.Row{Seq: r.Seq, ID: r.ID, Reopened: r.Reopened}
		if !r.Stored || r.Reshaped {
			row.Spec, r.Reshaped = r.Spec(r.Sub.Meta()), false
		}
		if size > p.options.CheckpointItems { // then it is the first one, and leaves no room for others
			large = r
		} else {
			row.State = m.Snapshot(nil, r)
		}
		f.rows = append(f.rows, row)
	}
	return n, large
}

// end notes that a submission gets its history row, once.
func (f *checkpointSlice) end(r *machine.Record) {
	if r.Checkpointed {
		return
	}
	r.Checkpointed = true
	f.ending = append(f.ending, r)
}

// historyRows makes the history rows. Ended submissions no longer change, so it holds the mutex for a slice at a time.
func (p *checkpointer) historyRows(m *machine.Machine, f *checkpointSlice) {
	f.ended = make([]checkpoint.Ended, 0, len(f.ending))
	for _, r := range f.ending {
		submissions.Drain(p, m, r)
		f.ended = append(f.ended, r.EndedRow())
	}
}

// forget drops the ended submissions from memory, as the history has them now.
func (p *checkpointer) forget(m *machine.Machine, parts *parts, f *checkpointSlice) {
	p.inHolds(f.dirty, func(r *machine.Record) {
		r.Stored = true
		m.Endings.Rowed(r)
	})
	p.inHolds(f.ending, func(r *machine.Record) {
		m.Rows++
		if m.Endings.ByID[r.ID] == r {
			delete(m.Endings.ByID, r.ID)
			parts.letters.Written(r)
		}
		m.Order.Remove(r)
		parts.letters.Index.Remove(r)
		m.Endings.Rowed(r)
	})
}

// pack brings the outputs of ended submissions into index order. A failure leaves them as
// they are, which is only slower to read.
func (p *checkpointer) pack(ctx context.Context, ended []*machine.Record) {
	for _, r := range ended {
		if !r.Outputs.Some() {
			continue
		}
		if err := p.Store().PackOutputs(ctx, r.Seq); err != nil {
			p.options.Logger.Warn("packing outputs failed", "queue", p.options.Queue, "submission", r.ID, "error", err)
			return
		}
	}
}

// putBack leaves the unwritten records to the next checkpoint.
func (p *checkpointer) putBack(m *machine.Machine, dirty, gone []*machine.Record, f *checkpointSlice) {
	p.Look(func(*machine.Machine) {
		for _, r := range f.ending {
			r.Checkpointed = false
		}
		for i, r := range dirty {
			if i < len(f.dirty) {
				r.Reshaped = true // if its spec was among what was not written
			}
			if i < len(f.dirty) && r.Dirty && r.State == queue.Open {
				continue // changed again since its row was taken: it is in the list already
			}
			r.Dirty = true
			m.Dirty = append(m.Dirty, r)
		}
		m.Endings.InOrder = append(m.Endings.InOrder, gone...)
	})
}

// asides writes the rows that changed, of one kind or (0) of all. They are taken in slices: later slices may be further
// ahead, which does no harm. No slice is taken between two ops of one batch, as some rows say up to which batch they
// are true.
func (p *checkpointer) asides(ctx context.Context, m *machine.Machine, kind uint8) error {
	var keys []machine.Aside
	p.Look(func(*machine.Machine) { keys = m.Asides.Take(kind) })
	for start := 0; start < len(keys); start += checkpointMost {
		part := keys[start:min(start+checkpointMost, len(keys))]
		rows := make([]checkpoint.Aside, 0, len(part))
		p.between(func(*machine.Machine) {
			for _, a := range part {
				rows = append(rows, checkpoint.Aside{Kind: a.Kind, Key: a.Key, Bytes: m.Asides.Of(a.Kind).Row(a.Key)})
			}
		})
		if err := p.disk.Write(func() error { return p.Store().PutAside(ctx, rows) }); err != nil {
			p.putBackAsides(m, keys[start:])
			return err
		}
	}
	return nil
}

// putBackAsides leaves the unwritten rows to the next checkpoint.
func (p *checkpointer) putBackAsides(m *machine.Machine, keys []machine.Aside) {
	for part := range slices.Chunk(keys, checkpointMost) {
		p.Look(func(*machine.Machine) {
			for _, a := range part {
				m.Asides.Changed(a.Kind, a.Key)
			}
		})
	}
}
