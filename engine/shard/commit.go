package shard

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// batch is what one journal append will make durable: the ops of every call that arrived during the previous append.
type batch struct {
	enc     journal.Encoder
	begun   bool
	intents intents
	marked  []marked      // reservations that it finishes: intents that cost no more than their place in this list
	done    chan struct{} // closed after the commit and its effects, or its failure
	err     error         // set before done is closed
	next    *batch        // what it leads to: the batch that its completions joined when their outputs were written
	late    bool          // set before done is closed: some of them did not, as their submission had ended by then

	refused error // it is not to be appended: what it was encoded from is not to be trusted
}

type marked struct {
	slot     uint32
	sequence uint64
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

func (b *batch) mark(slot uint32, sequence uint64) {
	b.marked = append(b.marked, marked{slot, sequence})
}

// undo takes back what the batch was to do, when its commit has failed.
func (b *batch) undo(m *machine) {
	b.intents.undo(m)
	for _, mark := range slices.Backward(b.marked) {
		m.abandon(mark.slot, mark.sequence)
	}
}

// commits is a set of batches that a call has to wait for: one, nearly always.
type commits struct {
	first *batch
	more  []*batch
}

func (c *commits) add(b *batch) {
	switch {
	case b == nil || b == c.first || len(c.more) > 0 && c.more[len(c.more)-1] == b:
	case c.first == nil:
		c.first = b
	default:
		c.more = append(c.more, b)
	}
}

// writer appends the open batches to the journal, in their order, and applies them.
type writer struct {
	s        *Shard
	sealed   []*batch // full, to be appended in this order before the open one
	inflight *batch   // being appended and applied
	spare    *batch   // its buffers are free
	wake     chan struct{}
	ended    chan struct{} // closed when run has
}

// pending is the batch that decides what the caller has just done or seen: the open one when it holds ops, otherwise the
// one being appended (an "already" may rest on it). The mutex is held.
func (p *writer) pending() *batch {
	if p.s.m.batch.begun {
		return p.s.m.batch
	}
	if n := len(p.sealed); n > 0 {
		return p.sealed[n-1]
	}
	return p.inflight
}

// seal ends the open batch: what follows goes into the next one. The mutex is held.
func (p *writer) seal() {
	s := p.s
	if s.m.batch.begun {
		p.sealed = append(p.sealed, s.m.batch)
		s.m.batch = p.fresh()
	}
}

// fullBatch is how many bytes of ops share an append: with more, everyone in it would wait for longer than a sync.
const fullBatch = 4 << 20

// sealFull ends the open batch when it is full. What has to be in one batch is in it. The mutex is held.
func (p *writer) sealFull() {
	if len(p.s.m.batch.enc.Bytes()) >= fullBatch {
		p.seal()
	}
}

// take takes the batch that is to be appended next; nil when there is none. The mutex is held.
func (p *writer) take() (b *batch) {
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
func (p *writer) wait(c commits) error {
	if c.first == nil {
		return nil
	}
	p.kick()
	if err := c.first.wait(); err != nil {
		return err
	}
	for _, b := range c.more {
		if err := b.wait(); err != nil {
			return err
		}
	}
	return nil
}

// wait waits for the batch and for what it leads to.
func (b *batch) wait() error {
	for ; b != nil; b = b.next {
		<-b.done
		if b.err != nil {
			return b.err
		}
	}
	return nil
}

// late says that some of what was waited for came to nothing, without an error: an "already" that rests on it has to be looked at again.
func (c *commits) late() bool {
	return c.first != nil && (c.first.late || slices.ContainsFunc(c.more, func(b *batch) bool { return b.late }))
}

func (p *writer) kick() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run is the shard's one goroutine that appends. No timer: a batch is whatever arrived during the previous append.
func (p *writer) run() {
	defer close(p.ended)
	for open := true; open; {
		select {
		case <-p.wake:
		case <-p.s.quit:
			open = false // nothing is added any more: what there is gets its answer
		}
		for p.one() {
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
	tail, lost := s.m.applied, s.lost
	s.mu.Unlock()
	if cause := cmp.Or(b.refused, lost); cause != nil {
		p.refuse(b, cause)
		return true
	}

	started := s.options.Now()
	var position journal.Position
	err := s.disk.roomy(func() (err error) {
		position, err = s.journal.Append(context.Background(), tail, b.enc.Bytes())
		return err
	})
	if err != nil {
		p.refuse(b, err)
		return true
	}
	s.options.Committed(s.options.Now().Sub(started), b.enc.Ops(), len(b.enc.Bytes()))
	p.apply(position, b)
	s.checkpoints.note(len(b.enc.Bytes()))
	return true
}

// applySlice is how many ops one hold of the mutex applies.
const applySlice = 128

// apply makes a committed batch true in memory, serves who waited for it, and answers its callers. Folds are kept out
// meanwhile: a row must not be taken between two ops of one position.
func (p *writer) apply(position journal.Position, b *batch) {
	s := p.s
	s.applying.Lock()
	defer s.applying.Unlock()
	decoder, ops := journal.NewDecoder(b.enc.Bytes()), 0
	for more := true; more; {
		s.mu.Lock()
		s.m.applied, s.m.now = position, decoder.At()
		var err error
		for n := 0; n < applySlice && more && err == nil; n++ {
			more, err = decoder.Step(s.m)
			ops++
			b.intents.applied(s.m, ops)
		}
		if err != nil {
			s.mu.Unlock()
			s.options.Fatal(err) // our own bytes of a moment ago: memory is damaged
			return
		}
		if !more {
			p.inflight = nil
			s.m.ends.settle(position)
			s.Ends.tell()
			s.m.stats.commits++
			s.m.stats.commitBytes += uint64(len(b.enc.Bytes()))
			s.disk.appends.note(nil)
			s.countLive()
		}
		s.waiters.serve(s.now())
		posted := s.m.forwarding.posted
		s.m.forwarding.posted = false
		s.mu.Unlock()
		if posted && s.options.Posted != nil {
			s.options.Posted()
		}
	}
	close(b.done)
	p.recycle(b)
}

// refuse answers everybody in a failed batch, and in those that were filled meanwhile as they may rest on the failed one.
// When the outcome of the append is unknown the shard reloads from the journal.
func (p *writer) refuse(b *batch, cause error) {
	s := p.s
	err := commitError(cause)
	if errors.Is(cause, journal.ErrSync) {
		s.options.Fatal(cause)
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	s.mu.Lock()
	all := append([]*batch{b}, p.sealed...)
	all = append(all, s.m.batch)
	s.m.batch, p.sealed, p.inflight = newBatch(), nil, nil
	if b.refused == nil { // else the state is thrown away, and not to be trusted until then
		for _, failed := range slices.Backward(all) {
			failed.undo(s.m)
		}
		s.disk.appends.note(cause)
	}
	for _, failed := range all {
		failed.err = err
		close(failed.done)
	}
	if !errors.Is(cause, journal.ErrFull) && s.lost == nil {
		s.reload(cause)
	}
	s.waiters.serve(s.now())
	s.mu.Unlock()
	s.options.Logger.Error("commit failed", "shard", s.options.ID, "error", cause)
}

func commitError(cause error) error {
	if errors.Is(cause, journal.ErrFull) {
		return cause // which says so
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
func (p *writer) fresh() *batch {
	b := newBatch()
	if spare := p.spare; spare != nil {
		p.spare = nil
		b.enc, b.marked, b.intents = spare.enc, spare.marked[:0], spare.intents
	}
	return b
}

// maxSpare bounds the buffer that is kept for the next batch.
const maxSpare = 4 << 20

func (p *writer) recycle(b *batch) {
	if len(b.enc.Bytes()) > maxSpare {
		return
	}
	b.intents.reuse()
	p.s.mu.Lock()
	p.spare = &batch{enc: b.enc, marked: b.marked, intents: b.intents}
	p.s.mu.Unlock()
}
