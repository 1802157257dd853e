package shard

import (
	"cmp"
	"errors"
	"runtime"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// writer appends the open batches to the journal, in their order, and applies them.
type writer struct {
	s        *Shard
	sealed   []*machine.Batch // full, to be appended in this order before the open one
	inflight *machine.Batch   // being appended and applied
	spare    *machine.Batch   // its buffers are free
	patience patience
	wake     chan struct{}
	heal     chan chan struct{} // asks for a reload that failed to be made again, and is told when that is over
	ended    chan struct{}      // closed when run has
}

// pending is the batch that decides what the caller has just done or seen: the open one when it holds ops, otherwise the
// one being appended (an "already" may rest on it). The mutex is held.
func (p *writer) pending() *commit.Commit {
	switch n := len(p.sealed); {
	case p.s.m.Batch.Begun:
		return p.s.m.Batch.Commit
	case n > 0:
		return p.sealed[n-1].Commit
	case p.inflight != nil:
		return p.inflight.Commit
	}
	return nil
}

// seal ends the open batch: what follows goes into the next one. The mutex is held.
func (p *writer) seal() {
	s := p.s
	if s.m.Batch.Begun {
		p.sealed = append(p.sealed, s.m.Batch)
		s.m.Batch = p.fresh()
	}
}

// fullBatch is how many bytes of ops share an append: with more, everyone in it would wait for longer than a sync.
const fullBatch = 4 << 20

// sealFull ends the open batch when it is full. What has to be in one batch is in it. The mutex is held.
func (p *writer) sealFull() {
	if len(p.s.m.Batch.Enc.Bytes()) >= fullBatch {
		p.seal()
	}
}

// take takes the batch that is to be appended next; nil when there is none. The mutex is held.
func (p *writer) take() (b *machine.Batch) {
	if len(p.sealed) == 0 {
		p.seal()
	}
	if len(p.sealed) > 0 {
		b = p.sealed[0]
		p.sealed = slices.Delete(p.sealed, 0, 1)
	}
	return b
}

// wait starts the writer and waits for the commits.
func (p *writer) wait(c commit.Set) error { return p.settle(c, nil) }

// settle is wait for a call that goes no further, as cause says; nil: it came to its end. The error says that nothing was done only if
// nothing was.
func (p *writer) settle(c commit.Set, cause error) error {
	if c.First == nil {
		return cause
	}
	p.kick()
	some, err := c.Wait()
	if cause == nil {
		cause = err
	}
	if cause != nil && some {
		return partly(cause)
	}
	return cause
}

// partly is the error of a call of which something may have been done, for one that says that nothing was.
func partly(cause error) error {
	switch queue.CodeOf(cause) {
	case queue.CodeDiskFull, queue.CodeUnavailable, queue.CodeMoved:
		return &queue.Error{Code: queue.CodeCommitFailed, Message: "Some of this request may have been done, and some was not. " +
			"Ask again: completions and inserts with an Idempotency-Key can be repeated safely.", Err: cause}
	}
	return cause
}

func (p *writer) kick() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run is the shard's one goroutine that appends. No timer: a batch is whatever arrived during the previous append. Before it takes
// a batch it lets every goroutine run that can: calls that have arrived join the batch, so that a busy server makes half as many commits,
// and an idle one has no one to wait for.
func (p *writer) run() {
	defer close(p.ended)
	for open := true; open; {
		select {
		case <-p.wake:
		case done := <-p.heal:
			p.reloadAgain()
			close(done)
		case <-p.s.alive.Done():
			open = false // nothing is added any more: what there is gets its answer
		}
		for runtime.Gosched(); p.one(); runtime.Gosched() {
		}
	}
}

// one appends the open batch, if it holds anything, and applies it.
func (p *writer) one() bool {
	s := p.s
	s.mu.Lock()
	b := p.take()
	if b == nil {
		s.mu.Unlock()
		return false
	}
	p.inflight = b
	tail, lost := s.m.AppliedAt, s.lost
	ctx := p.patience.begin(s.options.Now())
	s.mu.Unlock()
	if cause := cmp.Or(b.Refused, lost); cause != nil {
		p.refuse(b, cause)
		return true
	}

	started := p.patience.since
	var position journal.Position
	batch := b.Enc.Packed()
	err := s.disk.roomy(func() (err error) {
		position, err = s.journal.Append(ctx, tail, batch)
		return err
	})
	if err != nil {
		p.refuse(b, err)
		return true
	}
	s.options.Committed(s.options.Now().Sub(started), b.Enc.Ops(), len(batch))
	p.apply(position, b, len(batch))
	s.checkpoints.note(len(b.Enc.Bytes()))
	return true
}

// applySlice is how many ops one hold of the mutex applies.
const applySlice = 128

// apply makes a committed batch true in memory, serves who waited for it, and answers its callers. Folds are kept out
// meanwhile: a row must not be taken between two ops of one position. `size` is what was written, in bytes.
func (p *writer) apply(position journal.Position, b *machine.Batch, size int) {
	s := p.s
	s.applying.Lock()
	defer s.applying.Unlock()
	decoder, ops := journal.NewDecoder(b.Enc.Bytes()), 0
	for more := true; more; {
		s.mu.Lock()
		s.m.AppliedAt, s.m.Now = position, decoder.At()
		var err error
		for n := 0; n < applySlice && more && err == nil; n++ {
			more, err = decoder.Step(s.m)
			ops++
			b.Intents.Applied(s.m, ops)
		}
		if err != nil {
			s.mu.Unlock()
			s.options.Fatal(err) // our own bytes of a moment ago: memory is damaged
			return
		}
		if !more {
			p.inflight = nil
			s.parts.ends.Settle(position)
			s.Ends.tell()
			s.m.Stats.Commits++
			s.m.Stats.CommitBytes += uint64(size)
			s.disk.appends.note(nil)
			s.countLive()
		}
		s.waiters.serve(s.now())
		posted := s.parts.letters.Posted()
		s.mu.Unlock()
		if posted && s.options.Posted != nil {
			s.options.Posted()
		}
	}
	close(b.Done)
	p.recycle(b)
}

// refuse answers everybody in a failed batch, and in those that were filled meanwhile as they may rest on the failed one.
// When the outcome of the append is unknown the shard reloads from the journal before, so that who asks again finds a shard that serves;
// when another writer has the journal, it serves no more.
func (p *writer) refuse(b *machine.Batch, cause error) {
	s := p.s
	err := commitError(cause)
	if errors.Is(cause, journal.ErrSync) {
		s.options.Fatal(cause)
	}
	s.applying.Lock()
	s.mu.Lock()
	all := append([]*machine.Batch{b}, p.sealed...)
	all = append(all, s.m.Batch)
	s.m.Batch, p.sealed, p.inflight = machine.NewBatch(), nil, nil
	if b.Refused == nil { // else the state is thrown away, and not to be trusted until then
		for _, failed := range slices.Backward(all) {
			failed.Undo(s.m)
		}
		s.disk.appends.note(cause)
	}
	conflict := errors.Is(cause, journal.ErrConflict)
	if conflict {
		p.depose(cause)
	}
	reloads := !conflict && !errors.Is(cause, journal.ErrFull) && s.lost == nil
	if s.reloading = reloads; !reloads {
		s.waiters.serve(s.now())
	}
	s.mu.Unlock()
	s.applying.Unlock()
	s.options.Logger.Error("commit failed", "shard", s.options.ID, "error", cause)
	if reloads {
		p.reload(cause)
	}
	for _, failed := range all {
		failed.Err = err
		close(failed.Done)
	}
}

// depose ends all writing, for good: another writer has the journal. Whatever is in memory may be behind what that one does. The mutex is
// held.
func (p *writer) depose(cause error) {
	if s := p.s; s.lost == nil {
		s.lost = cause
		s.dismiss()
		s.options.Logger.Error("another writer has the journal: this queue is not served here any more", "queue", s.options.Queue,
			"error", cause)
	}
}

func commitError(cause error) error {
	if errors.Is(cause, journal.ErrFull) {
		return cause // which says so
	}
	if errors.Is(cause, journal.ErrConflict) {
		return moved(cause)
	}
	return &queue.Error{Code: queue.CodeCommitFailed, Message: "The commit failed and it is not known whether it " +
		"took effect. Ask again: completions and inserts with an Idempotency-Key can be repeated safely.", Err: cause}
}

// roomy runs a write; when the disk is full it frees the ballast and tries once more, so that completions get through on
// a disk that inserts have filled.
func (p *disk) roomy(write func() error) error {
	err := write()
	if errors.Is(err, journal.ErrFull) {
		p.s.full.Store(true)
		if p.s.options.FreeBallast() {
			return write()
		}
	}
	return err
}

// fresh reuses the buffer of an answered batch. The mutex is held.
func (p *writer) fresh() *machine.Batch {
	b := machine.NewBatch()
	if spare := p.spare; spare != nil {
		p.spare = nil
		b.Enc, b.Marked, b.Intents = spare.Enc, spare.Marked[:0], spare.Intents
	}
	return b
}

// maxSpare bounds the buffer that is kept for the next batch.
const maxSpare = 4 << 20

func (p *writer) recycle(b *machine.Batch) {
	if len(b.Enc.Bytes()) > maxSpare {
		return
	}
	b.Intents.Reuse()
	p.s.mu.Lock()
	p.spare = &machine.Batch{Enc: b.Enc, Marked: b.Marked, Intents: b.Intents}
	p.s.mu.Unlock()
}
