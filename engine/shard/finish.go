package shard

// Fail, Extend and Release. Fail is a decision that is written. Extend and Release change memory only, as reservations
// are not on disk. But they may not say more than the disk: "gone" is answered only when the end of the chunk is
// durable (untilGone). Else a crash could bring back a chunk after its consumer dropped the work.

import (
	"cmp"
	"context"
	"slices"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/contents"
	"github.com/quern-queue/quern/engine/shard/inserts"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// Fail reports failed tries: one result per item, in order, appended to dst. It returns after the commit.
func (s *Shard) Fail(ctx context.Context, items []queue.FailItem, dst []queue.Result) ([]queue.Result, error) {
	from := len(dst)
	var waits commit.Set
	for start := 0; start < len(items); start += shell.SliceItems {
		slice := items[start:min(start+shell.SliceItems, len(items))]
		err := (*doors)(s).Locked(func(m *machine.Machine, now queue.Time) error {
			m.Seed(s.options.Seed())
			dst = m.Fails(slice, now, dst)
			waits.Add(s.writer.pending())
			return nil
		})
		if err != nil {
			return dst, s.writer.outcome(waits, err)
		}
	}
	if err := s.writer.wait(waits); err != nil {
		return dst, err
	}
	return dst, s.askHistory(ctx, dst[from:], func(i int) *queue.Token { return &items[i].Token })
}

// Extend moves deadlines: one result per item, in order, appended to dst. Nothing is written to disk; before it says
// that a chunk is gone, it waits until the end of the chunk is durable.
//
// It waits before it changes anything. An extend that is refused must leave each deadline as it was.
func (s *Shard) Extend(ctx context.Context, items []queue.ExtendItem, dst []queue.Result) ([]queue.Result, error) {
	from := len(dst)
	var refused, durable []int
	for done := false; !done; {
		var waits commit.Set
		err := (*doors)(s).Locked(func(m *machine.Machine, now queue.Time) error {
			if pending := s.writer.pending(); pending != nil {
				refused = m.Tokens.Refused(items, refused[:0])
				if slices.ContainsFunc(refused, func(i int) bool {
					_, is := slices.BinarySearch(durable, i)
					return !is
				}) {
					waits.Add(pending)
					return nil
				}
			}
			dst, done = m.Extends(items, now, dst), true
			return nil
		})
		if err := cmp.Or(err, s.writer.wait(waits), s.owned()); err != nil {
			return dst, err
		}
		refused, durable = durable, refused
	}
	return dst, s.askHistory(ctx, dst[from:], func(i int) *queue.Token { return &items[i].Token })
}

// Release gives chunks back: one result per item, in order, appended to dst. Only a delay is written to
// disk, and waited for. Otherwise it is as Extend.
func (s *Shard) Release(ctx context.Context, items []queue.ReleaseItem, dst []queue.Result) ([]queue.Result, error) {
	from := len(dst)
	var waits commit.Set
	// A chunk that is released without a delay is given back at once, even if the commits fail. If another server has
	// the queue, that does not count: this one's memory is void.
	failed := func(err error) error {
		for i := range dst[from:] {
			if items[i].Delay == 0 && dst[from+i].Outcome == queue.OutcomeOK && queue.CodeOf(err) != queue.CodeMoved {
				return partly(err)
			}
		}
		return err
	}
	for start := 0; start < len(items); start += shell.SliceItems {
		slice, first := items[start:min(start+shell.SliceItems, len(items))], len(dst)
		err := (*doors)(s).Locked(func(m *machine.Machine, now queue.Time) error {
			dst = m.Releases(slice, now, dst)
			if slices.ContainsFunc(slice, func(item queue.ReleaseItem) bool { return item.Delay > 0 }) {
				waits.Add(s.writer.pending())
			} else {
				gone := s.untilGone(dst[first:])
				waits.Join(&gone)
			}
			s.waiters.Serve(now)
			return nil
		})
		if err != nil {
			return dst, failed(s.writer.outcome(waits, err))
		}
	}
	if err := cmp.Or(s.writer.wait(waits), s.owned()); err != nil {
		return dst, failed(err)
	}
	return dst, s.askHistory(ctx, dst[from:], func(i int) *queue.Token { return &items[i].Token })
}

// untilGone is the commits to wait for before an answer says that a chunk is gone or lost: the op that ends it may be
// on its way to the disk. A caller that gets this answer, and then reads the submission, must not find the chunk held.
// The mutex is held.
func (s *Shard) untilGone(results []queue.Result) (waits commit.Set) {
	for i := range results {
		if o := results[i].Outcome; o == queue.OutcomeGone || o == queue.OutcomeLost {
			waits.Add(s.writer.pending())
			break
		}
	}
	return waits
}

// askHistory replaces "unknown submission" by the state in the history: the submission ended long ago. If the history
// cannot be read, it returns an error, and also for a token of a later life of the queue: a consumer that gets
// "unknown" drops the work.
//
// The machine forgets ended submissions; the store's history has them until retention. The question goes to the disk,
// so it is asked without the mutex, and only for tokens that memory does not know.
func (s *Shard) askHistory(ctx context.Context, results []queue.Result, token func(i int) *queue.Token) error {
	for i := range results {
		if results[i].Code == "unknown_token" && ofLaterLife(s, token(i)) {
			return errNewer
		}
		if results[i].Code != "unknown_submission" {
			continue
		}
		row, found, err := s.store.History.Ended(ctx, token(i).Submission)
		switch {
		case err != nil:
			return err
		case !found:
		case row.State == queue.Completed || row.State == queue.CompletedWithDead:
			results[i] = machine.Answer(machine.Lost)
		default:
			results[i] = machine.Answer(machine.Ended)
		}
	}
	return nil
}

// errNewer refuses a call with a token of a later life of the queue. The other items of the call are done, and
// recognised when they are sent again.
var errNewer = &queue.Error{Code: queue.CodeMoved,
	Message: "A later life of this queue than the one that runs here has given out a " +
		"token of this call: another server has the queue, or this one runs on older files. Keep the work, and send " +
		"the " +
		"call again to the " +
		"server that has the queue."}

// Epoch is that of the claim with which this life of the queue began.
func (s *Shard) Epoch() (epoch uint32) {
	s.mu.held(func() { epoch = s.m.Epoch })
	return epoch
}

// ofLaterLife says whether a later life of this queue gave out a token. A token of a deleted queue with the same number
// does not count: its submission is older than this queue.
func ofLaterLife(s *Shard, t *queue.Token) bool {
	return t.Epoch > s.Epoch() && s.options.ours(t)
}

// Complete. Signatures are checked before the mutex is taken: a MAC takes time that no other caller
// should have to wait for. Then slices of at most SliceItems items, or outputSlice
// bytes of outputs, are decided and encoded in one hold each. The call waits once, for the commits
// of all slices.
//
// An output stands before its completion in the same batch. In two batches, a crash between them
// would leave a chunk that is done without its output.

// scratch is the memory of one complete, kept for the next.
type scratch struct {
	list  []journal.Completed
	valid []bool // by item: is the token one of ours?
}

// ours says that this shard's queue gave out a token. A token of a deleted queue with the same number may have the same
// epoch and sequence, but its submission is older than this queue.
func (o *Options) ours(t *queue.Token) bool { return o.Key.Valid(t) && t.Submission.Time() >= o.Born }

// check finds out which tokens are valid. It does not need the machine, so it runs without the mutex.
func (c *scratch) check(o *Options, items []queue.CompleteItem) {
	c.valid = c.valid[:0]
	for i := range items {
		c.valid = append(c.valid, o.ours(&items[i].Token))
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
			more = len(items[n].Output) + contents.ItemCost
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
	var bring inserts.Completing
	var err error
	for rest := items; len(rest) > 0 && err == nil; {
		n, bytes := nextSlice(rest)
		if n == 0 {
			var result queue.Result
			result, err = bring.Complete(ctx, &s.inserts, &rest[0], &waits)
			dst, rest = append(dst, result), rest[1:]
			continue
		}
		if err = s.contents.Room(bytes); err == nil {
			dst, err = s.completeSlice(rest[:n], dst, scratch, &waits)
		}
		rest = rest[n:]
	}
	s.pools.scratch.Put(scratch)
	err = s.writer.outcome(waits, err)
	if bring.Over(ctx, err); err != nil {
		return dst, err
	}
	return dst, s.askHistory(ctx, dst[from:], func(i int) *queue.Token { return &items[i].Token })
}

// completeSlice decides and encodes completions, with the outputs that they bring.
func (s *Shard) completeSlice(items []queue.CompleteItem, dst []queue.Result, scratch *scratch,
	waits *commit.Set) ([]queue.Result, error) {
	scratch.check(&s.options, items)
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
