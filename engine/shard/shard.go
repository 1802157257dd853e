package shard

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/blobs"
	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/durations"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/locks"
	"github.com/quern-queue/quern/engine/measure"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/consumers/roster"
	"github.com/quern-queue/quern/engine/shard/contents"
	"github.com/quern-queue/quern/engine/shard/inserts"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/recount"
	"github.com/quern-queue/quern/engine/shard/schedules"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/views"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/engine/strategy"
)

// Options are the dependencies of a shard. Every field but Full, Held, Set, Seconds,
// Scorers, Born, Posted, Live, ViewMemory, Owner, RecountEvery, Copies, CheckpointBytes,
// CheckpointEnded and CheckpointItems is needed.
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
	Committed func(took time.Duration, ops, bytes int) // called for every commit
	Fatal     func(error)                              // ends the process: memory can no longer be trusted
	// the disk is full: inserts are refused; shared with other shards; nil: one of its own
	Full        *atomic.Bool
	Owner       Owner
	FreeBallast func() bool // makes room on a full disk; false when there is none left to free
	// called at the end of every hold of the mutex, while it is held; nil: holds are not measured
	Held func(took time.Duration)

	// Set gets the settings of operators: all of them at the start, and when the state is made again after a failed
	// commit; then each change. It must not call the shard. nil: no one does.
	Set func(list []journal.Set, all bool)

	Seconds Seconds

	Scorers strategy.Scorers // for Plugin and Score blocks; nil: no plan has any

	Born queue.Time // when the shard was made: with ID it identifies its outbox for ever
	// called when dead letters left for another queue, see Outgoing; must not call the shard; may be nil
	Posted func()

	Live *inserts.LiveLimit // how many submissions may be open, shared with other shards; nil: any number
	// the memory for its views, shared with other shards; nil: views.DefaultMemory of its own
	ViewMemory *views.Memory

	// how long one recount of everything takes, and how often one is made; default an
	// hour; below 0: none is
	RecountEvery time.Duration

	Audit AuditLog // both nil: there is no log, and nothing is forgotten

	Emitting func(schedule string) schedules.Span // begins the span of an emission; nil: no one traces

	Copies Copies

	// contents and attachments of an insert up to this many go into its batch; default 64 KiB, below 0 none
	OpBytes         int
	CheckpointBytes int64 // journal bytes that start a checkpoint; default 16 MiB
	CheckpointEnded int   // ended submissions that start one; default 20,000
	// tries, reservations and exceptions of submissions that one hold of the mutex encodes
	// for a checkpoint; default 2,000
	CheckpointItems int
}

// Copies make the store of a shard a cache that can be rebuilt; all zero: the store is no cache.
type Copies struct {
	Snapshots Snapshots // keeps copies of the store; nil: none are kept, and the journal is trimmed at every checkpoint
	// journal bytes behind the newest snapshot that start the next one, or those of half
	// the store if that is more; default 64 MiB; below 0, every checkpoint does
	SnapshotBytes int64
	Blobs         blobs.Blobs // has the contents and attachments that are too many for a batch; nil: the store has them
}

// Owner is what a server needs to know as an owner of the shard; zero: no other one can ever own it.
type Owner struct {
	// Own says that no other server can own the shard at this moment. It is asked under
	// the mutex, and must not wait; nil: none ever can
	Own func() bool
	// how long an append may go on trying when the outcome of a try is unknown; the callers in its batch wait
	// meanwhile. Default a second
	Patience time.Duration
}

// AuditLog is where the entries of the audit log end up.
type AuditLog struct {
	// the largest number of an entry that the log has of the shard, also from a queue that had it before
	Last func() (uint64, error)
	// Put puts entries into the log, durably, each number once
	Put func(ctx context.Context, list []journal.Act) error
}

// Seconds are the measurements of a shard's chunks; nil: none.
type Seconds struct {
	Wait *measure.Histogram // from a chunk's insert, or its run_at, to its first reservation
	Run  *measure.Histogram // from a reservation to its completion or failure

	Lately *durations.Kept // both of the last half hour, also by value
}

// Shard is one journal, its state and its owner's goroutines. All methods are safe for concurrent use.
//
// A shard does not serve in these states, in the order in which usable asks:
//
//	closed                     Close was called                                        unavailable
//	lost, of ErrConflict       another writer has the journal (depose)                 moved, for good
//	lost, else                 a file was deleted or moved under the server (Lose)     unavailable, for good
//	reloading                  an append had an unknown outcome; run makes a new state unavailable, for a moment
//	broken                     that failed; Heal tries again every second              unavailable
//	not owned                  of a cluster: another node may be the owner            moving
//
// All but the last change under the mutex. Ownership is a matter of time, so it is asked again:
// before a decision, and, where the decision needs no commit, before the answer.
type Shard struct {
	resources
	inner

	options Options
	own     *ownership // of the journal
	store   *store.Store
	mu      holdLock // guards everything below, and the machine
	m       *machine.Machine
	parts   parts
	alarm   alarm
	live    int64 // the number of open submissions that LiveLimit counts for it
	closed  bool
	retired bool // inserts and changes are refused, reads are not: the queue is being deleted
	// The state is being made again: until then nothing may change. The journal is closed, and being opened again.
	reloading bool
	broken    error // a reload failed: nothing works until Heal succeeds
	// the files have gone, or another writer has the journal: nothing is written any more, for good
	lost error

	roster *roster.Roster

	full     *atomic.Bool    // Options.Full
	ahead    atomic.Bool     // rows of the store may be younger than the position that a replay begins at
	special  atomic.Bool     // a reserve has to look at orders for consumers, or at the restart grace
	alive    context.Context // until Close
	leave    context.CancelFunc
	applying locks.Mutex[shell.InApplying] // held while a batch is applied, and while a checkpoint takes rows
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

// fill sets absent options to their defaults.
func (o *Options) fill() {
	if o.Copies.Blobs == nil {
		o.Copies.Blobs = &o.Store.Blobs
	}
	o.Owner.Patience = cmp.Or(o.Owner.Patience, appendPatience)
	o.OpBytes = cmp.Or(o.OpBytes, 64<<10)
	o.CheckpointBytes = cmp.Or(o.CheckpointBytes, 16<<20)
	o.Live = cmp.Or(o.Live, inserts.NewLiveLimit(0))
	o.Full = cmp.Or(o.Full, new(atomic.Bool))
	o.ViewMemory = cmp.Or(o.ViewMemory, views.NewMemory(views.DefaultMemory))
	o.RecountEvery = cmp.Or(o.RecountEvery, recount.DefaultEvery)
	o.CheckpointEnded = cmp.Or(o.CheckpointEnded, 20_000)
	o.CheckpointItems = cmp.Or(o.CheckpointItems, 2000)
}

// files are where the bytes of submissions are.
func (o *Options) files() contents.Files {
	return contents.Files{ID: o.ID, Queue: o.Queue, Logger: o.Logger, Store: o.Store, Blobs: o.Copies.Blobs}
}

// newShard is a shard that has no state yet.
func newShard(ctx context.Context, p *Prepared) *Shard {
	o := &p.options
	s := &Shard{options: *o, store: o.Store, full: o.Full, own: p.own, roster: roster.New()}
	s.alive, s.leave = context.WithCancel(context.WithoutCancel(ctx))
	s.inner.of(s)
	s.resources.of(s)
	s.snapshots.copies = p.copies
	s.pools.scratch.New = func() any { return new(scratch) }
	s.pools.picks.New = func() any { return new([]machine.Pick) }
	s.mu.now, s.mu.report = o.Now, o.Held
	s.ahead.Store(true) // a checkpoint may have been cut off
	return s
}

// pools keep memory that calls need for a moment.
type pools struct {
	scratch sync.Pool // *scratch
	picks   sync.Pool // *[]pick
}

var (
	errClosing = &queue.Error{Code: queue.CodeUnavailable,
		Message: "The queue is closing or reloading. Ask again in a moment."}
	errBroken = &queue.Error{Code: queue.CodeUnavailable, Message: "The queue is degraded: it could not be reloaded " +
		"after a failed commit. The server tries again every second; its log says what is wrong."}
)

var errLost = &queue.Error{Code: queue.CodeUnavailable, Message: "A file of the data directory was deleted, moved or " +
	"replaced under the running server, so nothing is acknowledged any more. The server's log and /readyz?verbose " +
	"say which one; what was there can still be read. Put the files back, then restart the server."}

// errMoving refuses calls that a shard cannot answer while another server may have it: without an append it cannot find
// out.
var errMoving = &queue.Error{Code: queue.CodeMoving,
	Message: "This server cannot say at this moment that the queue is still its own: it " +
		"does not reach the database, or has been standing still. " +
		"Send this again in a moment; another server may take the queue over."}

// owned is nil while no other server may own the shard.
func (s *Shard) owned() error {
	if s.options.Owner.Own == nil || s.options.Owner.Own() {
		return nil
	}
	return errMoving
}

// Lose ends all writing, for good, if gone still returns an error, and returns that: later writes might go to a file
// that no one finds again. It does not call gone while a reload has the journal closed, as opening it makes a new log
// file. Memory and the files that are still open can be read until the server ends.
func (s *Shard) Lose(gone func() error) (cause error) {
	s.mu.held(func() {
		if s.reloading || s.broken != nil {
			return
		}
		if cause = gone(); cause != nil && s.lost == nil {
			s.lost = cause
			s.dismiss()
		}
	})
	return cause
}

// Retire makes the shard refuse inserts and changes, waits for those on their way to the disk, and says how many
// submissions are open then. Without it, a queue could acknowledge a submission, be found empty, and be deleted. again
// makes it serve again.
func Retire(s *Shard) (open uint64, again func()) {
	var last *commit.Commit
	s.mu.held(func() { s.retired, last = true, s.writer.pending() })
	_ = s.writer.wait(commit.Set{First: last}) // the callers hear of a failure
	return s.Stats().SubmissionsOpen, func() { s.mu.held(func() { s.retired = false }) }
}

// usable says whether calls can be served. The mutex is held.
func (s *Shard) usable() error {
	switch {
	case s.closed:
		return errClosing
	case errors.Is(s.lost, journal.ErrConflict):
		return commit.Moved(nil)
	case s.lost != nil:
		return errLost
	case s.reloading:
		return errClosing
	case s.broken != nil:
		return errBroken
	}
	return s.owned()
}

// now is the time for commands. If the clock is set back, deadlines come later by as much, and ids go on growing.
func (s *Shard) now() queue.Time { return queue.At(s.options.Now()) }

// Close commits the open batch, answers all calls that wait, writes the reservations for the next start, and closes the
// journal. The store stays open.
//
// The order matters. closed comes first, so that no call begins. The writer finishes before the worker and the
// checkpoints, as both may wait for a commit. The reservations are written last (leaveHeld): any later change would
// make them untrue.
func (s *Shard) Close() error {
	closed := false
	s.mu.held(func() {
		if closed = s.closed; !closed {
			s.closed = true
			s.Consumers.Close()
			s.Views.Close()
			s.dismiss()
		}
	})
	if closed {
		return nil
	}
	s.leave()
	s.writer.finish()
	s.options.Live.Opened(-s.live) // nothing is applied any more
	s.Worker.Finish()
	s.checkpoints.stop()
	<-s.checkpoints.ended
	s.snapshots.ended.Wait()
	s.mu.held(s.leaveHeld)
	var err error
	if s.contents.Remote() && s.lost == nil {
		// so that the next server does not need the folder of snapshots for this data
		err = s.store.Memtable.Flush(context.Background())
	}
	return errors.Join(err, s.writer.journal.Close())
}

// dismiss ends every wait. The mutex is held.
func (s *Shard) dismiss() {
	s.Consumers.Stir()
	s.Ends.Tell()
	s.waiters.Dismiss()
	s.alarm.silence()
}

// Heal tries a failed reload again, and, while writes fail, tries a write; the engine calls it every second.
func (s *Shard) Heal() {
	broken := false
	s.mu.held(func() {
		s.writer.impatient()
		broken = s.broken != nil && s.writer.pending() == nil // else the writer does it
	})
	if broken {
		s.writer.healed()
	}
	s.probe()
}

// Tidy drops memory that has not been used for a while. The engine calls it every second.
func (s *Shard) Tidy() {
	s.Views.Tidy()
	s.Consumers.Tidy()
}

// probe tries a write to each file to which the last writes failed, so that the shard recovers even without calls.
func (s *Shard) probe() {
	row := checkpoint.Aside{Kind: machine.AsideSeq}
	s.mu.held(func() {
		if s.disk.Appends.Degraded() && s.usable() == nil && s.writer.pending() == nil {
			s.m.Encode(s.now()).Epoch(s.m.Epoch)
			s.writer.kick()
		}
		row.Bytes = s.m.Asides.Of(machine.AsideSeq).Row(0)
	})
	if s.disk.Writes.Degraded() {
		// Write notes the result, which is all that is needed
		_ = s.disk.Write(func() error { return s.store.PutAside(context.Background(), []checkpoint.Aside{row}) })
	}
}

// SetFull says whether the disk has room again; while it has not, inserts are refused.
func (s *Shard) SetFull(full bool) { s.full.Store(full) }

// Full says whether inserts are refused for want of room.
func (s *Shard) Full() bool { return s.full.Load() }

func (p *pools) takeScratch() *scratch { return p.scratch.Get().(*scratch) }

func (p *pools) takePicks() *[]machine.Pick { return p.picks.Get().(*[]machine.Pick) }

// givePicks takes the list back; the metas went out with the answer.
func (p *pools) givePicks(list *[]machine.Pick) {
	clear(*list)
	*list = (*list)[:0]
	p.picks.Put(list)
}
