package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/durations"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/engine/usage"
	"github.com/quern-queue/quern/sdk/api"
)

// QueueInfo is a queue's name and configuration.
type QueueInfo struct {
	Name     string
	Settings queue.Settings
	Created  queue.Time

	Quarantined *api.Quarantined // why it does not serve; nil: it serves
	Moved       bool             // it does not serve because another server has it; this server tries again
}

// Queue is a queue that serves, or one shard of a Sharded. Once it is deleted, or the engine is closed, its calls fail.
type Queue struct {
	resources
	many      atomic.Pointer[Sharded] // that it is a shard of; nil: it is a whole queue
	splitting sync.RWMutex            // held for writing while a whole queue becomes the first shard of several, by inserts for reading
	e         *Engine
	name      string
	id        queue.ShardID
	created   queue.Time
	config    atomic.Pointer[queue.Settings]
	store     *store.Store
	shard     *shard.Shard
	empty     emptyCounts
	named     named
	inUse     usage.Usage
	answer    queueAnswer
	values    values
	pace      pace
	frames    frames
	counts    *counts
	durations *durations.Kept // how long chunks took lately
	files     watched
	lost      bool                               // files are gone; watch alone looks at it
	fair      atomic.Pointer[backlog.LedgerSums] // as they were added up last; nil: not yet
	past      ledgerPast
}

// Name is the name of the queue.
func (q *Queue) Name() string { return q.name }

// Relaxed reports whether the queue answers before a change is on the disk.
func (q *Queue) Relaxed() bool { return q.config.Load().Durability == queue.Relaxed }

func (q *Queue) info() QueueInfo {
	return QueueInfo{Name: q.name, Settings: *q.config.Load(), Created: q.created}
}

// row is the queue as the catalogue keeps it.
func (q *Queue) row() store.QueueRow {
	return store.QueueRow{Name: q.name, Shard: q.id, Settings: *q.config.Load(), Created: q.created}
}

func (q *Queue) close() error {
	var errs []error
	if q.shard != nil {
		errs = append(errs, q.shard.Close())
	}
	if q.store != nil {
		errs = append(errs, q.store.Close())
	}
	return errors.Join(errs...)
}

// tokenSecret is the name, in the catalogue, of the key that signs the tokens of reservations.
const (
	tokenSecret      = "token"
	tokenSecretBytes = 16
)

// hopSecret is the name of the key with which nodes prove to each other that they are nodes.
const hopSecret = "hop"

// loadKey reads the durable key that signs tokens, and makes it at the very first start.
func (e *Engine) loadKey() error {
	secret, err := e.catalogue.Secret(tokenSecret, tokenSecretBytes, rand.Reader)
	if err != nil {
		return err
	}
	e.key = reserver.KeyFrom([16]byte(secret))
	if e.nodes != nil {
		e.nodes.hopKey, err = e.catalogue.Secret(hopSecret, 32, rand.Reader)
	}
	return err
}

// preparedQueue is a queue that is read and not served yet. Another node of a cluster may still have its journal.
type preparedQueue struct {
	*Queue
	row      store.QueueRow // with the settings that the catalogue has
	prepared *shard.Prepared
}

// openQueue recovers a queue's shard. The queue serves when it is registered.
func (e *Engine) openQueue(ctx context.Context, row store.QueueRow, id queue.Identity) (*Queue, error) {
	q, err := e.prepareQueue(ctx, row, id)
	if err != nil {
		return nil, err
	}
	return q.claim(ctx)
}

// prepareQueue reads a queue's shard. It changes only files that no other server uses.
func (e *Engine) prepareQueue(ctx context.Context, row store.QueueRow, id queue.Identity) (*preparedQueue, error) {
	dir := e.shardDir(row.Shard)
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	q := &Queue{e: e, name: row.Name, id: row.Shard, created: row.Created, counts: newCounts(),
		durations: new(durations.Kept)}
	q.config.Store(&row.Settings)
	var err error
	if q.store, err = store.Open(ctx, filepath.Join(dir, storeFile), store.Options{Identity: id}); err != nil {
		return nil, err
	}
	if err := q.files.add(filepath.Join(dir, storeFile)); err != nil {
		return nil, errors.Join(err, q.close())
	}
	options := shard.Options{
		ID: row.Shard, Queue: row.Name, Settings: row.Settings, Key: e.key, Store: q.store,
		Journal: e.home.journal(q, row, id), Owner: e.nodes.owning(row.Shard),
		Now: e.options.Now, Seed: e.options.Seed, Logger: e.options.Logger, Fatal: e.options.Fatal,
		Committed: e.metrics.committed(row.Name), Full: &e.full, FreeBallast: e.ballast.free, Held: e.options.Held,
		Set: q.set, Scorers: e.options.Scorers, ViewMemory: e.shared.views, Live: e.shared.live,
		Seconds: shard.Seconds{Wait: q.counts.waited, Run: q.counts.held, Lately: q.durations}, Born: row.Created, Posted: e.posted,
		CheckpointBytes: e.options.CheckpointBytes, RecountEvery: e.options.RecountEvery,
		Emitting: e.emitting(row.Name), Audit: shard.AuditLog{Last: e.lastAct(row.Shard), Put: e.putActs(row.Shard, row.Name)},
	}
	if options.Copies, err = e.home.copies(row, id); err != nil {
		return nil, errors.Join(err, q.close())
	}
	prepared, err := shard.Prepare(ctx, options)
	if err != nil {
		return nil, errors.Join(err, q.close())
	}
	return &preparedQueue{q, row, prepared}, nil
}

// claim makes this server the owner of the queue's journal.
func (q *preparedQueue) claim(ctx context.Context) (_ *Queue, err error) {
	if q.shard, err = q.prepared.Claim(ctx); err != nil {
		return nil, errors.Join(err, q.store.Close())
	}
	if err := q.adopt(); err != nil {
		return nil, errors.Join(err, q.close())
	}
	if q.row.Settings != *q.config.Load() {
		q.e.noteSettings(q.Queue)
	}
	q.resources.of(q.Queue)
	return q.Queue, nil
}

// discard closes a prepared queue that is not to be served.
func (q *preparedQueue) discard() error { return errors.Join(q.prepared.Close(), q.store.Close()) }

// register makes a queue serve. The caller holds e.mu, or no other goroutine has the engine yet.
func (e *Engine) register(q *Queue) {
	e.queues[q.name], e.shards[q.id] = q, q
	e.mu.changes.Add(1) // for one that begins without the lock
	whole, number := queue.CutShard(q.name)
	if s := e.sharded[whole]; s != nil {
		q.many.Store(s)
	} else if number > 1 { // the first one is not here, or not yet
		q.many.Store(emptySharded(e, whole))
	}
}

func (e *Engine) shardDir(id queue.ShardID) string {
	return filepath.Join(e.options.Dir, "shards", fmt.Sprintf("%04d", id))
}

func (e *Engine) all() []*Queue {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return slices.SortedFunc(maps.Values(e.queues), func(a, b *Queue) int { return strings.Compare(a.name, b.name) })
}

// Queue finds a queue by name. CodeUnknownQueue: there is none; CodeQuarantined: it does not serve.
func (e *Engine) Queue(name string) (*Queue, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	whole, number := queue.CutShard(name)
	switch {
	case e.sharded[name] != nil:
		return nil, severalShards(name)
	case number == 1 && e.sharded[whole] != nil:
		name = whole
	}
	if q := e.queues[name]; q != nil {
		return q, nil
	}
	return nil, absentQueue(e, name)
}

// absentQueue refuses a call for a queue that is not served here. The caller holds e.mu.
func absentQueue(e *Engine, name string) error {
	row := e.nodes.queues().row(name)
	switch {
	case e.quarantine.find(name) != nil:
		return e.quarantine.absent(name)
	case row != nil:
		return e.nodes.refusal(row)
	case e.deleting == name && name != "":
		return &queue.Error{Code: queue.CodeUnavailable, Message: fmt.Sprintf("The queue %q is just being deleted. If that "+
			"fails it serves again: send this again in a moment.", name)}
	}
	return unknownQueue(name)
}

func unknownQueue(name string) error {
	return &queue.Error{Code: queue.CodeUnknownQueue, Message: fmt.Sprintf("There is no queue %q. Create it with PUT "+
		"/v1/queues/{queue}, or use %q, which always exists.", clip(name, queue.MaxQueueNameBytes), DefaultQueue)}
}

// stay keeps the queue from being deleted until the function that it returns is called. It fails if that has happened already.
func (q *Queue) stay() (release func(), err error) {
	q.e.changing.RLock()
	q.e.mu.RLock()
	defer q.e.mu.RUnlock()
	if q.e.queues[q.name] == q {
		return q.e.changing.RUnlock, nil
	}
	q.e.changing.RUnlock()
	return nil, absentQueue(q.e, q.name)
}

// QueueOf finds the queue of a submission by arithmetic on its id.
func (e *Engine) QueueOf(id queue.SubmissionID) (*Queue, error) {
	e.mu.RLock()
	q, refused := e.shards[id.Shard()], error(nil)
	if q == nil {
		refused = e.nodes.missing(e.quarantine, id)
	}
	e.mu.RUnlock()
	return q, refused
}

// Queues lists the queues by name, those in quarantine too.
func (e *Engine) Queues() []QueueInfo {
	e.mu.RLock()
	defer e.mu.RUnlock()
	var list []QueueInfo
	for _, q := range e.queues {
		info := q.info()
		if list = append(list, info); e.sharded[info.Name] != nil { // its first shard is asked by another name
			info.Name = queue.ShardName(info.Name, 1)
			list = append(list, info)
		}
	}
	for i := range e.quarantine {
		list = append(list, e.quarantine[i].info())
	}
	for _, row := range e.nodes.others() {
		info := QueueInfo{Name: row.Name, Settings: row.Settings, Created: row.Created}
		if _, number := queue.CutShard(row.Name); number == 0 && row.Settings.Shards > 1 {
			list = append(list, QueueInfo{Name: queue.ShardName(row.Name, 1), Settings: row.Settings, Created: row.Created})
		}
		list = append(list, info)
	}
	slices.SortFunc(list, func(a, b QueueInfo) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// QueueInfo is a queue's configuration, also that of one in quarantine.
func (e *Engine) QueueInfo(name string) (QueueInfo, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	row := name
	if whole, number := queue.CutShard(name); number == 1 && e.sharded[whole] != nil {
		row = whole
	}
	if q := e.quarantine.find(row); q != nil {
		return q.info(), nil
	}
	if q := e.queues[row]; q != nil {
		info := q.info()
		info.Name = name
		return info, nil
	}
	return QueueInfo{}, absentQueue(e, name)
}
