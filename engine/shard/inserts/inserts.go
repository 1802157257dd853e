// Package inserts makes submissions exist, one or many: one code path, so that all follow the same rules.
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
package inserts

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/contents"
	"github.com/quern-queue/quern/engine/shard/keys"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// Inserts makes submissions exist in a shard.
type Inserts struct {
	shell.Shell
	Means
	Crowded uint64 // inserts that the LiveLimit refused. The mutex guards it
}

// Means are the dependencies of inserts beside their shard.
type Means struct {
	ID    queue.ShardID
	Queue string
	Seed  func() uint64
	Ours  func(t *queue.Token) bool // says that the shard gave out a token
	Live  *LiveLimit
	Full  *atomic.Bool // the disk is

	Keys     *keys.Keys
	Contents *contents.Contents

	// With the mutex held:
	TakesIn  func() error                // why inserts cannot be served; nil: they can
	Refusal  func(meta queue.Meta) error // of an operator's rules
	SealFull func()                      // ends the open batch when it is full
	Pending  func() *commit.Commit       // the youngest commit that is not on the disk; nil: there is none
}

// call is a call that inserts submissions: all that it inserts goes into one commit.
type call struct {
	*Inserts
	m        *machine.Machine // that decided
	list     []queue.Insertion
	asked    []asked // by index of the list
	keys     []*keys.Key
	batch    *commit.Commit // that has its inserts; nil: nothing is published
	one      [1]asked       // room for the usual call, which inserts one submission
	seed     uint64         // for the draws
	atomic   bool
	repeats  bool               // it is atomic and repeats inserts of others: their outcome decides
	ousting  []contents.Named   // those whose bytes were put, and that found no one to oust then
	awaited  *machine.Unique    // an insert of another call that has to be applied before this one is decided
	finishes *completion        // the chunk that it completes in its commit; nil: none
	known    machine.Ends       // ended submissions that it is to wait for
	large    []contents.Named   // those whose bytes are put before
	named    func()             // ends the time in which blobs are put; nil: it puts none
	admitted int                // to the limit of live submissions
	before   queue.SubmissionID // the last id that was drawn before
	last     queue.SubmissionID // the last one that was drawn for it
}

// asked is the decision about one submission of the call.
type asked struct {
	key     *keys.Key         // its idempotency key; nil: it has none
	op      *journal.Insert   // nil: it makes none
	entry   *machine.Keyed    // the use of the key: its own, or, without an op, that of the first insert
	unique  *machine.Unique   // the holder of its unique key: itself, or, without an op, the earlier submission
	ousted  *machine.Unique   // whose place it takes; nil: no one's
	waits   *machine.Waits    // for other submissions; nil: it waits for none
	unknown error             // it is to wait for a submission that this shard does not have
	coming  *machine.OnItsWay // the work that it adds to the scopes of quotas; nil: to none
	carried *journal.Contents // the bytes that go into the commit; nil: there are none
	large   bool              // there are, and they are too many: they have to be blobs before
}

// Many makes submissions exist, in one commit, and sets the outcome of each in the list. Those that are decided already
// stay as they are. An atomic call inserts all or none. After an error of the call nothing is known about any, as after
// a failed commit: with idempotency keys the call can be repeated.
//
// It reads the Full flag before it packs anything: a full disk refuses at once, and costs no processor time.
func (x *Inserts) Many(ctx context.Context, list []queue.Insertion, atomic bool) error {
	if x.Full.Load() {
		return commit.Failed(journal.ErrFull)
	}
	c := &call{Inserts: x, list: list, atomic: atomic}
	defer c.end()
	err := c.begin(ctx)
	if err == nil && c.batch != nil {
		err = x.Wait(commit.Set{First: c.batch})
	}
	if c.discardUnnamed(err); err == nil {
		c.answer(ctx)
	}
	return err
}

// begin decides on all inserts, and publishes those that are to be made. The caller waits for the batch, and in any
// case calls discardUnnamed with the result, and, at last, end.
func (c *call) begin(ctx context.Context) error {
	x := c.Inserts
	if c.asked = c.one[:]; len(c.list) != 1 {
		c.asked = make([]asked, len(c.list))
	}
	bytes, large := 0, false
	if c.finishes != nil {
		bytes = len(c.finishes.item.Output)
	}
	for i := range c.list {
		if in, a := &c.list[i], &c.asked[i]; !in.Decided() {
			bytes += contents.Size(in.New)
			if a.key = keys.Of(in.New); a.key != nil {
				c.keys = append(c.keys, a.key)
			}
			a.carried, a.large = x.Contents.Pack(in.New, len(c.list))
			large = large || a.large
		}
	}
	// While too many bytes wait for a checkpoint, the caller that brings more does one: else inserts that are faster
	// than the disk would fill the memory.
	if err := x.Contents.Room(bytes); err != nil {
		return err
	}
	if large {
		c.named = x.Contents.Naming()
	}
	// Drawn outside the machine, which has no chance of its own.
	c.seed = x.Seed()
	err := c.lookUp(ctx)
	if err == nil {
		err = c.decided(ctx)
	}
	if err == nil && c.prepares() {
		err = c.publishPrepared(ctx)
	}
	x.Contents.Discard(c.ousting)
	return err
}

// discardUnnamed deletes the blobs that no insert names, after the call succeeded or failed.
func (c *call) discardUnnamed(err error) {
	if c.batch == nil || errors.Is(err, journal.ErrFull) { // nothing was written that names them
		c.Contents.Discard(c.large)
	}
}

// end releases everything that the call took.
func (c *call) end() {
	if c.named != nil {
		c.named()
	}
	c.Live.Release(c.admitted)
}

// Repeated answers an insert whose idempotency key came before, or whose unique key another submission
// keeps, as Many does, and makes none. It decides nothing about others.
func (x *Inserts) Repeated(ctx context.Context, in *queue.Insertion) {
	in.Submission, in.Replayed, in.Err = x.Keys.Repeated(ctx, in.New)
	if in.Decided() || in.New.Unique == nil || in.New.Unique.Replace {
		return
	}
	var held *machine.Unique
	if in.Err = x.Locked(func(m *machine.Machine, now queue.Time) error {
		held = m.Uniques.Find(in.New, now)
		return nil
	}); held != nil {
		in.Submission, in.Err = x.Keys.Repeat(ctx, held.ID, &held.Fate)
		in.Existing = in.Err == nil
	}
}
