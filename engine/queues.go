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
	inUse     inUse
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

// PutQueue creates a queue or changes its settings, which the next decisions read. With an error in `exists`, it only creates one, and
// returns that error for a queue that exists.
func (e *Engine) PutQueue(ctx context.Context, name string, settings queue.Settings,
	exists ...error) (info QueueInfo, created bool, err error) {
	if err := errors.Join(ValidQueueName(name), settings.Valid()); err != nil {
		return info, false, err
	}
	e.changing.Lock()
	defer e.changing.Unlock()
	q, id, err := placeFor(e, name, &settings, exists)
	switch {
	case err != nil:
	case q != nil:
		info, err = e.configure(ctx, q, settings)
	default:
		info, err = createWhole(ctx, e, store.QueueRow{Name: name, Shard: id, Settings: settings, Created: queue.At(e.options.Now())})
	}
	return info, err == nil && q == nil, err
}

// placeFor is the queue of a name, or a shard number for a new one. The caller holds e.changing.
func placeFor(e *Engine, name string, settings *queue.Settings, exists []error) (q *Queue, id queue.ShardID, err error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if err := e.validDeadQueue(name, settings); err != nil {
		return nil, 0, err
	}
	q = e.queues[name]
	aside := e.quarantine.find(name)
	switch {
	case len(exists) > 0 && (q != nil || aside != nil):
		return nil, 0, exists[0]
	case q != nil:
		return q, 0, nil
	case aside != nil:
		return nil, 0, aside.refusal()
	case e.nodes.queues().row(name) != nil:
		return nil, 0, absentQueue(e, name)
	case len(e.queues)+len(e.quarantine)+len(e.nodes.others()) >= queue.MaxQueues:
		return nil, 0, &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("There are %d queues "+
			"already, the most this server keeps. Delete one, or tell work apart by meta instead of by queue.", queue.MaxQueues)}
	}
	id, err = e.freeShard(false)
	return nil, id, err
}

// createWhole makes a queue with all its shards. The queue has one shard first, and is then divided.
func createWhole(ctx context.Context, e *Engine, row store.QueueRow) (info QueueInfo, err error) {
	wanted := row.Settings
	row.Settings.Shards = 1
	info, err = e.createQueue(ctx, row)
	if err == nil && wanted.Shards > 1 {
		info, err = e.configure(ctx, e.queues[row.Name], wanted)
	}
	return info, err
}

// createQueue makes a new queue. The caller holds e.changing, and not e.mu: it may wait for the disk or for the database, and other calls
// must not wait with it. The queue serves once it is in the catalogue. Its shard is known before, so that no other goroutine opens it.
func (e *Engine) createQueue(ctx context.Context, row store.QueueRow) (info QueueInfo, err error) {
	if err := e.Storage().Room(); err != nil {
		return info, err
	}
	if err := errors.Join(e.catalogue.Leave(row.Shard), e.nodes.begin(ctx, &row)); err != nil {
		return info, err
	}
	fresh := e.identity.ForShard(row.Shard)
	fresh.Oldest = 0
	var q *Queue
	if err = e.home.found(ctx, row); err == nil {
		q, err = e.openQueue(ctx, row, fresh)
	}
	if err == nil {
		if err = InitialRulesOf(e).begin(ctx, q); err != nil {
			err = errors.Join(err, q.close())
		}
	}
	if err != nil {
		return info, errors.Join(e.ballast.unlessFull(err), e.home.forget(row))
	}
	e.mu.change(func() { e.shards[q.id] = q })
	act := e.act(ctx, "", "queue.create", row.Name, "")
	act.Change(nil, queue.SettingsRow(row.Settings))
	if err := e.catalogue.PutQueue(row, act); err != nil {
		e.mu.change(func() { delete(e.shards, q.id) })
		e.metrics.forget(q.name)
		return info, errors.Join(err, q.close(), e.home.forget(q.row()))
	}
	if e.nodes != nil {
		err = InitialRulesOf(e).begin(ctx, q) // those that another node has set since
	}
	e.mu.change(func() { e.register(q) })
	return q.info(), errors.Join(err, e.nodes.refresh())
}

// tableLock guards the tables of queues. It counts their changes.
type tableLock struct {
	sync.RWMutex
	changes atomic.Uint64
}

// Lock takes it for a change.
func (l *tableLock) Lock() {
	l.RWMutex.Lock()
	l.changes.Add(1)
}

// change has fn change which queues serve.
func (l *tableLock) change(fn func()) {
	l.Lock()
	defer l.Unlock()
	fn()
}

// ChangeQueue changes some settings of a queue. change gets the present ones; if it returns an error, nothing changes.
func (e *Engine) ChangeQueue(ctx context.Context, name string, change func(*queue.Settings) error) (QueueInfo, error) {
	if err := oneShardOnly(name); err != nil {
		return QueueInfo{}, err
	}
	e.changing.Lock()
	defer e.changing.Unlock()
	q, settings, err := changed(e, name, change)
	if err != nil {
		return QueueInfo{}, err
	}
	return e.configure(ctx, q, settings)
}

// changed are the settings that a change leaves a queue with.
func changed(e *Engine, name string, change func(*queue.Settings) error) (q *Queue, settings queue.Settings, err error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if q = e.queues[name]; q == nil {
		return nil, settings, absentQueue(e, name)
	}
	settings = *q.config.Load()
	if err = change(&settings); err == nil {
		err = errors.Join(settings.Valid(), e.validDeadQueue(name, &settings))
	}
	return q, settings, err
}

// freeShard finds a shard number that no queue has and that left nothing behind, so that old ids stay unknown. It is the lowest one, or the
// highest: in a cluster, the coordinator gives the low ones to queues, and each node gives the high ones to further shards of its queues.
func (e *Engine) freeShard(highest bool) (queue.ShardID, error) {
	taken := e.nodes.taken(highest)
	for i := range queue.ShardID(queue.MaxShards) {
		id := i
		if highest {
			id = queue.MaxShards - 1 - i
		}
		if e.shards[id] != nil || e.quarantine.has(id) || taken[id] {
			continue
		}
		if unused, err := e.home.unused(id); err != nil || unused {
			return id, err
		}
	}
	return 0, &queue.Error{Code: queue.CodeConflict, Message: "All shard numbers are taken: delete a queue first."}
}

// discard closes a queue and removes its files.
func (e *Engine) discard(q *Queue) error {
	e.mu.change(func() {
		e.deleting = ""
		delete(e.queues, q.name)
		delete(e.shards, q.id)
	})
	e.metrics.forget(q.name)
	return errors.Join(q.close(), e.home.forget(q.row()))
}

// DeleteQueue removes a queue with its history. The queue must have no open submission, and must not be the default one. quarantined allows
// one in quarantine, with all that is in it.
func (e *Engine) DeleteQueue(ctx context.Context, name string, quarantined bool) error {
	if name == DefaultQueue && !quarantined {
		return &queue.Error{Code: queue.CodeConflict, Message: "The queue \"default\" always exists; its settings can be changed."}
	}
	e.mu.RLock()
	s := e.sharded[name]
	e.mu.RUnlock()
	if err := oneShardOnly(name); err != nil && !quarantined {
		return err
	}
	if s != nil && !quarantined {
		return s.delete(ctx)
	}
	err := deleteQueue(ctx, e, name, quarantined)
	if err == nil && quarantined {
		err = e.remake(ctx, name)
	}
	if err == nil && name == DefaultQueue && s == nil { // it comes back empty
		_, _, err = e.PutQueue(ctx, name, DefaultSettings(e))
	}
	return err
}

// deleteQueue holds e.mu only to look at the tables and to change them. Between, it may wait for the database, and other calls must not
// wait with it. Meanwhile the queue answers no calls: work that it took in would be lost.
func deleteQueue(ctx context.Context, e *Engine, name string, quarantined bool) (err error) {
	e.changing.Lock()
	defer e.changing.Unlock()
	e.forwards.doors.Lock()
	defer e.forwards.doors.Unlock()
	e.mu.RLock()
	q, aside := e.queues[name], e.quarantine.find(name)
	row := store.QueueRow{}
	switch {
	case aside != nil && quarantined:
		row = aside.QueueRow
	case q != nil:
		row = q.row()
	default:
		err = absentQueue(e, name)
	}
	e.mu.RUnlock()
	if err != nil {
		return err
	}
	release, err := e.nodes.keep(row)
	if err != nil {
		return err
	}
	defer release()
	if q == nil {
		return deleteAside(ctx, e, name)
	}
	open, again := q.shard.Stats().SubmissionsOpen, func() {}
	if open == 0 {
		open, again = shard.Retire(q.shard) // calls that have found the queue already insert nothing any more
	}
	e.mu.change(func() {
		if err = deletable(e, q, open, quarantined); err == nil {
			e.deleting = name
			delete(e.queues, name) // its shard stays, so that no one opens it
		}
	})
	if err != nil {
		again()
		return err
	}
	ended, err := forgetQueue(ctx, e, q)
	if err != nil && !ended {
		again()
		e.mu.change(func() {
			e.deleting = ""
			e.register(q)
		})
		return err
	}
	return errors.Join(err, e.discard(q), e.nodes.refresh())
}

// deletable says why a queue cannot be deleted. The caller holds e.mu and forwards.doors.
func deletable(e *Engine, q *Queue, open uint64, quarantined bool) error {
	if e.queues[q.name] != q {
		return absentQueue(e, q.name)
	}
	if quarantined {
		return &queue.Error{Code: queue.CodeConflict, Message: "The queue is not in quarantine: it is deleted without \"quarantined\"."}
	}
	if open > 0 {
		return &queue.Error{Code: queue.CodeConflict,
			Message: fmt.Sprintf("The queue has %d open submissions. Cancel them or let them end first.", open)}
	}
	return e.forwards.unforwarded(q)
}

// forgetQueue takes a queue out of the catalogue. It first copies its entries of the audit log there, which would go with its journal.
// ended: the journal has gone, so the queue never serves again. If the catalogue cannot be written then, the next node that claims the
// queue writes it.
func forgetQueue(ctx context.Context, e *Engine, q *Queue) (ended bool, err error) {
	if err := e.catalogue.PutActs(ctx, q.id, q.name, q.shard.Acts.Fresh()); err != nil {
		return false, err
	}
	row := q.row()
	if err := e.nodes.end(ctx, &row); err != nil {
		return false, err
	}
	return e.nodes != nil, dropQueue(ctx, e, row)
}

// dropQueue takes a queue out of the catalogue, unless that has been done already.
func dropQueue(ctx context.Context, e *Engine, row store.QueueRow) error {
	act := e.act(ctx, "", "queue.delete", row.Name, "")
	act.Change(queue.SettingsRow(row.Settings), nil)
	return e.catalogue.DeleteQueue(row, act)
}

func clip(text string, most int) string {
	if len(text) > most {
		return text[:most]
	}
	return text
}
