package shard

import (
	"context"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/store"
)

// scratch is the memory of one complete, kept for the next.
type scratch struct {
	list  []journal.Completed
	valid []bool // by item: is the token one of ours?
}

// check finds out which tokens are valid. It needs nothing of the machine, so it is done outside of the mutex.
func (c *scratch) check(key reserver.Key, items []queue.CompleteItem) {
	c.valid = c.valid[:0]
	for i := range items {
		c.valid = append(c.valid, key.Valid(&items[i].Token))
	}
}

// outputBytes is what the outputs of completions take in a batch.
func outputBytes(items []queue.CompleteItem) (bytes int) {
	for i := range items {
		if items[i].Output != nil {
			bytes += len(items[i].Output) + itemCost
		}
	}
	return bytes
}

// Complete finishes chunks: one result per item, in order, appended to dst. It returns after the commit. Outputs are in it, so that a
// committed completion never lacks its output. Those of a call that are too many for a batch are written before it, and after the
// reservation is Finishing, so that no one else's output can replace them.
func (s *Shard) Complete(ctx context.Context, items []queue.CompleteItem, dst []queue.Result) ([]queue.Result, error) {
	from := len(dst)
	scratch := s.takeScratch()
	var waits commit.Set
	for rest := items; len(rest) > 0; {
		slice := s.contents.sharing(rest[:min(sliceItems, len(rest))])
		rest = rest[len(slice):]
		var err error
		bytes := outputBytes(slice)
		writes := bytes > 0 && s.contents.beside(bytes)
		if !writes {
			dst, writes, err = s.completeNow(slice, dst, scratch, &waits)
		}
		if writes {
			dst, err = s.completeWriting(ctx, slice, dst, &waits)
		}
		if err != nil {
			return dst, s.writer.settle(waits, err)
		}
	}
	s.pools.scratch.Put(scratch)
	if err := s.writer.wait(waits); err != nil {
		return dst, err
	}
	token := func(i int) *queue.Token { return &items[i].Token }
	if waits.Late() {
		s.again(dst[from:], token)
	}
	return dst, s.askHistory(ctx, dst[from:], token)
}

// again looks once more at what is "already" done: it may have rested on a completion whose submission ended while its output was written.
func (s *Shard) again(results []queue.Result, token func(i int) *queue.Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range results {
		if results[i].Outcome == queue.OutcomeAlready {
			_, _, standing := s.m.Tokens.Resolve(token(i))
			results[i] = machine.Answer(standing)
		}
	}
}

// doubted says whether some of these chunks may have an output that an earlier completion left which was not committed. The mutex is
// held.
func (s *Shard) doubted(items []queue.CompleteItem) bool {
	for i := range items {
		if r := s.m.Live(items[i].Token.Submission); r != nil && s.store.Doubts.Holds(r.Seq, items[i].Token.Index) {
			return true
		}
	}
	return false
}

// completeNow decides and encodes completions, with the outputs that they bring. stray says that it did nothing, as something has to be
// taken off the disk first.
func (s *Shard) completeNow(items []queue.CompleteItem, dst []queue.Result, scratch *scratch,
	waits *commit.Set) (_ []queue.Result, stray bool, err error) {
	now := s.now()
	scratch.check(s.options.Key, items)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return dst, false, err
	}
	if s.store.Doubts.Any() && s.doubted(items) {
		return dst, true, nil
	}
	from := len(dst)
	var list []journal.Completed
	dst, list = s.m.Completes(items, scratch.valid, now, dst, scratch.list[:0], s.m.Batch, waits)
	scratch.list = list[:0]
	if len(list) > 0 {
		enc := s.m.Encode(now)
		encodeOutputs(enc, items, dst[from:], list)
		enc.Complete(list)
		s.writer.sealFull()
	}
	waits.Add(s.writer.pending())
	return dst, false, nil
}

// encodeOutputs encodes what accepted completions bring. list has these, in the order of their items.
func encodeOutputs(enc *journal.Encoder, items []queue.CompleteItem, results []queue.Result, list []journal.Completed) {
	for i := range items {
		if results[i].Outcome != queue.OutcomeOK {
			continue
		}
		if list[0].Output {
			enc.Output(&journal.Output{Seq: list[0].Seq, Index: list[0].Index, Bytes: items[i].Output})
		}
		list = list[1:]
	}
}

// completeWriting decides, writes the outputs of what is accepted, takes away what an earlier completion without success left of those that
// have none, and encodes. Meanwhile the reservations are Finishing in a batch of their own, which leads to the one they end up in.
func (s *Shard) completeWriting(ctx context.Context, items []queue.CompleteItem, dst []queue.Result,
	waits *commit.Set) ([]queue.Result, error) {
	from, now := len(dst), s.now()
	own := machine.NewBatch()
	var tokens scratch
	tokens.check(s.options.Key, items)
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return dst, err
	}
	m := s.m
	dst, list := m.Completes(items, tokens.valid, now, dst, nil, own, waits)
	for _, mark := range own.Marked {
		m.Writing[mark.Slot] = own.Commit
	}
	if len(list) < len(items) { // what is done already may rest on it
		waits.Add(s.writer.pending())
	}
	waits.Add(own.Commit)
	s.outputs.RLock() // under the mutex, so that no reload comes in between
	s.mu.Unlock()

	var outputs, strays []store.Output
	accepted := make([]int, 0, len(list)) // their places in dst
	for i := range items {
		if dst[from+i].Outcome != queue.OutcomeOK {
			continue
		}
		of := &list[len(accepted)]
		if items[i].Output != nil {
			outputs = append(outputs, store.Output{Seq: of.Seq, Index: of.Index, Bytes: items[i].Output})
		} else if s.store.Doubts.Holds(of.Seq, of.Index) {
			strays = append(strays, store.Output{Seq: of.Seq, Index: of.Index})
		}
		accepted = append(accepted, from+i)
	}
	var err error
	if len(strays) > 0 {
		err = s.disk.write(func() error { return s.store.WithdrawOutputs(ctx, strays) })
	}
	if err == nil && len(outputs) > 0 {
		s.store.Doubts.Add(outputs)
		err = s.disk.write(func() error { return s.store.AppendOutputs(ctx, outputs) })
	}
	s.outputs.RUnlock()
	return dst, s.join(m, own, list, storeError(err), func(i int) { dst[accepted[i]] = machine.Answer(machine.Ended) })
}

// join encodes completions whose outputs are on the disk, or gives their reservations back. gone is told of those whose
// submission has ended meanwhile.
func (s *Shard) join(m *machine.Machine, own *machine.Batch, list []journal.Completed, err error, gone func(i int)) error {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(own.Done)
	if err == nil {
		err = s.usable()
	}
	if err == nil && s.m != m {
		err = commitError(journal.ErrUnknown) // reloaded: the reservations are held again, and may be completed again
	}
	keep := list[:0]
	for i, mark := range own.Marked {
		delete(m.Writing, mark.Slot)
		h := m.Holds.At(mark.Slot)
		there := h != nil && h.Sequence == mark.Sequence
		open := there && m.LiveSeq(h.Seq) != nil && !m.LiveSeq(h.Seq).Ending
		if err != nil || !open {
			m.Abandon(mark.Slot, mark.Sequence)
			own.Late = true
			gone(i)
			continue
		}
		m.Batch.Mark(mark.Slot, mark.Sequence)
		keep = append(keep, list[i])
	}
	if own.Err = err; err != nil {
		s.waiters.serve(now)
		return err
	}
	if len(keep) > 0 {
		m.Encode(now).Complete(keep)
	}
	own.Next = s.writer.pending() // of those that are late, what ends their submission
	s.waiters.serve(now)
	return nil
}
