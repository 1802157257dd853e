package shard

import (
	"cmp"
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
	repeats  bool            // it repeats inserts of others, and is atomic: what becomes of them decides
	beside   []store.Content // contents that the store has to have before
	admitted int             // to the limit of live submissions
	inserts  int
	before   queue.SubmissionID // the last id that was drawn before
	last     queue.SubmissionID // the last one that was drawn for it
}

// asked is what was decided about one submission of the call.
type asked struct {
	key     *askedKey         // its idempotency key; nil: it has none
	op      *journal.Insert   // nil: it makes none
	entry   *machine.Keyed    // the use of the key: its own, or, without an op, that of the first insert
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
			c.asked[i].key = keyOf(in.New)
			c.asked[i].carried, c.asked[i].beside = s.contents.pack(in.New, len(list))
		}
	}
	batch, err := c.decideAll(ctx)
	if err == nil && c.prepares() {
		batch, err = c.publishPrepared(ctx)
	}
	if err == nil && batch != nil {
		err = s.writer.wait(commit.Set{First: batch})
	}
	if err != nil {
		return err
	}
	c.answer(ctx)
	return nil
}

// decideAll looks at all of them in one hold of the mutex, so that of two calls with the same keys one has them all; and publishes them,
// unless something has to be prepared first.
func (c *insertCall) decideAll(ctx context.Context) (batch *commit.Commit, err error) {
	seed := c.s.options.Seed()
	var refused error
	err = c.s.claims.decide(ctx, c.asked, func(since queue.Time) { batch, refused = c.decide(seed, since) })
	return batch, cmp.Or(err, refused)
}

// decide is decideAll with the mutex held.
func (c *insertCall) decide(seed uint64, since queue.Time) (*commit.Commit, error) {
	s := c.s
	if err := s.takesIn(); err != nil {
		return nil, err
	}
	c.m = s.m
	c.m.Seed(seed)
	c.before = c.m.LastID
	for i := range c.list {
		if in := &c.list[i]; !in.Decided() {
			in.Err = c.decideOne(in.New, &c.asked[i], since)
		}
	}
	c.last = c.m.LastID
	if c.atomic && queue.RefuseAll(c.list) {
		c.withdraw()
		return nil, nil
	}
	if c.beside, c.repeats = c.contents(), c.atomic && c.repeatsOthers(); c.prepares() {
		return nil, nil
	}
	return c.publish(since.Add(queue.IdempotencyWindow)), nil
}

func (c *insertCall) decideOne(n *queue.NewSubmission, a *asked, since queue.Time) error {
	if entry := c.s.claims.find(a.key, since); entry != nil {
		a.entry = entry
		return entry.Repeatable(n)
	}
	if err := c.s.parts.rules.Refusal(n.Meta); err != nil {
		return err
	}
	if c.m.Settings.Draining {
		return errDraining
	}
	if a.key != nil {
		if err := c.s.claims.room(); err != nil {
			return err
		}
	}
	if err := c.s.options.Live.admit(1); err != nil {
		c.s.crowded++
		return err
	}
	c.admitted++
	c.inserts++
	now := since.Add(queue.IdempotencyWindow)
	a.op = c.m.Draw(n, now)
	a.entry = c.s.claims.claim(a.key, n, a.op, now)
	return nil
}

// prepares says that something has to be done before the inserts are published: contents are written, or, of an atomic call, the inserts
// that it repeats are awaited, as any of them may fail.
func (c *insertCall) prepares() bool { return len(c.beside) > 0 || c.repeats }

// publishPrepared does it, and publishes the inserts if all went well.
func (c *insertCall) publishPrepared(ctx context.Context) (*commit.Commit, error) {
	s := c.s
	var err error
	if c.repeats {
		c.repeat(ctx, func(a *asked) bool { return !c.owns(a.entry) })
	}
	refused := c.repeats && queue.RefuseAll(c.list)
	if !refused {
		err = s.contents.writeAll(ctx, c.beside)
	}
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && !refused {
		err = s.usable()
	}
	if err == nil && !refused && s.m != c.m {
		err = commitError(journal.ErrUnknown) // reloaded meanwhile: the contents were no one's, and may be swept away
	}
	if err != nil || refused {
		c.withdraw()
		return nil, err
	}
	return c.publish(now), nil
}

// publish encodes the inserts and says which batch they are in; nil: there are none. The mutex is held.
func (c *insertCall) publish(now queue.Time) *commit.Commit {
	s, m := c.s, c.m
	if c.inserts == 0 {
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
			m.Batch.Intend(a.entry)
		}
		if acts := c.list[i].New.Acts; len(acts) > 0 {
			m.ActLog.Tell(now, acts, nil, map[string]string{"submission": a.op.ID.String()})
		}
	}
	s.writer.sealFull()
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
