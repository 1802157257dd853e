package shard

// Insert, of one submission or of many: one code path, so that both follow the same rules.
//
//	pack      contents, without the mutex
//	decide    under the mutex, all of them in one hold: key known? rule? draining? room for one more? ─► id drawn
//	          ├─ nothing to prepare ─► publish: ops into the open batch
//	          └─ else publishPrepared: large contents become blobs, repeated inserts are awaited; then publish
//	wait      for the commit
//	answer
//
// A key is claimed when it is decided on, before anything is durable. A second call with the key
// finds the claim and waits for its outcome (Published.Done). So of two calls with one key exactly
// one inserts, and the other gets the same submission, or, if the first fails, an error, and may
// try again. Every path that draws an op must end in publish or withdraw: a claim that is never
// released would let its repetitions wait for ever.

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/keys"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// inserter makes submissions exist.
type inserter struct {
	shell.Shell
	options  *Options
	keys     *keys.Keys
	contents *contents
	full     *atomic.Bool

	// With the mutex held:
	takesIn  func() error                // why inserts cannot be served; nil: they can
	refusal  func(meta queue.Meta) error // of an operator's rules
	sealFull func()                      // ends the open batch when it is full
	crowded  uint64                      // inserts that LiveLimit refused
}

// insertCall is a call that inserts submissions: all that it inserts goes into one commit.
type insertCall struct {
	*inserter
	m        *machine.Machine // that decided
	list     []queue.Insertion
	asked    []asked // by index of the list
	keys     []*keys.Key
	batch    *commit.Commit // that has what it inserts; nil: nothing is published
	one      [1]asked       // room for the usual call, which inserts one submission
	seed     uint64         // for what is drawn
	atomic   bool
	repeats  bool            // it repeats inserts of others, and is atomic: what happens to them decides
	ousting  []named         // those whose bytes were put, and that found no one to oust then
	awaited  *machine.Unique // an insert of another call that has to be applied before this one is decided
	finishes *completion     // the chunk that it completes in its commit; nil: none
	known    machine.Ends    // ended submissions that it is to wait for
	large    []named         // those whose bytes are put before
	named    func()          // ends the time in which blobs are put; nil: it puts none
	admitted int             // to the limit of live submissions
	inserts  int
	before   queue.SubmissionID // the last id that was drawn before
	last     queue.SubmissionID // the last one that was drawn for it
}

// asked is the decision about one submission of the call.
type asked struct {
	key     *keys.Key         // its idempotency key; nil: it has none
	op      *journal.Insert   // nil: it makes none
	entry   *machine.Keyed    // the use of the key: its own, or, without an op, that of the first insert
	unique  *machine.Unique   // who holds its unique key: itself, or, without an op, the submission that did before
	ousted  *machine.Unique   // whose place it takes; nil: no one's
	waits   *machine.Waits    // for other submissions; nil: it waits for none
	unknown error             // it is to wait for a submission that this shard does not have
	coming  *machine.OnItsWay // what it brings to the scopes of quotas; nil: to none
	carried *journal.Contents // the bytes that go into the commit; nil: there are none
	large   bool              // there are, and they are too many: they have to be blobs before
}

// InsertMany makes submissions exist, in one commit, and sets in the list what became of
// each, as Insert says it. Those that are decided already stay as they are. An atomic call
// inserts all or none. With an error of the call nothing is known of any, as after a
// commit that failed: with idempotency keys it can be repeated.
func (s *Shard) InsertMany(ctx context.Context, list []queue.Insertion, atomic bool) error {
	return s.inserts.many(ctx, list, atomic)
}

// many is InsertMany. The full flag is read before anything is packed: a full disk refuses at once, and costs no
// processor.
func (x *inserter) many(ctx context.Context, list []queue.Insertion, atomic bool) error {
	if x.full.Load() {
		return commitError(journal.ErrFull)
	}
	c := &insertCall{inserter: x, list: list, atomic: atomic}
	defer c.end()
	err := c.begin(ctx)
	if err == nil && c.batch != nil {
		err = x.Wait(commit.Set{First: c.batch})
	}
	if c.settled(err); err == nil {
		c.answer(ctx)
	}
	return err
}

// begin decides on all, and publishes what is to be inserted. The caller waits for the batch, and says in any case
// how that went (settled), and, at last, that the call is over (end).
func (c *insertCall) begin(ctx context.Context) error {
	x := c.inserter
	if c.asked = c.one[:]; len(c.list) != 1 {
		c.asked = make([]asked, len(c.list))
	}
	bytes, large := 0, false
	if c.finishes != nil {
		bytes = len(c.finishes.item.Output)
	}
	for i := range c.list {
		if in, a := &c.list[i], &c.asked[i]; !in.Decided() {
			bytes += bytesOf(in.New)
			if a.key = keys.Of(in.New); a.key != nil {
				c.keys = append(c.keys, a.key)
			}
			a.carried, a.large = x.contents.pack(in.New, len(c.list))
			large = large || a.large
		}
	}
	// While too many bytes wait for a checkpoint, the caller that brings more does one: else inserts that are faster
	// than the disk would fill the memory.
	if err := x.contents.room(bytes); err != nil {
		return err
	}
	if large {
		c.named = x.contents.naming.begin(x.options)
	}
	// Drawn outside the machine, which has no chance of its own.
	c.seed = x.options.Seed()
	err := c.lookUp(ctx)
	if err == nil {
		err = c.decided(ctx)
	}
	if err == nil && c.prepares() {
		err = c.publishPrepared(ctx)
	}
	x.contents.discard(c.ousting)
	return err
}

// settled deletes the blobs that nothing names, after the call went well or failed.
func (c *insertCall) settled(err error) {
	if c.batch == nil || errors.Is(err, journal.ErrFull) { // nothing was written that names them
		c.contents.discard(c.large)
	}
}

// end lets go of what the call had taken.
func (c *insertCall) end() {
	if c.named != nil {
		c.named()
	}
	c.options.Live.release(c.admitted)
}

// decided decides. It waits before for inserts of others under way that this call may have to
// replace: what happens to them has to be known.
func (c *insertCall) decided(ctx context.Context) error {
	for {
		err := c.inserter.keys.Decide(ctx, c.keys, c.decide)
		first := c.awaited
		if first == nil {
			return err
		}
		c.awaited = nil
		_, _ = c.inserter.keys.Repeat(ctx, first.ID, &first.Fate) // if it failed, its key is free
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// decide looks at all of them in one hold of the mutex, so that of two calls with the same
// keys one has them all; and publishes them, unless something has to be prepared first.
func (c *insertCall) decide(m *machine.Machine, since queue.Time) error {
	if err := c.takesIn(); err != nil {
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

// The order of the checks is the order of the answers: a repeated key is answered even while the queue is draining or
// a rule refuses inserts, then comes the unique key, and only what would insert something new has to pass rules,
// draining and limits.
func (c *insertCall) decideOne(n *queue.NewSubmission, a *asked, since queue.Time) error {
	if entry := c.inserter.keys.Find(c.m, a.key, since); entry != nil {
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
	if err := c.refusal(n.Meta); err != nil {
		return err
	}
	if c.m.Settings.Draining {
		return errDraining
	}
	if a.unknown != nil {
		return a.unknown
	}
	if a.key != nil {
		if err := c.inserter.keys.Room(c.m); err != nil {
			return err
		}
	}
	if err := c.m.Uniques.Room(n, now); err != nil {
		return err
	}
	if err := c.m.Quotas.Room(n, c.leaving(a)); err != nil {
		return err
	}
	if err := c.options.Live.admit(1); err != nil {
		c.crowded++
		return err
	}
	c.admitted++
	op := c.m.Draw(n, now)
	var err error
	if a.waits, err = c.m.Afters.Claim(op, c.known); err != nil {
		return err
	}
	a.op = op
	c.inserts++
	if a.large {
		a.op.Blobs = &journal.Blobs{Epoch: c.m.Epoch}
	}
	a.entry = c.inserter.keys.Claim(c.m, a.key, n, a.op, now)
	a.unique = c.m.Uniques.Claim(a.op)
	a.coming = c.m.Quotas.Claim(a.op)
	return nil
}

// leaving is a submission that ends in the commit of the call, in favour of this one or with the chunk that the call
// completes; nil: none does.
func (c *insertCall) leaving(a *asked) *machine.Record {
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
func (c *insertCall) underWay(now queue.Time) *machine.Unique {
	for i := range c.list {
		if in := &c.list[i]; in.New != nil && in.New.Unique != nil && in.New.Unique.Replace && !in.Decided() {
			if held := c.m.Uniques.Find(in.New, now); held != nil && held.UnderWay() {
				return held
			}
		}
	}
	return nil
}

// prepares says that something has to be done before the inserts are published: contents are
// written, or, of an atomic call, the inserts that it repeats are awaited, as any of them may fail.
func (c *insertCall) prepares() bool { return len(c.large) > 0 || c.repeats }

// publishPrepared does it, and publishes the inserts if all went well.
func (c *insertCall) publishPrepared(ctx context.Context) (err error) {
	if c.repeats {
		c.repeat(ctx, func(a *asked) bool { id, _ := a.first(); return !c.owns(id) })
	}
	refused := c.repeats && queue.RefuseAll(c.list)
	if !refused {
		err = c.contents.put(ctx, c.large)
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
func (c *insertCall) publishNow() error {
	return c.Locked(func(m *machine.Machine, now queue.Time) error {
		if err := c.takesIn(); err != nil {
			return err
		}
		if m != c.m {
			// reloaded meanwhile: the numbers were no one's, and may be drawn again
			return commitError(journal.ErrUnknown)
		}
		c.publish(now)
		return nil
	})
}

// publish encodes the inserts into the open batch, if there are any. The mutex is held. The waiters are released
// last, when each of their entries has the commit to wait for.
func (c *insertCall) publish(now queue.Time) {
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
	c.sealFull()
	for i := range c.asked {
		if a := &c.asked[i]; a.op != nil {
			a.release()
		}
	}
}

// oust ends the submission whose place an insert takes. If that one has begun since it was decided so, it stays, and
// answers this insert.
func (c *insertCall) oust(a *asked, now queue.Time) bool {
	if r := a.ousted.Replaceable(c.m); r != nil {
		machine.Replace(c.m, r, a.op.ID, now)
		return true
	}
	c.withdrawOne(a)
	if a.op.Blobs != nil {
		c.ousting = append(c.ousting, named{op: a.op})
	}
	a.op, a.entry, a.unique, a.coming = nil, nil, a.ousted, nil
	c.m.Uniques.Kept++
	return false
}

// withdraw undoes the decisions: it inserts nothing. The mutex is held.
func (c *insertCall) withdraw() {
	for i := range c.asked {
		if a := &c.asked[i]; a.op != nil {
			c.withdrawOne(a)
		}
	}
	clear(c.asked)
	c.inserts = 0
}

// withdrawOne frees the keys of an insert that is not made.
func (c *insertCall) withdrawOne(a *asked) {
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

// answer fills in the results of the undecided submissions after the commit.
func (c *insertCall) answer(ctx context.Context) {
	for i := range c.list {
		if in := &c.list[i]; c.asked[i].op != nil && !in.Decided() {
			in.Submission = inserted(c.asked[i].op, c.options.Queue)
		}
	}
	c.repeat(ctx, func(*asked) bool { return true })
}

// repeat answers those that came before.
func (c *insertCall) repeat(ctx context.Context, wanted func(a *asked) bool) {
	for i := range c.list {
		in, a := &c.list[i], &c.asked[i]
		switch id, first := a.first(); {
		case first == nil || in.Decided() || !wanted(a):
		case a.entry != nil:
			in.Submission, in.Err = c.inserter.keys.Repeat(ctx, id, first)
			in.Replayed = in.Err == nil
		default:
			in.Submission, in.Err = c.inserter.keys.Repeat(ctx, id, first)
			in.Existing = in.Err == nil
		}
	}
}

// repeatsOthers reports whether another call brought some of them before.
func (c *insertCall) repeatsOthers() bool {
	for i := range c.asked {
		if id, first := c.asked[i].first(); first != nil && !c.owns(id) {
			return true
		}
	}
	return false
}

// first is the insert that came before with the same key, and answers; nil: none did.
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
func (c *insertCall) owns(id queue.SubmissionID) bool { return id > c.before && id <= c.last }

// blobs are the inserts whose bytes must be stored before they are published.
func (c *insertCall) blobs() (list []named) {
	for i := range c.asked {
		if op := c.asked[i].op; op != nil && op.Blobs != nil {
			list = append(list, named{op, c.list[i].New})
		}
	}
	return list
}

// Insert makes a submission exist and returns it as it was at that moment. A repeated
// idempotency key returns the first one's submission as it is now and replayed = true: who
// repeats an insert wants to know what became of it. With another request under the same
// key it is refused. CodeUnknownSubmission: the first one's retention is over.
func (s *Shard) Insert(ctx context.Context, n *queue.NewSubmission) (sub queue.Submission, replayed bool, err error) {
	one := []queue.Insertion{{New: n}}
	if err := s.InsertMany(ctx, one, false); err != nil {
		return sub, false, err
	}
	return one[0].Submission, one[0].Replayed, one[0].Err
}

// Repeated answers an insert whose idempotency key came before, or whose unique key another submission
// keeps, as InsertMany does, and makes none. It decides nothing about others.
func (s *Shard) Repeated(ctx context.Context, in *queue.Insertion) {
	in.Submission, in.Replayed, in.Err = s.keys.Repeated(ctx, in.New)
	if in.Decided() || in.New.Unique == nil || in.New.Unique.Replace {
		return
	}
	var held *machine.Unique
	if in.Err = (*doors)(s).Locked(func(m *machine.Machine, now queue.Time) error {
		held = m.Uniques.Find(in.New, now)
		return nil
	}); held != nil {
		in.Submission, in.Err = s.keys.Repeat(ctx, held.ID, &held.Fate)
		in.Existing = in.Err == nil
	}
}

// inserted is the submission as it was at the moment of its insert: what the first answer says.
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
