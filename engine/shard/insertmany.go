package shard

import (
	"context"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/store"
)

// insertCall is a call that inserts submissions: all that it inserts goes into one commit.
type insertCall struct {
	s        *Shard
	m        *machine.Machine // that decided
	list     []queue.Insertion
	asked    []asked // by index of the list
	atomic   bool
	admitted int // to the limit of live submissions
	inserts  int
	before   queue.SubmissionID // the last id that was drawn before
	last     queue.SubmissionID // the last one that was drawn for it
}

// asked is what was decided about one submission of the call.
type asked struct {
	op      *journal.Insert   // nil: it makes none
	entry   *machine.Keyed    // its idempotency key, if it has one: its own, or, without an op, that of the first insert
	carried *journal.Contents // the bytes that go into the commit; nil: there are none
	beside  bool              // there are, and they are too many: the store has to have them before
}

// InsertMany makes submissions exist, in one commit, and sets in the list what became of each, as Insert says it. Those that are decided
// already stay as they are. An atomic call inserts all or none. With an error of the call nothing is known of any, as after a commit that
// failed: with idempotency keys it can be repeated.
func (s *Shard) InsertMany(ctx context.Context, list []queue.Insertion, atomic bool) error {
	if s.full.Load() {
		return commitError(journal.ErrFull)
	}
	c := insertCall{s: s, list: list, asked: make([]asked, len(list)), atomic: atomic}
	defer func() { s.options.Live.release(c.admitted) }()
	for i := range list {
		if in := &list[i]; !in.Decided() {
			c.asked[i].carried, c.asked[i].beside = s.contents.packFor(in.New, len(list))
		}
	}
	now, seed := s.now(), s.options.Seed()
	s.mu.Lock()
	if err := s.takesIn(); err != nil {
		s.mu.Unlock()
		return err
	}
	c.decide(now, seed)
	if err := c.prepare(ctx, &now); err != nil { // unlocks when it has to wait
		c.giveUp()
		return err
	}
	batch := c.publish(now) // unlocks
	if batch != nil {
		if err := s.writer.wait(commit.Set{First: batch}); err != nil {
			return err
		}
	}
	c.answer(ctx)
	return nil
}

// decide looks at all of them. The mutex is held, so that of two calls with the same keys one has them all.
func (c *insertCall) decide(now queue.Time, seed uint64) {
	c.m = c.s.m
	c.m.Seed(seed)
	c.before = c.m.LastID
	for i := range c.list {
		if in := &c.list[i]; !in.Decided() {
			in.Err = c.decideOne(in.New, &c.asked[i], now)
		}
	}
	c.last = c.m.LastID
}

func (c *insertCall) decideOne(n *queue.NewSubmission, a *asked, now queue.Time) error {
	if n.IdempotencyKey != "" {
		if entry := c.m.Keys.Find(n.IdempotencyKey); entry != nil {
			a.entry = entry
			return entry.Repeatable(n)
		}
	}
	if err := c.s.parts.rules.Refusal(n.Meta); err != nil {
		return err
	}
	if c.m.Settings.Draining {
		return errDraining
	}
	if err := c.s.options.Live.admit(1); err != nil {
		c.s.crowded++
		return err
	}
	c.admitted++
	c.inserts++
	a.op = c.m.Draw(n, now)
	a.entry = c.s.claims.claim(n, a.op, now)
	return nil
}

// prepare does what has to be done before the inserts are published: it writes contents, and of an atomic call it awaits the inserts that
// it repeats, as any of them may fail. The mutex is held, and held again at the end; with an error it is given up.
func (c *insertCall) prepare(ctx context.Context, now *queue.Time) error {
	s := c.s
	if c.atomic && queue.RefuseAll(c.list) {
		c.withdraw()
		return nil
	}
	contents := c.contents()
	repeats := c.atomic && c.repeatsOthers()
	if len(contents) == 0 && !repeats {
		return nil
	}
	s.mu.Unlock()
	if repeats {
		c.repeat(ctx, func(a *asked) bool { return !c.owns(a.entry) })
	}
	var err error
	refused := repeats && queue.RefuseAll(c.list)
	if !refused {
		err = s.contents.writeAll(ctx, contents)
	}
	*now = s.now()
	s.mu.Lock()
	if refused {
		c.withdraw()
		return nil
	}
	if err == nil {
		err = s.usable()
	}
	if err == nil && s.m != c.m {
		err = commitError(journal.ErrUnknown) // reloaded meanwhile: the contents were no one's, and may be swept away
	}
	if err != nil {
		s.mu.Unlock()
	}
	return err
}

// publish encodes the inserts and says which batch they are in; nil: there are none. The mutex is held and given up.
func (c *insertCall) publish(now queue.Time) *commit.Commit {
	s, m := c.s, c.m
	if c.inserts == 0 {
		s.mu.Unlock()
		return nil
	}
	b := m.Batch.Commit
	for i := range c.asked {
		a := &c.asked[i]
		if a.op == nil {
			continue
		}
		m.Insert(a.op, a.carried, now)
		if a.entry != nil {
			a.entry.Commit = b
			m.Intend(a.entry)
		}
		m.ActLog.Tell(now, c.list[i].New.Acts, nil, map[string]string{"submission": a.op.ID.String()})
	}
	s.writer.sealFull()
	s.mu.Unlock()
	c.release()
	return b
}

// withdraw takes back what was decided: nothing is inserted. The mutex is held.
func (c *insertCall) withdraw() {
	for i := range c.asked {
		if a := &c.asked[i]; a.op != nil && a.entry != nil {
			c.m.Keys.Forget(a.entry)
		}
	}
	c.release()
	clear(c.asked)
	c.inserts = 0
}

// giveUp is withdraw without the mutex.
func (c *insertCall) giveUp() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.withdraw()
}

// release lets those go on who wait to hear what became of the inserts with the same keys.
func (c *insertCall) release() {
	for i := range c.asked {
		if a := &c.asked[i]; a.op != nil && a.entry != nil {
			close(a.entry.Published.Done)
		}
	}
}

// answer says what became of those that are not decided yet, after the commit.
func (c *insertCall) answer(ctx context.Context) {
	for i := range c.list {
		if in := &c.list[i]; c.asked[i].op != nil && !in.Decided() {
			in.Submission = inserted(c.asked[i].op, c.s.options.Queue)
		}
	}
	c.repeat(ctx, func(*asked) bool { return true })
}

// repeat answers those that came before.
func (c *insertCall) repeat(ctx context.Context, wanted func(a *asked) bool) {
	for i := range c.list {
		in, a := &c.list[i], &c.asked[i]
		if a.op != nil || a.entry == nil || in.Decided() || !wanted(a) {
			continue
		}
		in.Submission, in.Err = c.s.claims.repeat(ctx, a.entry)
		in.Replayed = in.Err == nil
	}
}

// repeatsOthers says whether some of them came before in another call.
func (c *insertCall) repeatsOthers() bool {
	for i := range c.asked {
		if a := &c.asked[i]; a.op == nil && a.entry != nil && !c.owns(a.entry) {
			return true
		}
	}
	return false
}

// owns says that the key came first in this very call, whose ids were drawn one after the other.
func (c *insertCall) owns(entry *machine.Keyed) bool {
	return entry.ID > c.before && entry.ID <= c.last
}

// contents are what the store has to have before the inserts are published.
func (c *insertCall) contents() (list []store.Content) {
	for i := range c.asked {
		if op := c.asked[i].op; op != nil && c.asked[i].beside {
			n := c.list[i].New
			list = append(list, store.Content{Seq: op.Seq, Chunks: n.Chunks.Inline, Attachment: n.Attachment})
		}
	}
	return list
}
