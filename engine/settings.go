package engine

import (
	"context"
	"maps"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

// The settings that operators make for a queue are in the journal of its shard. This file keeps them in a form in which calls can look them
// up without the shard's mutex.

// set takes over settings from the shard; with all, there are no others. The shard's mutex is held.
func (q *Queue) set(list []journal.Set, all bool) {
	named := maps.Clone(q.named.all())
	if named == nil || all {
		named = map[string]*namedStrategy{}
	}
	if all {
		q.values.clear()
	}
	for i := range list {
		switch set := &list[i]; set.Kind {
		case journal.SetQueue:
			if settings, err := queue.SettingsOf(set.Settings); err == nil { // else the shard has refused them
				q.config.Store(&settings)
			}
		case journal.SetValue, journal.SetKey:
			q.values.set(set.Target(), ValueSettings{ValueSettings: set.Demand, Version: set.Version, Changed: set.Changed})
			q.frames.full.drop(set.Target())
		case journal.SetStrategy:
			if named[set.Name] = q.namedOf(set); set.Version == 0 {
				delete(named, set.Name)
			}
		}
	}
	q.named.byName.Store(&named)
}

// adopt has the journal of a new queue take its settings over from the catalogue.
func (q *Queue) adopt() error {
	if q.shard.Settings.Known() {
		return nil
	}
	return q.shard.Settings.Put(&journal.Set{Kind: journal.SetQueue, Changed: q.created, Settings: q.config.Load().Row()}, nil, nil)
}

// DefaultSettings is the configuration of a queue that sets nothing. In a cluster, owners change while consumers work. So the next owner of
// a queue waits for consumers to extend their reservations before it hands out chunks that a limit counts.
func DefaultSettings(e *Engine) queue.Settings {
	s := queue.DefaultSettings()
	if e.options.Cluster != nil {
		s.RestartGrace = queue.ClusterRestartGrace
	}
	return s
}

// configure gives a queue other settings. Settings that are the same as before change nothing, and are not in the audit log. The caller
// holds e.changing.
func (e *Engine) configure(ctx context.Context, q *Queue, settings queue.Settings) (QueueInfo, error) {
	if settings.Shards != q.config.Load().Shards {
		if err := e.split(ctx, q, settings); err != nil {
			return QueueInfo{}, err
		}
	}
	if settings.Shards > 1 && settings.Quota() != (queue.Quota{}) {
		return QueueInfo{}, errQuotaOfShards
	}
	put := q.putSettings
	if many := q.many.Load(); many != nil {
		put = many.configure
	}
	if err := put(ctx, settings); err != nil {
		return QueueInfo{}, err
	}
	return q.info(), nil
}

// putSettings gives one shard other settings.
func (q *Queue) putSettings(ctx context.Context, settings queue.Settings) error {
	now := *q.config.Load()
	if settings == now {
		return nil
	}
	set := journal.Set{Kind: journal.SetQueue, Changed: queue.At(q.e.options.Now()), Settings: settings.Row()}
	err := q.shard.Settings.Put(&set, queue.SettingsRow(now), queue.SettingsRow(settings), q.act(ctx, "", "queue.change", ""))
	if err == nil {
		q.e.noteSettings(q)
	}
	return err
}

// noteSettings brings the catalogue's copy of the settings up to date. If it fails, the next start does it.
func (e *Engine) noteSettings(q *Queue) {
	if err := store.SetQueue(e.catalogue, q.row()); err != nil {
		e.options.Logger.Warn("the catalogue's copy of a queue's settings could not be written; the next start does it",
			"queue", q.name, "error", err)
	}
}
