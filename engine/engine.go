package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/inserts"
	"github.com/quern-queue/quern/engine/shard/views"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// Options are the options of an engine. Dir, Now and Seed are required.
type Options struct {
	Dir             string                // the data directory, made when missing
	Now             func() time.Time      // the wall clock
	Seed            func() uint64         // a fresh random number per call
	Registerer      prometheus.Registerer // nil: no metrics
	Logger          *slog.Logger          // nil: silent
	Fatal           func(error)           // ends the process when a disk sync failed; nil panics
	BallastBytes    int64                 // room kept back for completions on a full disk; 0: 16 MiB, negative: none
	CheckpointBytes int64                 // journal bytes that start a checkpoint; 0: 16 MiB
	SnapshotDir     string                // where copies of the stores are kept, see Snapshots; "": none are
	SnapshotBytes   int64                 // journal bytes behind a copy that start the next one; 0: 64 MiB
	AuditKeep       time.Duration         // how long entries of the audit log are kept; 0: DefaultAuditKeep, negative: for ever
	RecountEvery    time.Duration         // how often kept counters are recounted; 0: recount.DefaultEvery, negative: never
	MaxLive         int64                 // submissions that may be open in all queues together; 0: any number
	MaxMemory       int64                 // bytes that Memory may return while inserts are admitted; 0: any number
	Memory          func() int64          // measures the memory of the process, in bytes; nil: it is not measured
	// bytes that the views of all queues may take; questions get a quarter more; 0: views.DefaultMemory
	ViewMemory int64
	MetricKeys []queue.MetaKey     // whose values metrics show, at most MaxMetricKeys
	Held       func(time.Duration) // told of every hold of a queue's mutex, for measuring what others wait for; nil: not measured
	Auth       bool                // requests need an access token, also before there is one
	Scorers    strategy.Scorers    // who scores for Plugin and Score blocks; nil: such strategies are refused
	Cluster    *Cluster            // nil: the server is alone, and everything is in its data directory
	Changed    func() error        // told when another node has changed the catalogue; nil: no one is
	Spans      Spans               // traces what the engine does by itself; nil: it is not traced
}

// Engine is a running queue server without its faces. All methods are safe for concurrent use.
type Engine struct {
	Sharding
	options   Options
	lock      *dirLock
	home      home
	catalogue *store.Catalogue
	identity  queue.Identity // of the data directory's files in this life
	files     watched        // those of the whole directory
	tokens    Tokens
	ballast   *ballast
	full      atomic.Bool // the disk is: calls that bring something new are refused
	sealer    PlaceSealer
	key       reserver.Key
	plans     plans
	metrics   *metrics
	bulks     bulkRunner
	forwards  forwards
	cleaner   *cleaner
	shared    shared
	sampled   sampled
	nodes     *Nodes // nil: the server is alone

	// changing is held while queues are created, changed or deleted, which may wait for the disk or the database. Calls whose queue must
	// not be deleted meanwhile hold it for reading. It is taken before mu, which no one holds for long.
	changing   sync.RWMutex
	mu         tableLock // guards queues, shards, sharded, quarantine and deleting
	queues     map[string]*Queue
	shards     map[queue.ShardID]*Queue
	quarantine quarantine
	deleting   string // the queue that is just being deleted; "": none
}

// shared has the limits of all queues together.
type shared struct {
	views *views.Memory
	live  *inserts.LiveLimit
}

// memoryEvery is how often the memory of the process is measured. Inserts add some 100 MB in a second at most.
const memoryEvery = 250 * time.Millisecond

// measure says how much memory the process uses.
func (s *shared) measure(o *Options) {
	if o.Memory != nil {
		s.live.Uses(o.Memory(), o.MaxMemory)
	}
}

// DefaultQueue always exists.
const DefaultQueue = "default"

// Open recovers everything in the data directory and serves. It fails when another process holds the directory, when the
// catalogue is damaged or missing, when a file is of a newer version, when no queue can be opened, or when the directory
// cannot be written; nothing is changed then. A queue that cannot be opened is in quarantine while others can.
func Open(ctx context.Context, o Options) (_ *Engine, err error) {
	o.fill()
	if err := makeDir(o.Dir); err != nil {
		return nil, fmt.Errorf("the data directory %s cannot be made: %w", o.Dir, err)
	}
	if err := canSnapshot(o.SnapshotDir); err != nil {
		return nil, fmt.Errorf("the folder of snapshots %s cannot be used: %w", o.SnapshotDir, err)
	}
	e := &Engine{options: o, queues: map[string]*Queue{}, shards: map[queue.ShardID]*Queue{},
		forwards: forwards{nudge: make(chan struct{}, 1)},
		shared:   shared{views.NewMemory(uint64(o.ViewMemory)), inserts.NewLiveLimit(o.MaxLive)}}
	e.bulks.e, e.forwards.e, e.cleaner = e, e, newCleaner(e)
	e.shared.measure(&o)
	e.Sharding = Sharding{e, map[string]*Sharded{}}
	e.home = local{e}
	if o.Cluster != nil {
		e.home, e.nodes = clustered{e, *o.Cluster}, newNodes(e, o.Cluster.Node)
	}
	if err := e.home.ours(); err != nil {
		return nil, err
	}
	if e.lock, err = lockDir(o.Dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			e.Close()
		}
	}()
	if err := e.home.clean(); err != nil {
		return nil, err
	}
	if e.ballast, err = openBallast(o.Dir, o.BallastBytes, o.Logger); err != nil {
		return nil, err
	}
	if e.catalogue, err = e.home.catalogue(ctx); err != nil {
		return nil, err
	}
	e.catalogue.Around = e.roomy
	if e.identity, err = e.catalogue.Begin(rand.Reader); err != nil {
		return nil, err
	}
	if err := errors.Join(e.loadKey(), e.loadSealer()); err != nil {
		return nil, err
	}
	if err := e.tokens.open(&o, e.catalogue, e.Storage().Room); err != nil {
		return nil, err
	}
	if e.metrics, err = newMetrics(e, o.Registerer); err != nil {
		return nil, err
	}
	if e.nodes != nil {
		err = e.nodes.refresh()
	} else {
		err = e.openQueues(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(e.catalogue.Begun(e.identity), e.files.add(filepath.Join(o.Dir, catalogueFile))); err != nil {
		return nil, err
	}
	e.full.Store(!e.ballast.board())
	return e, nil
}

func (o *Options) fill() {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Fatal == nil {
		o.Fatal = func(err error) { panic(err) }
	}
	o.ViewMemory = cmp.Or(o.ViewMemory, views.DefaultMemory)
	o.AuditKeep = cmp.Or(o.AuditKeep, DefaultAuditKeep)
	o.BallastBytes = cmp.Or(o.BallastBytes, 16<<20)
}

// Close commits open batches, answers all waiting callers, and releases the directory.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, q := range e.queues {
		errs = append(errs, q.close())
	}
	clear(e.queues)
	clear(e.shards)
	if e.nodes != nil {
		errs = append(errs, e.nodes.close())
	}
	if e.metrics != nil {
		e.metrics.unregister()
	}
	if e.catalogue != nil {
		e.tokens.refusals.writeAll(true)
		errs = append(errs, e.tokens.keepUses(e.options.Now(), true))
		errs = append(errs, e.catalogue.Close())
	}
	if e.lock != nil {
		errs = append(errs, e.lock.release())
	}
	return errors.Join(errs...)
}

// Nodes is this server's part in its cluster; nil: it is alone.
func (e *Engine) Nodes() *Nodes { return e.nodes }

// Run runs the timed work until ctx ends. Deadlines, retries and run_at come many times a second. So that these never wait, other
// goroutines do the housekeeping and the frames every second, bulk operations, and the removal of what is past its retention.
func (e *Engine) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() {
		every(ctx, time.Second, func() { e.house(ctx) })
	})
	group.Go(func() {
		e.sample()
		every(ctx, time.Second, e.sample)
	})
	group.Go(func() {
		every(ctx, bulkEvery, func() { e.bulks.step(ctx) })
	})
	group.Go(func() {
		every(ctx, ledgerEvery, func() { readLedgers(ctx, e.all(), queue.At(e.options.Now())) })
	})
	group.Go(func() {
		every(ctx, roomEvery, func() { e.keepCounts(); e.prepareShards(ctx); e.moveGroups(ctx) })
	})
	group.Go(func() {
		every(ctx, memoryEvery, func() { e.shared.measure(&e.options) })
	})
	group.Go(func() { e.forwards.carryAlways(ctx) })
	group.Go(func() { e.cleaner.always(ctx) })
	group.Go(func() { e.watchAlways(ctx) })
	if e.nodes != nil {
		group.Go(func() { e.nodes.always(ctx) })
		group.Go(func() { e.nodes.follow(ctx) })
	} else {
		group.Go(func() {
			every(ctx, retakeEvery, func() { e.retake(ctx) })
		})
	}
	every(ctx, 50*time.Millisecond, func() {
		for _, q := range e.all() {
			q.shard.Worker.Nudge()
		}
	})
	group.Wait()
	return nil
}

// Moved does at once the work that became due when the clock of Options.Now was moved. Run looks many times a second, but a test that has
// moved its clock wants the work done when the call returns.
func Moved(e *Engine) {
	for _, q := range e.all() {
		q.shard.Worker.Tick()
	}
}

// every calls fn at a pace until ctx ends.
func every(ctx context.Context, pace time.Duration, fn func()) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			fn()
		}
	}
}

// house drops idle views, sorts outputs, and lets inserts in again when a full disk has room.
func (e *Engine) house(ctx context.Context) {
	for _, q := range e.all() {
		q.shard.Heal()
		q.shard.Tidy()
		q.pace.note(queue.At(e.options.Now()), q.shard.Stats().ReservedTotal)
		if err := q.store.CompactOutputs(ctx); err != nil && ctx.Err() == nil && queue.CodeOf(err) != queue.CodeUnavailable {
			e.options.Logger.Error("sorting outputs failed; the server tries again", "queue", q.name, "error", err)
		}
	}
	if err := e.tokens.keepUses(e.options.Now(), false); err != nil {
		e.options.Logger.Error("recording the use of access tokens failed; the server tries again", "error", err)
	}
	e.tokens.refusals.writeAll(false)
	e.makeRoom()
}

// Check is one condition for the server to serve.
type Check struct {
	api.Check
	Aside bool // its subject does not serve, and keeps nothing else from serving
}

// Ready lists the checks, one per queue and one for the disk.
func (e *Engine) Ready() []Check {
	var checks []Check
	for _, q := range e.all() {
		err := q.shard.Health()
		check := api.Check{Name: "queue " + q.name, OK: err == nil, Detail: "serving"}
		if err != nil {
			check.Detail = err.Error()
		}
		checks = append(checks, Check{Check: check})
	}
	for _, q := range e.Queues() {
		switch {
		case q.Moved:
			detail := fmt.Sprintf("moved; it is asked for again every %s: %s", retakeEvery, q.Quarantined.Reason)
			checks = append(checks, Check{api.Check{Name: "queue " + q.Name, Detail: detail}, true})
		case q.Quarantined != nil:
			checks = append(checks, Check{api.Check{Name: "queue " + q.Name, Detail: "in quarantine: " + q.Quarantined.Reason}, true})
		}
	}
	checks = append(checks, e.overruns()...)
	if e.nodes != nil {
		checks = append(checks, e.nodes.check())
	}
	disk := api.Check{Name: "disk", OK: e.Storage().Room() == nil, Detail: "room for inserts"}
	if !disk.OK {
		disk.Detail = "full: inserts are refused, completions go on; free some space"
	}
	return append(checks, Check{Check: disk})
}
