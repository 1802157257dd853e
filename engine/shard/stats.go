package shard

import "github.com/quern-queue/quern/engine/queue"

// Stats are the shard's numbers, all from maintained counters.
func (s *Shard) Stats() queue.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, c := s.m, &s.m.stats
	n := m.backlog.Amounts()
	stats := queue.Stats{
		Ready: n.Ready, Paused: n.Paused, Blocked: n.Blocked, Waiting: c.waiting + c.parked,
		Reserved: uint64(m.holds.Len()) - c.orphaned, Dead: c.dead,
		Done: c.completed, Skipped: c.skipped, DeadLetters: c.dead + c.endedLetters,
		Outgoing: uint64(m.forwarding.outbox.len()), ForwardedTotal: c.forwarded, ArrivedTotal: c.arrived,
		AgedTotal: c.aged, DamagedTotal: c.damaged, BulkTotal: c.bulk,
		OperationsReady: m.rules.operations(), SubmissionsOpen: uint64(m.backlog.Len()), ConsumersWaiting: uint64(len(s.waiters.all)),
		InsertedTotal: c.inserted, ReservedTotal: c.reserved, DoneTotal: c.done, FailedTotal: c.failed,
		LostTotal: s.roster.lost, RevokedTotal: s.roster.revoked, ConsumersAttached: uint64(s.roster.attached),
		ConsumersAway: uint64(s.roster.gone), Draining: m.settings.Draining,
		ExpiredTotal: c.expired, ReleasedTotal: c.released, SubmissionsInsertedTotal: c.submissions,
		SubmissionsEndedTotal: c.submissionEnd, EndedAs: c.endedAs, CommitsTotal: c.commits, CommitBytesTotal: c.commitBytes,
		Schedules: uint64(len(m.schedules.byName)), Ticks: c.schedules.ScheduleCounts, NextTick: m.schedules.nextTick(),
		JournalBytes: uint64(s.journal.Size()), StoreBytes: uint64(s.store.Size()), DiskFull: s.full.Load(),
		InsertsRefused: s.crowded,
		ViewBytes:      s.Views.counted.Views, QuestionViewBytes: s.Views.counted.Asked,
		ViewsRefused: s.Views.refused.views, QuestionsRefused: s.Views.refused.asked,
	}
	for action := range stats.RulesActive {
		stats.RulesActive[action] = uint64(m.rules.Count(queue.RuleAction(action)))
	}
	for _, b := range m.bulks.list {
		if b.at.State == queue.BulkRunning {
			stats.BulksRunning++
		}
	}
	for _, b := range []*batch{m.batch, s.writer.inflight} {
		if b != nil && b.begun {
			stats.OperationsWaiting += uint64(b.enc.Ops())
		}
	}
	if id, there := m.backlog.OldestAvailable(); there {
		stats.OldestReady = id.Time()
	}
	return stats
}

// Examined is how many submissions were looked at by all reserves so far: the measure of what a reservation costs.
func (s *Shard) Examined() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.backlog.Examined()
}
