package inserts

import (
	"context"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/contents"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// ErrDegraded refuses inserts, and reserves whose reservations would not come back in time.
var ErrDegraded = &queue.Error{Code: queue.CodeUnavailable, Message: "The queue's life-cycle worker cannot write to " +
	"the disk: nothing new is taken in until it can. Complete, fail, extend and release go on. Ask again in a " +
	"moment; the server's log says what is wrong."}

// errDraining refuses inserts; a repeated one is answered all the same.
var errDraining = &queue.Error{Code: queue.CodeDraining,
	Message: "The queue is draining: it takes no submissions any more, until an operator changes its setting " +
		"\"draining\"."}

// decided decides. If this call may have to replace an insert of another call that is under way, it first waits for the
// outcome of that one.
func (c *call) decided(ctx context.Context) error {
	for {
		err := c.Keys.Decide(ctx, c.keys, c.decide)
		first := c.awaited
		if first == nil {
			return err
		}
		c.awaited = nil
		_, _ = c.Keys.Repeat(ctx, first.ID, &first.Fate) // if it failed, its key is free
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// decide decides about all inserts in one hold of the mutex, so that of two calls with the same keys one gets all keys.
// It publishes them, unless something has to be prepared first.
func (c *call) decide(m *machine.Machine, since queue.Time) error {
	if err := c.TakesIn(); err != nil {
		return err
	}
	c.m = m
	if c.finishes != nil && !c.finishes.worth(m) {
		return nil
	}
	if c.awaited = c.underWay(since.Add(queue.IdempotencyWindow)); c.awaited != nil {
		return nil
	}
	c.m.Seed(c.seed)
	c.before = c.m.LastID
	for i := range c.list {
		if in := &c.list[i]; !in.Decided() {
			in.Err = c.decideOne(in.New, &c.asked[i], since)
		}
	}
	c.last = c.m.LastID
	if c.atomic && queue.RefuseAll(c.list) {
		c.withdraw()
		return nil
	}
	if c.large, c.repeats = c.blobs(), c.atomic && c.repeatsOthers(); !c.prepares() {
		c.publish(since.Add(queue.IdempotencyWindow))
	}
	return nil
}

// The order of the checks is the order of the answers: a repeated key is answered even while the queue is draining or a
// rule refuses inserts, then comes the unique key, and only a new submission has to pass rules, draining and limits.
func (c *call) decideOne(n *queue.NewSubmission, a *asked, since queue.Time) error {
	if entry := c.Keys.Find(c.m, a.key, since); entry != nil {
		a.entry = entry
		return entry.Repeatable(n)
	}
	now := since.Add(queue.IdempotencyWindow)
	if held := c.m.Uniques.Find(n, now); held != nil && !c.finishes.frees(c.m, held) {
		if !n.Unique.Replace || held.ID > c.before || held.Replaceable(c.m) == nil {
			a.unique = held
			c.m.Uniques.Kept++
			return nil
		}
		a.ousted = held
	}
	if err := c.m.Quotas.Elsewhere(n.Meta.GroupOf()); err != nil {
		return err
	}
	if err := c.Refusal(n.Meta); err != nil {
		return err
	}
	if c.m.Settings.Draining {
		return errDraining
	}
	if a.unknown != nil {
		return a.unknown
	}
	if a.key != nil {
		if err := c.Keys.Room(c.m); err != nil {
			return err
		}
	}
	if err := c.m.Uniques.Room(n, now); err != nil {
		return err
	}
	leaving := c.leaving(a)
	if err := c.m.Quotas.Room(n, leaving); err != nil {
		return err
	}
	if leaving != nil && c.admitted == 0 {
		c.Live.Replace()
	} else if err := c.Live.Admit(1); err != nil {
		c.Crowded++
		return err
	}
	c.admitted++
	op := c.m.Draw(n, now)
	var err error
	if a.waits, err = c.m.Afters.Claim(op, c.known); err != nil {
		return err
	}
	a.op = op
	if a.large {
		a.op.Blobs = &journal.Blobs{Epoch: c.m.Epoch}
	}
	a.entry = c.Keys.Claim(c.m, a.key, n, a.op, now)
	a.unique = c.m.Uniques.Claim(a.op)
	a.coming = c.m.Quotas.Claim(a.op)
	return nil
}

// leaving is a submission that ends in the commit of the call, in favour of this one or with the chunk that the call
// completes; nil: none does.
func (c *call) leaving(a *asked) *machine.Record {
	switch {
	case a.ousted != nil:
		return a.ousted.Replaceable(c.m)
	case c.finishes != nil:
		return c.finishes.leaving(c.m)
	}
	return nil
}

// underWay is the insert of another call, not applied yet, whose place one of this call would take;
// nil: there is none.
func (c *call) underWay(now queue.Time) *machine.Unique {
	for i := range c.list {
		if in := &c.list[i]; in.New != nil && in.New.Unique != nil && in.New.Unique.Replace && !in.Decided() {
			if held := c.m.Uniques.Find(in.New, now); held != nil && held.UnderWay() {
				return held
			}
		}
	}
	return nil
}

// blobs are the inserts whose bytes must be stored before they are published.
func (c *call) blobs() (list []contents.Named) {
	for i := range c.asked {
		if op := c.asked[i].op; op != nil && op.Blobs != nil {
			list = append(list, contents.Named{Op: op, Of: c.list[i].New})
		}
	}
	return list
}
