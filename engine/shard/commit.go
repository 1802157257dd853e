package shard

// Group commit: how decisions become durable, and what happens when an append fails.
//
//	             seal                  take                   apply
//	open batch ───────► sealed batches ────► batch in flight ───────► state of the machine
//	     │                    │                     │
//	     └────────────────────┴──── refuse ◄────────┘  all of them, when the append fails
//
// A call holds the mutex, decides by the state and the ops on their way, encodes its ops into the open batch, and waits
// for the commit of that batch. One goroutine, run, appends. No timer: a batch is whatever arrived during the append
// before it.
//
// These invariants hold whenever the mutex is held:
//
//  1. One batch is open (m.Batch), at most one is in flight, and those between them are in the order in
//     which they were sealed. The journal has them in that order, because only run appends.
//  2. Ops that must be durable together are encoded in one hold of the mutex. A batch is sealed between
//     two holds, never within one: so they are in one batch, and a batch is one append.
//  3. No caller, watcher or stream hears of an op before its batch was applied. A call that changes nothing but has
//     seen a mark, such as an "already", waits for pending(): the youngest batch that can hold the op of the mark.
//  4. A decision that is not durable leaves a mark in memory: a reservation that is Finishing
//     (Batch.Marked), or an intent. The batch that holds the op holds the mark, so each mark ends
//     exactly once: applied with its op, or undone.
//  5. Batches fail together. Ops in a younger batch may rest on marks of an older one, so when an append fails, the
//     batch in flight, all sealed ones and the open one fail with it. Marks are undone from the youngest to the oldest,
//     as younger ones stand on older ones.
//  6. Without reservations and marks, memory equals the journal up to m.AppliedAt. Rows of a checkpoint carry that
//     position, and a replay of the journal behind it, through the same Apply methods, makes the same state. So a row
//     is never taken between two ops of one batch: apply holds `applying` for the whole batch, and a checkpoint takes
//     it before it asks for the position.
//  7. apply lets go of the mutex after each 128 ops, so that a batch of many ops delays no call for long. Calls may
//     then see a part of a batch applied. Rules 3 and 4 make that safe: ops that are not applied yet still have their
//     marks.
//
// How an append fails decides what follows (journal.Journal has the contract):
//
//	ErrFull      nothing was written. Marks are undone, callers may repeat the call, and the state is
//	             good as it is.
//	ErrConflict  nothing was written, and another writer has the journal. This shard is deposed: it
//	             decides nothing any more, for good.
//	ErrSync      the disk lost what it had acknowledged. No memory can be trusted: the process ends.
//	others       it is not known whether the batch was written. The shard reloads from the journal:
//	             Prepare reads what is there, Claim appends behind it, and an append that comes late is refused from
//	             then on. State that only memory has (reservations, waiters, totals) is carried over. Callers hear
//	             commit_failed, which promises nothing.
//
// A batch whose Refused is set is never appended: an action panicked while the batch was open, so the state behind its
// decisions is not to be trusted. The shard reloads at once, and undoes nothing in that state.
//
// Order of the locks: shell/order.go has them all, and tests under the race detector
// assert it. Of those here, applying comes before the mutex. No goroutine waits for a
// commit with a lock that run, apply or refuse take: these are applying and the mutex.

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/locks"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/disk"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// writer appends the open batches to the journal, in their order, and applies them.
type writer struct {
	writerMeans
	m        *machine.Machine // the mutex guards it
	journal  journal.Journal  // of the machine. The mutex guards it, but for this goroutine, which alone changes it
	sealed   []*machine.Batch // full, to be appended in this order before the open one
	inflight *machine.Batch   // being appended and applied
	spare    *machine.Batch   // its buffers are free
	patience patience
	wake     chan struct{}
	heal     chan chan struct{} // asks for a reload that failed to be made again, and is told when that is over
	ended    chan struct{}      // closed when run has
}

// writerMeans are the dependencies of a writer.
type writerMeans struct {
	options  *Options
	mu       *holdLock
	applying *locks.Mutex[shell.InApplying]
	disk     *disk.Disk
	alive    context.Context
	appended func(bytes int)   // told of each batch in the journal
	reload   func(cause error) // makes the state again, after an append of unknown outcome
	again    func()            // makes a reload again that failed

	// With the mutex held:
	lost    func() error                    // why nothing is written any more; nil: it is
	applied func(position journal.Position) // told of each batch that is applied
	// hands available chunks to calls that wait; posted: letters left for other queues
	serve   func() (posted bool)
	refused func(cause error) (reloads bool) // told of an append that failed; reloads: the state has to be made again
}

// pending is the batch on which the answer to the caller depends: the open one if it holds ops, otherwise the last one
// sealed, or the one being appended (an "already" may rest on it). The mutex is held.
func (p *writer) pending() *commit.Commit {
	switch n := len(p.sealed); {
	case p.m.Batch.Begun:
		return p.m.Batch.Commit
	case n > 0:
		return p.sealed[n-1].Commit
	case p.inflight != nil:
		return p.inflight.Commit
	}
	return nil
}

// seal ends the open batch: later ops go into the next one. The mutex is held.
func (p *writer) seal() {
	if p.m.Batch.Begun {
		p.sealed = append(p.sealed, p.m.Batch)
		p.m.Batch = p.fresh()
	}
}

// fullBatch is how many bytes of ops share an append: with more, all callers in it would wait for longer than a sync.
const fullBatch = 4 << 20

// sealFull ends the open batch if it is full. Ops that belong together are already in it.
// The mutex is held.
func (p *writer) sealFull() {
	if len(p.m.Batch.Enc.Bytes()) >= fullBatch {
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
func (p *writer) wait(c commit.Set) error { return p.outcome(c, nil) }

// outcome is wait for a call that broke off because of cause; nil: the call came to its end. The error says that
// nothing was done only if that is true.
func (p *writer) outcome(c commit.Set, cause error) error {
	if c.First == nil {
		return cause
	}
	p.kick()
	some, err := c.Wait()
	// A commit of unknown outcome may have done something. So its error counts, and not the cause, which may be that
	// the shard reloads and nothing was done.
	if cause == nil || queue.CodeOf(err) == queue.CodeCommitFailed {
		cause = err
	}
	if cause != nil && some {
		return partly(cause)
	}
	return cause
}

// partly replaces an error that says that nothing was done, for a call that may have done something.
func partly(cause error) error {
	switch queue.CodeOf(cause) {
	case queue.CodeDiskFull, queue.CodeUnavailable, queue.CodeMoved:
		return &queue.Error{Code: queue.CodeCommitFailed,
			Message: "Some of this request may have been done, and some was not. " +
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

// run is the shard's one goroutine that appends. No timer: a batch is whatever arrived during the previous append.
// Before it takes a batch it lets every runnable goroutine run: calls that have arrived join the batch. So a busy
// server makes half as many commits, and an idle one waits for no one.
func (p *writer) run() {
	defer close(p.ended)
	for open := true; open; {
		select {
		case <-p.wake:
		case done := <-p.heal:
			p.again()
			close(done)
		case <-p.alive.Done():
			open = false // no op is added any more: the callers that wait get their answers
		}
		for runtime.Gosched(); p.one(); runtime.Gosched() {
		}
	}
}

// one appends the open batch, if it holds anything, and applies it.
func (p *writer) one() bool {
	p.mu.Lock()
	b := p.take()
	if b == nil {
		p.mu.Unlock()
		return false
	}
	p.inflight = b
	tail, lost := p.m.AppliedAt, p.lost()
	ctx := p.patience.begin(p.options.Now())
	p.mu.Unlock()
	if cause := cmp.Or(b.Refused, lost); cause != nil {
		p.refuse(b, cause)
		return true
	}

	started := p.patience.since
	var position journal.Position
	batch := b.Enc.Packed()
	err := p.disk.Roomy(func() (err error) {
		position, err = p.journal.Append(ctx, tail, batch)
		return err
	})
	if err != nil {
		p.refuse(b, err)
		return true
	}
	p.options.Committed(p.options.Now().Sub(started), b.Enc.Ops(), len(batch))
	p.apply(position, b, len(batch))
	p.appended(len(b.Enc.Bytes()))
	return true
}

// applySlice is how many ops one hold of the mutex applies.
const applySlice = 128

// apply applies a committed batch in memory, serves its waiters and answers its callers. Checkpoints wait meanwhile: a
// row must not be taken between two ops of one position. `size` is the number of bytes written.
func (p *writer) apply(position journal.Position, b *machine.Batch, size int) {
	p.applying.Lock()
	defer p.applying.Unlock()
	decoder, ops := journal.NewDecoder(b.Enc.Bytes()), 0
	for more := true; more; {
		p.mu.Lock()
		p.m.AppliedAt, p.m.Now = position, decoder.At()
		var err error
		for n := 0; n < applySlice && more && err == nil; n++ {
			more, err = decoder.Step(p.m)
			ops++
			b.Intents.Applied(p.m, ops)
		}
		p.m.Runs.Measure(p.m.Now)
		if err != nil {
			p.mu.Unlock()
			p.options.Fatal(err) // our own bytes of a moment ago: memory is damaged
			return
		}
		if !more {
			p.inflight = nil
			p.m.Stats.Commits++
			p.m.Stats.CommitBytes += uint64(size)
			p.disk.Appends.Note(nil)
			p.applied(position)
		}
		posted := p.serve()
		p.mu.Unlock()
		if posted && p.options.Posted != nil {
			p.options.Posted()
		}
	}
	close(b.Done)
	p.recycle(b)
}

// refuse answers all callers of a failed batch, and of the batches filled meanwhile, as these may rest on the failed
// one. If the outcome of the append is unknown, the shard first reloads from the journal, so that callers that ask
// again find a shard that serves. If another writer has the journal, the shard serves no more.
func (p *writer) refuse(b *machine.Batch, cause error) {
	err := commit.Failed(cause)
	if errors.Is(cause, journal.ErrSync) {
		p.options.Fatal(cause)
	}
	p.applying.Lock()
	p.mu.Lock()
	all := append([]*machine.Batch{b}, p.sealed...)
	all = append(all, p.m.Batch)
	p.m.Batch, p.sealed, p.inflight = machine.NewBatch(), nil, nil
	if b.Refused == nil { // else the state is thrown away, and not to be trusted until then
		for _, failed := range slices.Backward(all) {
			failed.Undo(p.m)
		}
		p.disk.Appends.Note(cause)
	}
	reloads := p.refused(cause)
	p.mu.Unlock()
	p.applying.Unlock()
	p.options.Logger.Error("commit failed", "shard", p.options.ID, "error", cause)
	if reloads {
		p.reload(cause)
	}
	for _, failed := range all {
		failed.Err = err
		close(failed.Done)
	}
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
	p.mu.held(func() { p.spare = &machine.Batch{Enc: b.Enc, Marked: b.Marked, Intents: b.Intents} })
}
