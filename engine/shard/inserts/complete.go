package inserts

// Complete with inserts: a chunk that is done brings submissions, which are inserted in the commit of its completion.
// It is an atomic insert call that finishes a chunk, too:
//
//	can the token complete its chunk? ─ no ─► its answer; nothing is inserted
//	decide the inserts ─ one is refused ─► refused: nothing is inserted, and the chunk is held as before
//	large contents become blobs, without the mutex
//	can the token still complete it? ─ no ─► its answer; the decisions are withdrawn
//	inserts, output, completion ─► one hold of the mutex, so one batch
//
// The inserts stand before the completion: a caller that sees the end of the submission finds its successors.

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// completion is the chunk that an insert call completes in its commit.
type completion struct {
	item    *queue.CompleteItem
	pending func() *commit.Commit
	ours    bool // the shard gave out the token
	list    []journal.Completed
	waits   commit.Set
	decided bool // result is that of the chunk; else its inserts were refused
	result  queue.Result
}

// Completing are the inserts of the completions of one call, in their order.
type Completing []*call

// Complete decides and encodes a completion with the inserts that it brings.
func (l *Completing) Complete(ctx context.Context, x *Inserts, item *queue.CompleteItem, waits *commit.Set) (
	queue.Result, error) {
	f := &completion{item: item, pending: x.Pending, ours: x.Ours(&item.Token)}
	defer func() { waits.Join(&f.waits) }() // f is on the heap, and the set of a call without inserts need not be
	if x.Full.Load() {                      // completions go on, but inserts do not
		worth := false
		if x.Look(func(m *machine.Machine) { worth = f.worth(m) }); !worth {
			return f.result, nil
		}
		return refusedWith(commit.Failed(journal.ErrFull), 0), nil
	}
	c := &call{Inserts: x, list: item.Insert, atomic: true, finishes: f}
	*l = append(*l, c)
	err := c.begin(ctx)
	switch {
	case errors.Is(err, ErrDegraded):
		return refusedWith(err, 0), nil
	case err != nil:
		return queue.Result{}, err
	case f.decided:
		waits.Add(c.batch)
		return f.result, nil
	}
	return f.refused(), nil
}

// Over gives the inserts the result of the commits that the call has waited for.
func (l Completing) Over(ctx context.Context, err error) {
	for _, c := range l {
		if c.discardUnnamed(err); err == nil {
			c.answer(ctx)
		}
		c.end()
	}
}

// worth says whether the token can complete its chunk; else the result is the answer. The mutex is held.
func (f *completion) worth(m *machine.Machine) bool {
	answer, worth := m.Tokens.Completes(&f.item.Token)
	if !worth {
		f.answered(answer)
	}
	return worth
}

// answered takes the result of a token that completes nothing. The result may depend on ops on their way to the disk.
func (f *completion) answered(result queue.Result) {
	f.decided, f.result = true, result
	f.waits.Add(f.pending())
}

// frees says that the completion ends the submission that holds a unique key: then an insert that it brings may have
// the key. Otherwise a chain of submissions, each with the key of the one before, would end.
func (f *completion) frees(m *machine.Machine, held *machine.Unique) bool {
	return f != nil && held.ID == f.item.Token.Submission && held.Ends(m)
}

// leaving is the submission that the completion ends; nil: it goes on.
func (f *completion) leaving(m *machine.Machine) *machine.Record {
	r := m.Live(f.item.Token.Submission)
	if r == nil || r.Ending || r.Done+r.Dead+r.Skips+1 != r.Chunks {
		return nil
	}
	return r
}

// take completes the chunk, if the token is still worth it. The mutex is held.
func (f *completion) take(m *machine.Machine, now queue.Time) bool {
	var results [1]queue.Result
	dst, list := m.Completes([]queue.CompleteItem{*f.item}, []bool{f.ours}, now, results[:0], nil)
	if len(list) == 0 {
		f.answered(dst[0])
		return false
	}
	f.decided, f.result, f.list = true, dst[0], list
	return true
}

// encode encodes the completion, behind the inserts.
func (f *completion) encode(m *machine.Machine, now queue.Time) {
	enc := m.Encode(now)
	if done := &f.list[0]; done.Output {
		enc.Output(&journal.Output{Seq: done.Seq, Index: done.Index, Bytes: f.item.Output})
	}
	enc.Complete(f.list)
}

// refused says which of the submissions cannot be inserted, and why.
func (f *completion) refused() queue.Result {
	for i := range f.item.Insert {
		if err := f.item.Insert[i].Err; err != nil && queue.CodeOf(err) != queue.CodeBatchRefused {
			return refusedWith(err, i)
		}
	}
	return refusedWith(errors.New("the inserts were refused"), 0) // one of them says why
}

// refusedWith is the result of a completion whose submission i cannot be inserted.
func refusedWith(err error, i int) queue.Result {
	why := strings.TrimSuffix(err.Error(), ".")
	return queue.Result{Outcome: queue.OutcomeRefused, Code: string(queue.CodeOf(err)), Detail: fmt.Sprintf(
		"submission %d of insert cannot be inserted: %s. Nothing was done: the chunk is held as before", i, why)}
}
