package shard

// Complete. Signatures are checked before the mutex is taken: a MAC takes time that no other caller
// should have to wait for. Then slices of at most SliceItems items, or outputSlice
// bytes of outputs, are decided and encoded in one hold each. The call waits once, for the commits
// of all slices.
//
// An output stands before its completion in the same batch. In two batches, a crash between them
// would leave a chunk that is done without its output.

import (
	"context"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// scratch is the memory of one complete, kept for the next.
type scratch struct {
	list  []journal.Completed
	valid []bool // by item: is the token one of ours?
}

// check finds out which tokens are valid. It needs nothing of the machine, so it is done
// outside of the mutex. A token of a deleted queue that had the number of this one may have
// the epoch and the sequence of one of its own. Its submission is older than this queue.
func (c *scratch) check(key reserver.Key, born queue.Time, items []queue.CompleteItem) {
	c.valid = c.valid[:0]
	for i := range items {
		t := &items[i].Token
		c.valid = append(c.valid, key.Valid(t) && t.Submission.Time() >= born)
	}
}

// outputSlice bounds the outputs, in bytes, that one hold of the mutex encodes. One output
// alone may be larger.
const outputSlice = 256 << 10

// nextSlice is how many of these completions, from the first on, one hold of the mutex
// works on, and the bytes of their outputs; 0: the first one brings inserts, and is alone.
func nextSlice(items []queue.CompleteItem) (n, bytes int) {
	for ; n < min(len(items), shell.SliceItems) && len(items[n].Insert) == 0; n++ {
		more := 0
		if items[n].Output != nil {
			more = len(items[n].Output) + itemCost
		}
		if n > 0 && bytes+more > outputSlice {
			break
		}
		bytes += more
	}
	return n, bytes
}

// Complete finishes chunks: one result per item, in order, appended to dst. It returns after the
// commit. An output travels in the batch of its completion, so that both are durable or neither is.
func (s *Shard) Complete(ctx context.Context, items []queue.CompleteItem, dst []queue.Result) ([]queue.Result, error) {
	from := len(dst)
	scratch := s.pools.takeScratch()
	var waits commit.Set
	var inserts inserting
	var err error
	for rest := items; len(rest) > 0 && err == nil; {
		n, bytes := nextSlice(rest)
		if n == 0 {
			var result queue.Result
			result, err = inserts.complete(ctx, s, &rest[0], &waits)
			dst, rest = append(dst, result), rest[1:]
			continue
		}
		if err = s.contents.room(bytes); err == nil {
			dst, err = s.completeSlice(rest[:n], dst, scratch, &waits)
		}
		rest = rest[n:]
	}
	s.pools.scratch.Put(scratch)
	err = s.writer.outcome(waits, err)
	if inserts.over(ctx, err); err != nil {
		return dst, err
	}
	return dst, s.askHistory(ctx, dst[from:], func(i int) *queue.Token { return &items[i].Token })
}

// completeSlice decides and encodes completions, with the outputs that they bring.
func (s *Shard) completeSlice(items []queue.CompleteItem, dst []queue.Result, scratch *scratch,
	waits *commit.Set) ([]queue.Result, error) {
	scratch.check(s.options.Key, s.options.Born, items)
	err := (*doors)(s).Locked(func(m *machine.Machine, now queue.Time) error {
		from := len(dst)
		var list []journal.Completed
		dst, list = m.Completes(items, scratch.valid, now, dst, scratch.list[:0])
		scratch.list = list[:0]
		if len(list) > 0 {
			enc := m.Encode(now)
			encodeOutputs(enc, items, dst[from:], list)
			enc.Complete(list)
			s.writer.sealFull()
		}
		waits.Add(s.writer.pending())
		return nil
	})
	return dst, err
}

// encodeOutputs encodes the outputs of accepted completions. list has the completions, in
// the order of their items.
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
