package shard

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/locks"
	"github.com/quern-queue/quern/engine/measure"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/consumers"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/engine/strategy"
)

// Options is what a shard is made of. Every field but Full, Held, Set, Seconds, Scorers, Born,
// Posted, Live, ViewMemory, RecountEvery, Snapshots, SnapshotBytes, CheckpointBytes, CheckpointEnded and CheckpointItems is needed.
type Options struct {
	ID       queue.ShardID
	Queue    string
	Settings queue.Settings // until some are set
	Key      reserver.Key

	Journal   func(context.Context) (journal.Journal, error) // opens the journal, also again after a failed commit
	Store     *store.Store
	Now       func() time.Time
	Seed      func() uint64
	Logger    *slog.Logger
	Committed func(took time.Duration, ops, bytes int) // told of every commit
	Fatal     func(error)                              // ends the process: what memory says can no longer be trusted
	// the disk is full: inserts are refused; shared with other shards; nil: one of its own
	Full        *atomic.Bool
	FreeBallast func() bool              // makes room on a full disk; false when there is none left to free
	Held        func(took time.Duration) // told of every hold of the mutex, while it is held; nil: holds are not measured

	// Set is told what operators have set: at the start, and when the state is made again after a failed commit, all of it; then each
	// change. It must not call the shard. nil: no one is.
	Set func(list []journal.Set, all bool)

	Seconds Seconds

	Scorers strategy.Scorers // for Plugin and Score blocks; nil: no plan has any

	Born   queue.Time // when the shard was made: with ID it identifies its outbox for ever
	Posted func()     // told when dead letters left for another queue, see Outgoing; must not call the shard. nil: no one is

	Live       *LiveLimit  // how many submissions may be open, shared with other shards; nil: any number
	ViewMemory *ViewMemory // what its views may take, shared with other shards; nil: DefaultViewMemory of its own

	RecountEvery time.Duration // how long one recount of everything takes, and how often one is made; default an hour; below 0: none is

	Audit AuditLog // both nil: there is no log, and nothing is forgotten

	Emitting func(schedule string) Span // begins the span of an emission; nil: no one traces

	Snapshots Snapshots // keeps copies of the store; nil: none are kept, and the journal is trimmed at every checkpoint
	// journal bytes behind the newest snapshot that start the next one, or those of half the store if that is more; default 64 MiB;
	// below 0, every checkpoint does
	SnapshotBytes int64

	OpBytes         int   // contents and attachments of an insert up to so many go into its batch; default 64 KiB, below 0 none
	CheckpointBytes int64 // journal bytes that start a checkpoint; default 16 MiB
	CheckpointEnded int   // ended submissions that start one; default 20,000
	// tries, reservations and exceptions of submissions that one hold of the mutex encodes for a checkpoint; default
	// 2,000
	CheckpointItems int
}

// AuditLog is where the entries of the audit log end up.
type AuditLog struct {
	Last func() (uint64, error) // the largest number of an entry that the log has of the shard, also from a queue that had it before
	// Put puts entries into the log, durably, each number once
	Put func(ctx context.Context, list []journal.Act) error
}

// Seconds are what a shard measures of its chunks; nil: it does not.
type Seconds struct {
	Wait *measure.Histogram // from a chunk's insert, or its run_at, to its first reservation
	Run  *measure.Histogram // from a reservation to its completion or failure
}

// Span is a piece of work that someone traces. End says how much was done, and what went wrong.
type Span interface {
	Context() string // W3C traceparent, optionally followed by ";" and tracestate
	End(n int, err error)
}

// Shard is one journal, its state and its owner's goroutines. All methods are safe for concurrent use.
type Shard struct {
	resources
	inner

	options  Options
	own      *ownership // of the journal
	journal  journal.Journal
	store    *store.Store
	mu       holdLock // guards everything below, and the machine
	m        *machine.Machine
	parts    parts
	views    []*backlog.View         // of the plan being followed
	live     int64                   // submissions that LiveLimit was told to be open
	crowded  uint64                  // inserts that it refused
	ordering locks.Mutex[inOrdering] // held while a rule is set or lifted
	closed   bool
	// The state is being made again: until it is there, nothing is changed. The journal is closed, and being opened again.
	reloading bool
	broken    error // a reload failed: nothing works until Heal succeeds
	lost      error // its files are not where they were, or another writer has its journal: nothing is written any more, for good

	roster *consumers.Roster

	full    *atomic.Bool    // Options.Full
	ahead   atomic.Bool     // rows of the store may be younger than the position that a replay begins at
	special atomic.Bool     // a reserve has to look at orders for consumers, or at the restart grace
	alive   context.Context // until Close
	leave   context.CancelFunc
	// held for writing while the history loses or changes rows, for reading while a submission of it is opened again
	aging    locks.RWMutex[inHistory]
	counted  counted
	applying locks.Mutex[inApplying] // held while a batch is applied, and while a checkpoint takes rows
	pools    pools
}

// Open prepares the shard, claims its journal and starts its goroutines. Close ends them.
func Open(ctx context.Context, o Options) (*Shard, error) {
	p, err := Prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	return p.Claim(ctx)
}

// fill sets what is left to its default.
func (o *Options) fill() {
	if o.OpBytes == 0 {
		o.OpBytes = 64 << 10
	}
	if o.CheckpointBytes == 0 {
		o.CheckpointBytes = 16 << 20
	}
	if o.Live == nil {
		o.Live = NewLiveLimit(0)
	}
	if o.Full == nil {
		o.Full = new(atomic.Bool)
	}
	if o.ViewMemory == nil {
		o.ViewMemory = NewViewMemory(DefaultViewMemory)
	}
	if o.RecountEvery == 0 {
		o.RecountEvery = DefaultRecountEvery
	}
	if o.CheckpointEnded == 0 {
		o.CheckpointEnded = 20_000
	}
	if o.CheckpointItems == 0 {
		o.CheckpointItems = 2000
	}
}

// newShard is a shard that has no state yet.
func newShard(ctx context.Context, p *Prepared) *Shard {
	o := &p.options
	s := &Shard{options: *o, store: o.Store, full: o.Full, own: p.own, roster: consumers.NewRoster()}
	s.alive, s.leave = context.WithCancel(context.WithoutCancel(ctx))
	s.resources.of(s)
	s.inner.of(s)
	s.snapshots.copies = p.copies
	s.pools.scratch.New = func() any { return new(scratch) }
	s.pools.picks.New = func() any { return new([]machine.Pick) }
	s.mu.now, s.mu.report = o.Now, o.Held
	s.Worker.parked, s.Worker.blamed = map[machine.Action]*machine.Parking{}, map[machine.Action]int{}
	s.Recounts.opened = s.now()
	s.ahead.Store(true) // a checkpoint may have been cut off
	return s
}

// pools keep memory that calls need for a moment.
type pools struct {
	scratch sync.Pool // *scratch
	picks   sync.Pool // *[]pick
	windows sync.Pool // *windowScratch
}

var (
	errClosing = &queue.Error{Code: queue.CodeUnavailable, Message: "The queue is closing or reloading. Ask again in a moment."}
	errBroken  = &queue.Error{Code: queue.CodeUnavailable, Message: "The queue is degraded: it could not be reloaded " +
		"after a failed commit. It is tried again every second; the server's log says what is wrong."}
)

// errDraining refuses inserts; a repeated one is answered all the same.
var errDraining = &queue.Error{Code: queue.CodeDraining,
	Message: "The queue is draining: it takes no submissions any more, until an operator changes its setting \"draining\"."}

var errLost = &queue.Error{Code: queue.CodeUnavailable, Message: "A file of the data directory was deleted, moved or " +
	"replaced under the running server, so nothing is acknowledged any more. The server's log and /readyz?verbose " +
	"say which one; what was there can still be read. Put the files back, then restart the server."}

// errMoved refuses what a shard cannot do any more because another writer has its journal. Nothing of it was done.
var errMoved = &queue.Error{Code: queue.CodeMoved, Message: "Another server has taken this queue over, so nothing of this request was " +
	"done. If no other one should have, stop this server; its log and /readyz?verbose say what it found."}

// moved is errMoved, with what was found in the journal.
func moved(cause error) error {
	return &queue.Error{Code: errMoved.Code, Message: errMoved.Message, Err: cause}
}

// Lose ends all writing, for good, if gone still says why, and returns that: what would be acknowledged from now on might go to a file that
// no one finds again. gone is not asked while a reload has the journal closed, as opening it makes a new file of its log.
// What is in memory, and in the files that are still open, can be read until the server ends.
func (s *Shard) Lose(gone func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reloading || s.broken != nil {
		return nil
	}
	cause := gone()
	if cause != nil && s.lost == nil {
		s.lost = cause
		s.dismiss()
	}
	return cause
}

// usable says whether calls can be served. The mutex is held.
func (s *Shard) usable() error {
	switch {
	case s.closed:
		return errClosing
	case errors.Is(s.lost, journal.ErrConflict):
		return errMoved
	case s.lost != nil:
		return errLost
	case s.reloading:
		return errClosing
	case s.broken != nil:
		return errBroken
	}
	return nil
}

// now is the time given to commands. When the clock is set back, deadlines come later by as much and ids go on growing.
func (s *Shard) now() queue.Time { return queue.At(s.options.Now()) }

// Close commits what is open, answers everybody who waits, writes what is held for the next start, and closes the journal. The store
// stays open.
func (s *Shard) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.dismiss()
	s.options.ViewMemory.release(&s.Views.counted)
	s.Views.tellOwners(nil)
	s.mu.Unlock()
	s.leave()
	s.writer.finish()
	s.options.Live.open.Add(-s.live) // nothing is applied any more
	s.Worker.passes.Wait()
	s.checkpoints.stop()
	<-s.checkpoints.ended
	s.snapshots.ended.Wait()
	s.leaveHeld()
	return s.journal.Close()
}

// dismiss ends every wait. The mutex is held.
func (s *Shard) dismiss() {
	s.Consumers.stirAttached()
	s.Ends.tell()
	for w := range s.waiters.all {
		s.waiters.unpark(w, nil)
		close(w.served)
	}
}

// Heal makes a failed reload again, and, when writes fail, tries whether they do; the engine calls it every second.
func (s *Shard) Heal() {
	s.mu.Lock()
	s.writer.impatient()
	broken := s.broken != nil && s.writer.pending() == nil // else the writer comes to it
	s.mu.Unlock()
	if broken {
		s.writer.again()
	}
	s.disk.probe()
}

// keepViews is how many standing views an idle strategy may leave behind; beyond it the least recently used go.
const keepViews = 256

// sweepSlice is how many entries of dropped views one hold of the mutex takes apart.
const sweepSlice = 5000

// Tidy drops views that no one has used for long. The engine calls it every second.
func (s *Shard) Tidy() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.Views.tidy()
	s.Consumers.sweepOrders()
	s.mu.Unlock()
	for clean := false; !clean; {
		s.mu.Lock()
		clean = s.m.Backlog.Views.Sweep(sweepSlice)
		s.mu.Unlock()
	}
}

// SetFull says whether the disk has room again; while it has not, inserts are refused.
func (s *Shard) SetFull(full bool) { s.full.Store(full) }

// Full says whether inserts are refused for want of room.
func (s *Shard) Full() bool { return s.full.Load() }

func (s *Shard) takeScratch() *scratch { return s.pools.scratch.Get().(*scratch) }

func (s *Shard) takePicks() *[]machine.Pick { return s.pools.picks.Get().(*[]machine.Pick) }

// givePicks takes the list back; the metas went out with the answer.
func (s *Shard) givePicks(p *[]machine.Pick) {
	clear(*p)
	*p = (*p)[:0]
	s.pools.picks.Put(p)
}
