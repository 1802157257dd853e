package inserts

import (
	"context"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/contents"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// prepares says that work has to be done before the inserts are published: contents are written, or an atomic call
// waits for the inserts that it repeats, as any of them may fail.
func (c *call) prepares() bool { return len(c.large) > 0 || c.repeats }

// publishPrepared does this work, and publishes the inserts if it succeeded.
func (c *call) publishPrepared(ctx context.Context) (err error) {
	if c.repeats {
		c.repeat(ctx, func(a *asked) bool { id, _ := a.first(); return !c.owns(id) })
	}
	refused := c.repeats && queue.RefuseAll(c.list)
	if !refused {
		err = c.Contents.Put(ctx, c.large)
	}
	if err == nil && !refused {
		err = c.publishNow()
	}
	if err != nil || refused {
		c.Look(func(*machine.Machine) { c.withdraw() })
	}
	return err
}

// publishNow is publish for a call that has let go of the mutex.
func (c *call) publishNow() error {
	return c.Locked(func(m *machine.Machine, now queue.Time) error {
		if err := c.TakesIn(); err != nil {
			return err
		}
		if m != c.m {
			// the shard reloaded meanwhile: it does not know the numbers, and may draw them again
			return commit.Failed(journal.ErrUnknown)
		}
		c.publish(now)
		return nil
	})
}

// publish encodes the inserts into the open batch, if there are any. The mutex is held. The waiters are released
// last, when each of their entries has the commit to wait for.
func (c *call) publish(now queue.Time) {
	m := c.m
	if c.finishes != nil && !c.finishes.take(m, now) {
		c.withdraw()
		return
	}
	for i := range c.asked {
		a := &c.asked[i]
		if a.op == nil || a.ousted != nil && !c.oust(a, now) {
			continue
		}
		c.batch = m.Batch.Commit
		m.Insert(a.op, a.carried, now)
		if a.entry != nil {
			a.entry.Commit = c.batch
			m.Batch.Intend(a.entry)
		}
		if a.unique != nil {
			a.unique.Publish(m)
		}
		if a.waits != nil {
			m.Batch.Intend(a.waits)
		}
		if a.coming != nil {
			m.Batch.Intend(a.coming)
		}
		if acts := c.list[i].New.Acts; len(acts) > 0 {
			m.ActLog.Tell(now, acts, nil, map[string]string{"submission": a.op.ID.String()})
		}
	}
	if c.finishes != nil {
		c.batch = m.Batch.Commit
		c.finishes.encode(m, now)
	}
	c.SealFull()
	for i := range c.asked {
		if a := &c.asked[i]; a.op != nil {
			a.release()
		}
	}
}

// oust ends the submission whose place an insert takes. If that submission has begun since the decision, it stays, and
// answers this insert.
func (c *call) oust(a *asked, now queue.Time) bool {
	if r := a.ousted.Replaceable(c.m); r != nil {
		machine.Replace(c.m, r, a.op.ID, now)
		return true
	}
	c.withdrawOne(a)
	if a.op.Blobs != nil {
		c.ousting = append(c.ousting, contents.Named{Op: a.op})
	}
	a.op, a.entry, a.unique, a.coming = nil, nil, a.ousted, nil
	c.m.Uniques.Kept++
	return false
}

// withdraw undoes the decisions of a call that inserts nothing. The mutex is held.
func (c *call) withdraw() {
	for i := range c.asked {
		if a := &c.asked[i]; a.op != nil {
			c.withdrawOne(a)
		}
	}
	clear(c.asked)
}

// withdrawOne frees the keys of an insert that is not made.
func (c *call) withdrawOne(a *asked) {
	if a.entry != nil {
		c.m.Keys.Forget(a.entry)
	}
	if a.unique != nil {
		c.m.Uniques.Forget(a.unique)
	}
	if a.waits != nil {
		c.m.Afters.Forget(a.waits)
	}
	if a.coming != nil {
		c.m.Quotas.Forget(a.coming)
	}
	a.release()
}

// release wakes the callers that wait for the result of inserts with the same keys.
func (a *asked) release() {
	if a.entry != nil {
		close(a.entry.Published.Done)
	}
	if a.unique != nil {
		close(a.unique.Published.Done)
	}
}
