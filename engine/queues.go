package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/store"
)

// This file creates, changes and deletes queues.

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
		if settings.MaxShards > 0 { // a file of settings from before the server added shards does not mean to remove them
			settings.Shards = max(settings.Shards, q.config.Load().Shards)
		}
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
			Message: "The queue has " + queue.Exactly(open, "open submission") + ". A queue can be deleted when none is open."}
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
