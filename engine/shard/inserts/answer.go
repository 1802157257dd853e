package inserts

import (
	"context"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// answer fills in the results of the undecided submissions after the commit.
func (c *call) answer(ctx context.Context) {
	for i := range c.list {
		if in := &c.list[i]; c.asked[i].op != nil && !in.Decided() {
			in.Submission = inserted(c.asked[i].op, c.Queue)
		}
	}
	c.repeat(ctx, func(*asked) bool { return true })
}

// repeat answers those that came before.
func (c *call) repeat(ctx context.Context, wanted func(a *asked) bool) {
	for i := range c.list {
		in, a := &c.list[i], &c.asked[i]
		switch id, first := a.first(); {
		case first == nil || in.Decided() || !wanted(a):
		case a.entry != nil:
			in.Submission, in.Err = c.Keys.Repeat(ctx, id, first)
			in.Replayed = in.Err == nil
		default:
			in.Submission, in.Err = c.Keys.Repeat(ctx, id, first)
			in.Existing = in.Err == nil
		}
	}
}

// repeatsOthers reports whether another call has already inserted some of them.
func (c *call) repeatsOthers() bool {
	for i := range c.asked {
		if id, first := c.asked[i].first(); first != nil && !c.owns(id) {
			return true
		}
	}
	return false
}

// first is the earlier insert with the same key, whose answer is repeated; nil: there is none.
func (a *asked) first() (queue.SubmissionID, *machine.Fate) {
	switch {
	case a.op != nil:
	case a.entry != nil:
		return a.entry.ID, &a.entry.Fate
	case a.unique != nil:
		return a.unique.ID, &a.unique.Fate
	}
	return 0, nil
}

// owns reports whether this call inserts the submission. Its ids are consecutive.
func (c *call) owns(id queue.SubmissionID) bool { return id > c.before && id <= c.last }

// inserted is the submission as it was at the moment of its insert, as the first answer says it.
func inserted(op *journal.Insert, queueName string) queue.Submission {
	r := machine.RecordOf(op)
	sub := r.Info(queueName, op.Meta, op.Chunks)
	if op.After != nil {
		sub.WaitsFor = op.After.IDs
	}
	if op.RunAt != 0 || op.After != nil {
		sub.Waiting, sub.Ready = sub.Ready, 0
	}
	return sub
}
