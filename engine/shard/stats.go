package shard

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/sdk/api"
)

// Stats are the shard's numbers, all from maintained counters. All are of one moment, as they are read under one hold
// of the mutex; the length of that hold does not depend on the backlog.
func (s *Shard) Stats() (stats queue.Stats) {
	now := s.now()
	s.mu.held(func() { stats = s.stats(now) })
	return stats
}

// stats is Stats with the mutex held.
func (s *Shard) stats(now queue.Time) queue.Stats {
	m, c, schedules := s.m, &s.m.Stats, s.parts.schedules
	n := m.Backlog.Rules.Amounts()
	rates := m.Backlog.Values.Rates.Stats()
	stats := queue.Stats{
		Stats: api.Stats{
			Ready: n.Ready, Paused: n.Paused, Blocked: n.Blocked, Waiting: c.Waiting + c.Parked, Retrying: c.Waiting,
			// Orphaned reservations are of submissions that have ended: no work is behind them.
			Reserved: uint64(m.Holds.Len()) - c.Orphaned, Dead: c.Dead,
			Done: c.Completed, Skipped: c.Skipped, DeadLetters: c.Dead + c.EndedLetters,
			Outgoing: uint64(s.parts.letters.Outbox.Len()), ForwardedTotal: c.Forwarded, ArrivedTotal: c.Arrived,
			OperationsReady: m.Stats.OperationsReady(m.Backlog),
			SubmissionsOpen: uint64(m.Backlog.Len()), ConsumersWaiting: uint64(s.waiters.Len()),
			InsertedTotal: c.Inserted, ReservedTotal: c.Reserved, DoneTotal: c.Done, FailedTotal: c.Failed,
			ExpiredTotal: c.Expired, ReleasedTotal: c.Released, SubmissionsInsertedTotal: c.Submissions,
			LostTotal: s.roster.Lost, RevokedTotal: s.roster.Revoked, ConsumersAttached: uint64(s.roster.Attached),
			SubmissionsEndedTotal: c.SubmissionEnd, CommitsTotal: c.Commits, CommitBytesTotal: c.CommitBytes,
			Draining: oneIf(m.Settings.Draining), Empty: oneIf(m.Backlog.Len() == 0), DiskFull: oneIf(s.full.Load()),
			MemoryFull:   oneIf(s.options.Live.MemoryFull()),
			JournalBytes: uint64(s.writer.journal.Size()), StoreBytes: uint64(s.store.Size()),
		},
		AgedTotal: c.Aged, DamagedTotal: c.Damaged, BulkTotal: s.parts.bulks.Totals, EndedAs: c.EndedAs,
		ConsumersAway: uint64(s.roster.Gone),
		Schedules:     uint64(len(schedules.ByName)), Ticks: schedules.Totals.ScheduleCounts,
		NextTick: schedules.NextTick(),
		Unsaved:  uint64(s.store.Memtable.Bytes()), UnsavedMost: uint64(s.contents.Most()),
		Keys: uint64(s.keys.Len(m)), KeysMost: uint64(s.store.Keys.Most), KeysRefused: s.keys.Refused,
		UniqueKeys: uint64(m.Uniques.Len(now)), UniqueKept: m.Uniques.Kept, UniqueReplaced: m.Uniques.Replaced,
		UniqueRefused:  m.Uniques.Refused,
		InsertsRefused: s.inserts.Crowded, ViewBytes: s.Views.Counted.Views, QuestionViewBytes: s.Views.Counted.Asked,
		Rates:        rates,
		Unreported:   m.Holds.Unreported,
		ViewsRefused: s.Views.Refused.Views, QuestionsRefused: s.Views.Refused.Asked,
	}
	for action := range stats.RulesActive {
		stats.RulesActive[action] = uint64(s.parts.rules.Count(queue.RuleAction(action)))
	}
	for _, b := range s.parts.bulks.List {
		if b.At.State == queue.BulkRunning {
			stats.BulkOperationsRunning++
		}
	}
	for _, b := range []*machine.Batch{m.Batch, s.writer.inflight} {
		if b != nil && b.Begun {
			stats.OperationsWaiting += uint64(b.Enc.Ops())
		}
	}
	if id, there := m.Backlog.OldestAvailable(); there {
		stats.OldestReadySeconds = max(0, now.Sub(id.Time()).Seconds())
	}
	return stats
}

// oneIf is 1 for true, as a scaler reads it.
func oneIf(is bool) uint8 {
	if is {
		return 1
	}
	return 0
}

// Examined is the number of submissions that all reserves have examined so far. It
// measures the cost of a reservation.
func (s *Shard) Examined() (n uint64) {
	(*doors)(s).Look(func(m *machine.Machine) { n = m.Backlog.Examined() })
	return n
}
