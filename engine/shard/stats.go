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
	n := m.backlog.Amounts()
	stats := queue.Stats{
		Ready: n.Ready, Paused: n.Paused, Blocked: n.Blocked, Waiting: c.waiting + c.parked,
		Reserved: uint64(m.holds.Len()) - c.orphaned, Dead: c.dead,
		Done: c.completed, Skipped: c.skipped, DeadLetters: c.dead + c.buried,
		Outgoing: uint64(m.forwarding.outbox.len()), ForwardedTotal: c.forwarded, ArrivedTotal: c.arrived,
		AgedTotal: c.aged, DamagedTotal: c.damaged, BulkTotal: c.bulk,
		OperationsReady: m.rules.operations(), SubmissionsOpen: uint64(m.backlog.Len()), ConsumersWaiting: uint64(len(s.waiting)),
		InsertedTotal: c.inserted, ReservedTotal: c.reserved, DoneTotal: c.done, FailedTotal: c.failed,
		LostTotal: s.roster.lost, RevokedTotal: s.roster.revoked, ConsumersAttached: uint64(s.roster.attached),
		ConsumersAway: uint64(s.roster.gone), Draining: m.settings.Draining,
		ExpiredTotal: c.expired, ReleasedTotal: c.released, SubmissionsInsertedTotal: c.submissions,
		SubmissionsEndedTotal: c.submissionEnd, EndedAs: c.endedAs, CommitsTotal: c.commits, CommitBytesTotal: c.commitBytes,
		Schedules: uint64(len(m.schedules.byName)), Ticks: c.schedules.ScheduleCounts, NextTick: m.schedules.nextTick(),
		JournalBytes: uint64(s.journal.Size()), StoreBytes: uint64(s.store.Size()), DiskFull: s.full.Load(),
		InsertsRefused: s.crowded,
		ViewBytes:      s.viewed.Views, QuestionViewBytes: s.viewed.Asked, ViewsRefused: s.refused.views, QuestionsRefused: s.refused.asked,
	}
	for action := range stats.RulesActive {
		stats.RulesActive[action] = uint64(m.rules.Count(queue.RuleAction(action)))
	}
	for _, b := range m.bulks.list {
		if b.at.State == queue.BulkRunning {
			stats.BulksRunning++
		}
	}
	for _, b := range []*batch{m.batch, s.inflight} {
		if b != nil && b.begun {
			stats.OperationsWaiting += uint64(b.enc.Ops())
		}
	}
	if id, there := m.backlog.OldestAvailable(); there {
		stats.OldestReady = id.Time()
	}
	return stats
}

// valueSlice is how many values of a key one hold of the mutex copies.
const valueSlice = 1000

// Values appends the values of a meta key with their counts, in no useful order: each once, `most` of them at most. whole says
// that there are no more. They are copied in slices, between which everybody else has a turn, so that the counts are of several
// moments: values that come or go meanwhile may be missing.
func (s *Shard) Values(key queue.MetaKey, most int, dst []backlog.ValueCount) (list []backlog.ValueCount, whole bool) {
	from := len(dst)
	var walk backlog.ValueWalk
	for more := true; more; {
		room := most - (len(dst) - from)
		if room <= 0 {
			break
		}
		s.mu.Lock()
		more = s.m.backlog.WalkValues(key, &walk, min(room, valueSlice), func(v backlog.ValueCount) { dst = append(dst, v) })
		s.mu.Unlock()
		whole = !more
	}
	if walk.Twice {
		dst = dst[:from+len(distinct(dst[from:]))]
	}
	return dst, whole
}

// distinct keeps the last count of each value, as it is the newest.
func distinct(list []backlog.ValueCount) []backlog.ValueCount {
	place := make(map[queue.MetaValue]int, len(list))
	keep := list[:0]
	for _, v := range list {
		if at, known := place[v.Value]; known {
			keep[at] = v
			continue
		}
		place[v.Value] = len(keep)
		keep = append(keep, v)
	}
	return keep
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
	s.m.setValue(entry, settings)
	if s.usable() == nil {
		s.serve(now)
	}
}

// ValueSettings are what SetValue set last for a value.
func (s *Shard) ValueSettings(entry queue.MetaEntry) queue.ValueSettings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.valueSettings(entry)
}

// Examined is how many submissions were looked at by all reserves so far: the measure of what a reservation costs.
func (s *Shard) Examined() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.backlog.Examined()
}
