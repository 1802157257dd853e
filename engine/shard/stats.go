package shard

import (
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
)

// Stats are the shard's numbers, all from maintained counters.
func (s *Shard) Stats() queue.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, c := s.m, &s.m.stats
	stats := queue.Stats{
		Ready: m.backlog.Available(), Waiting: c.waiting + c.parked, Reserved: uint64(m.holds.Len()) - c.orphaned, Dead: c.dead,
		Done: c.completed, Skipped: c.skipped, DeadLetters: c.dead + c.buried, Outgoing: uint64(m.outbox.len()), ForwardedTotal: c.forwarded, ArrivedTotal: c.arrived, BulkTotal: c.bulk,
		OperationsReady: c.operations, SubmissionsOpen: uint64(m.backlog.Len()), ConsumersWaiting: uint64(len(s.waiting)),
		InsertedTotal: c.inserted, ReservedTotal: c.reserved, DoneTotal: c.done, FailedTotal: c.failed,
		ExpiredTotal: c.expired, ReleasedTotal: c.released, SubmissionsInsertedTotal: c.submissions,
		SubmissionsEndedTotal: c.submissionEnd, CommitsTotal: c.commits, CommitBytesTotal: c.commitBytes,
		JournalBytes: uint64(s.journal.Size()), StoreBytes: uint64(s.store.Size()), DiskFull: s.full.Load(),
	}
	for _, b := range m.bulks.list {
		if b.at.State == queue.BulkRunning {
			stats.BulksRunning++
		}
	}
	if id, there := m.backlog.OldestAvailable(); there {
		stats.OldestReady = id.Time()
	}
	return stats
}

// Values calls fn for every value of a meta key, with its counts, until it returns false. The mutex is held meanwhile:
// keep fn short.
func (s *Shard) Values(key queue.MetaKey, fn func(backlog.ValueCount) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.backlog.Values(key, fn)
}

// Value is one value of a meta key with its counts, which are zero when no submission has it.
func (s *Shard) Value(entry queue.MetaEntry) backlog.ValueCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.backlog.Value(entry.Key, entry.Value)
}

// Keys lists the meta keys that submissions have, in no useful order.
func (s *Shard) Keys() (keys []queue.MetaKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.backlog.Keys(func(key queue.MetaKey) { keys = append(keys, key) })
	return keys
}

// SetValue changes what is demanded of one value of a meta key, from the next reservation on; what is in flight stays.
// queue.NoSettings() removes it. Consumers that wait are served what a raised limit lets them have.
func (s *Shard) SetValue(entry queue.MetaEntry, settings queue.ValueSettings) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.backlog.SetValue(entry.Key, entry.Value, settings)
	if s.usable() == nil {
		s.serve(now)
	}
}

// ValueSettings are what SetValue set last for a value.
func (s *Shard) ValueSettings(entry queue.MetaEntry) queue.ValueSettings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.backlog.ValueSettings(entry.Key, entry.Value)
}

// Examined is how many submissions were looked at by all reserves so far: the measure of what a reservation costs.
func (s *Shard) Examined() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.backlog.Examined()
}
