package engine

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
)

// describe lists all metrics that are read from the queues. docs/OPERATIONS.md has the same list for people.
func (m *metrics) describe() {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		m.descs = append(m.descs, prometheus.NewDesc(name, help, append([]string{"queue"}, labels...), nil))
		return m.descs[len(m.descs)-1]
	}
	m.planBytes = prometheus.NewDesc("quern_strategy_plans_bytes", "Memory of compiled strategies that are kept, an estimate.", nil, nil)
	m.planLimit = prometheus.NewDesc("quern_strategy_plans_limit_bytes",
		"Most memory of compiled strategies: over it all of them are compiled again as they are asked for.", nil, nil)
	m.descs = append(m.descs, m.planBytes, m.planLimit)
	m.waited = desc("quern_wait_seconds", "Time from a chunk's insert, or its run_at, to its first reservation, in seconds.")
	m.held = desc("quern_run_seconds", "Time from a reservation to its completion or failure, in seconds.")
	m.reserved = desc("quern_chunks_reserved_total", "Chunks handed out, by the name of the strategy: _inline if the "+
		"consumer spelled it out, _other beyond 100 names.", "strategy")
	m.empty = desc("quern_reserve_empty_total", "Reserves that came back with nothing, by reason.", "reason")
	m.examined = desc("quern_strategy_examined_total",
		"Submissions, combinations of values and candidates that reserves looked at, by block of the strategy.", "node")
	m.skipped = desc("quern_strategy_skipped_total", "Candidates that reserves examined but did not take, by block: "+
		"limited was at its limit and is set aside until that opens, redrawn is a random draw that hit nothing, "+
		"unwanted had no score.", "node", "reason")
	m.ended = desc("quern_submissions_ended_total", "Submissions that ended, by the state they ended in.", "state")

	m.quarantined = desc("quern_queue_quarantined", "1 when the queue does not serve because its files are damaged or missing, 0 when "+
		"it serves.")

	m.ledgers = desc("quern_fair_ledgers", "Fair ledgers: one for each Fair block in use, inside of another one for each tenant around it.")
	m.tenants = desc("quern_fair_tenants", "Tenants of the fair ledgers, by state: active compete, owing had more "+
		"than their share, blocked are under a limit.", "state")
	m.lag = desc("quern_fair_net_lag", "Sum of the lags of all tenants, in chunks (seconds where time is shared): "+
		"anything but 0 is a mistake of the server. Left out beyond 10,000 tenants.")
	m.mostLag = desc("quern_fair_max_lag", "The largest lag of any tenant, ahead or behind, in chunks (seconds where "+
		"time is shared). Left out beyond 10,000 tenants.")

	m.keyInFlight = desc("quern_key_in_flight", "Chunks in flight by value of a meta key, of the keys in "+
		"metric-keys: the values with most, and _other for the rest.", "meta_key", "value")
	m.keyBacklog = desc("quern_key_backlog",
		"Ready chunks by value of a meta key: of the same values as quern_key_in_flight.", "meta_key", "value")
	m.keyValues = desc("quern_key_values", "Values of a meta key that open submissions have, of the keys in metric-keys.", "meta_key")

	m.describeGauges()
	m.describeCounters()
}

func (m *metrics) plain(kind prometheus.ValueType, name, help string, value func(*queue.Stats, queue.Time) float64) {
	m.described = append(m.described, described{prometheus.NewDesc(name, help, []string{"queue"}, nil), kind, nil, value})
}

// word is one value of a label, and the number that it has.
type word struct {
	label string
	value func(*queue.Stats) uint64
}

func (m *metrics) labelled(kind prometheus.ValueType, name, help, label string, words ...word) {
	desc := prometheus.NewDesc(name, help, []string{"queue", label}, nil)
	for _, w := range words {
		value := w.value
		m.described = append(m.described,
			described{desc, kind, []string{w.label}, func(s *queue.Stats, _ queue.Time) float64 { return float64(value(s)) }})
	}
}

func (m *metrics) describeGauges() {
	gauge := func(name, help string, value func(*queue.Stats) uint64) {
		m.plain(prometheus.GaugeValue, name, help, func(s *queue.Stats, _ queue.Time) float64 { return float64(value(s)) })
	}
	m.labelled(prometheus.GaugeValue, "quern_chunks", "Chunks that are not finished, by state.", "state",
		word{"ready", func(s *queue.Stats) uint64 { return s.Ready }},
		word{"paused", func(s *queue.Stats) uint64 { return s.Paused }},
		word{"blocked", func(s *queue.Stats) uint64 { return s.Blocked }},
		word{"waiting", func(s *queue.Stats) uint64 { return s.Waiting }},
		word{"reserved", func(s *queue.Stats) uint64 { return s.Reserved }},
		word{"dead", func(s *queue.Stats) uint64 { return s.Dead }})
	m.labelled(prometheus.GaugeValue, "quern_submissions", "Submissions, by state.", "state",
		word{"open", func(s *queue.Stats) uint64 { return s.SubmissionsOpen }})
	gauge("quern_reservations", "Chunks held by consumers.", func(s *queue.Stats) uint64 { return s.Reserved })
	gauge("quern_consumers_attached", "Consumers that have a stream open.", func(s *queue.Stats) uint64 { return s.ConsumersAttached })
	gauge("quern_reserve_waiters", "Reserve calls that wait for work.", func(s *queue.Stats) uint64 { return s.ConsumersWaiting })
	m.labelled(prometheus.GaugeValue, "quern_consumers",
		"Attached consumers, by state. Those that are away lost their streams and may still come back.", "state",
		word{"attached", func(s *queue.Stats) uint64 { return s.ConsumersAttached }},
		word{"away", func(s *queue.Stats) uint64 { return s.ConsumersAway }})
	m.labelled(prometheus.GaugeValue, "quern_rules_active", "Rules in force, by action.", "action",
		word{queue.Pause.String(), func(s *queue.Stats) uint64 { return s.RulesActive[queue.Pause] }},
		word{queue.Block.String(), func(s *queue.Stats) uint64 { return s.RulesActive[queue.Block] }})
	gauge("quern_dead_letters", "Dead chunks that can be redriven, including those of ended submissions.",
		func(s *queue.Stats) uint64 { return s.DeadLetters })
	gauge("quern_dead_letters_outgoing", "Dead letters on their way to another queue.", func(s *queue.Stats) uint64 { return s.Outgoing })
	m.labelled(prometheus.GaugeValue, "quern_bulk_operations", "Bulk operations, by state.", "state",
		word{"running", func(s *queue.Stats) uint64 { return s.BulkOperationsRunning }})
	gauge("quern_writer_queue_depth", "Journal operations that are not committed yet.",
		func(s *queue.Stats) uint64 { return s.OperationsWaiting })
	gauge("quern_journal_bytes", "Size of the journal file, in bytes.", func(s *queue.Stats) uint64 { return s.JournalBytes })
	gauge("quern_shard_bytes", "Size of the store file, in bytes.", func(s *queue.Stats) uint64 { return s.StoreBytes })
	gauge("quern_idempotency_keys", "Idempotency keys that are known.", func(s *queue.Stats) uint64 { return s.Keys })
	gauge("quern_idempotency_keys_limit", "Most idempotency keys that may be known: beyond it inserts with a new key are refused.",
		func(s *queue.Stats) uint64 { return s.KeysMost })
	gauge("quern_unique_keys", "Unique keys that submissions hold.", func(s *queue.Stats) uint64 { return s.UniqueKeys })
	gauge("quern_rates", "Rates of MaxRate that the queue knows.", func(s *queue.Stats) uint64 { return s.Rates.Known })
	gauge("quern_rates_limit", "Most rates that it may know: beyond it, strategies with a new one are refused.",
		func(*queue.Stats) uint64 { return uint64(backlog.MostRates) })
	gauge("quern_rate_values", "Values that wait for a rate, or were reserved faster than it allows and wait later for that.",
		func(s *queue.Stats) uint64 { return s.Rates.Values })
	gauge("quern_unsaved_bytes", "Contents and outputs that wait in memory for a checkpoint, in bytes. The journal has them.",
		func(s *queue.Stats) uint64 { return s.Unsaved })
	gauge("quern_unsaved_limit_bytes", "Most of them: beyond it, completions with outputs wait for a checkpoint.",
		func(s *queue.Stats) uint64 { return s.UnsavedMost })
	gauge("quern_disk_full", "1 while inserts are refused for want of room.", func(s *queue.Stats) uint64 { return uint64(s.DiskFull) })
	m.labelled(prometheus.GaugeValue, "quern_view_bytes", "Memory that the indexes of strategies take, in bytes: of "+
		"strategies that are reserved by, and of those that only questions (preview, explain, why, compare) are "+
		"about. The option view-memory bounds it.", "of",
		word{"reserves", func(s *queue.Stats) uint64 { return s.ViewBytes }},
		word{"questions", func(s *queue.Stats) uint64 { return s.QuestionViewBytes }})
	m.labelled(prometheus.GaugeValue, "quern_forecast_values", "Values at their limits, or lately there, by how forecasts take them: "+
		"paced by their own pace, unpaced as part of the rest, as 256 others were at their limits first.", "state",
		word{"paced", func(s *queue.Stats) uint64 { return s.Paced }},
		word{"unpaced", func(s *queue.Stats) uint64 { return s.Unpaced }})
	gauge("quern_schedules", "Schedules, in whatever state.", func(s *queue.Stats) uint64 { return s.Schedules })
	m.plain(prometheus.GaugeValue, "quern_schedule_lag_seconds", "How long the oldest tick is due that nothing but "+
		"the server keeps from being emitted, in seconds.", func(s *queue.Stats, now queue.Time) float64 {
		if s.NextTick == 0 {
			return 0
		}
		return max(now.Sub(s.NextTick).Seconds(), 0)
	})
	m.plain(prometheus.GaugeValue, "quern_oldest_available_seconds",
		"Age of the oldest submission with a ready chunk, in seconds.",
		func(s *queue.Stats, _ queue.Time) float64 { return s.OldestReadySeconds })
}

func (m *metrics) describeCounters() {
	counter := func(name, help string, value func(*queue.Stats) uint64) {
		m.plain(prometheus.CounterValue, name, help, func(s *queue.Stats, _ queue.Time) float64 { return float64(value(s)) })
	}
	m.labelled(prometheus.CounterValue, "quern_chunks_finished_total", "Tries that ended, by outcome.", "outcome",
		word{"completed", func(s *queue.Stats) uint64 { return s.DoneTotal }},
		word{"failed", func(s *queue.Stats) uint64 { return s.FailedTotal }},
		word{"expired", func(s *queue.Stats) uint64 { return s.ExpiredTotal }},
		word{"lost", func(s *queue.Stats) uint64 { return s.LostTotal }},
		word{"released", func(s *queue.Stats) uint64 { return s.ReleasedTotal }})
	m.labelled(prometheus.CounterValue, "quern_schedule_ticks_total", "Ticks of schedules, by what became of them: "+
		"emitted, dropped by missed (skip or once), late (beyond the limit or window of all) or overlap.", "outcome",
		word{"emitted", func(s *queue.Stats) uint64 { return s.Ticks.Emitted }},
		word{"missed", func(s *queue.Stats) uint64 { return s.Ticks.Missed }},
		word{"late", func(s *queue.Stats) uint64 { return s.Ticks.Late }},
		word{"overlap", func(s *queue.Stats) uint64 { return s.Ticks.Overlapped }})
	m.labelled(prometheus.CounterValue, "quern_views_refused_total",
		"Calls that were refused because there was no memory for the index of their strategy.", "of",
		word{"reserves", func(s *queue.Stats) uint64 { return s.ViewsRefused }},
		word{"questions", func(s *queue.Stats) uint64 { return s.QuestionsRefused }})
	counter("quern_inserts_refused_total", "Inserts that were refused because as many submissions are open as the "+
		"option max-live-submissions allows.", func(s *queue.Stats) uint64 { return s.InsertsRefused })
	counter("quern_idempotency_keys_refused_total", "Inserts that were refused because the queue knows as many idempotency keys as it may.",
		func(s *queue.Stats) uint64 { return s.KeysRefused })
	counter("quern_unique_existing_total", "Inserts that made nothing because another submission held their unique key.",
		func(s *queue.Stats) uint64 { return s.UniqueKept })
	counter("quern_unique_replaced_total", "Submissions that an insert with the same unique key replaced.",
		func(s *queue.Stats) uint64 { return s.UniqueReplaced })
	counter("quern_unique_keys_refused_total", "Inserts that were refused because as many unique keys are held for a time as may be.",
		func(s *queue.Stats) uint64 { return s.UniqueRefused })
	counter("quern_rates_refused_total", "Strategies that were refused because as many rates are known as may be.",
		func(s *queue.Stats) uint64 { return s.Rates.Refused })
	counter("quern_rate_values_forgotten_total", "Values without submissions that rates forgot because there were too "+
		"many: those that come again wait as if they had just been used.", func(s *queue.Stats) uint64 { return s.Rates.Forgotten })
	counter("quern_reports_dropped_total", "Progress and notes of consumers that the queue did not keep because others took all of "+
		"their 24 MiB.", func(s *queue.Stats) uint64 { return s.Unreported })
	counter("quern_chunks_inserted_total", "Chunks inserted.", func(s *queue.Stats) uint64 { return s.InsertedTotal })
	counter("quern_submissions_inserted_total", "Submissions inserted.", func(s *queue.Stats) uint64 { return s.SubmissionsInsertedTotal })
	counter("quern_reservations_lost_total", "Reservations that ended because their consumer was lost.",
		func(s *queue.Stats) uint64 { return s.LostTotal })
	counter("quern_reservations_revoked_total",
		"Reservations that were taken from attached consumers, which were told so.", func(s *queue.Stats) uint64 { return s.RevokedTotal })
	counter("quern_reservations_expired_total", "Reservations whose deadline passed.",
		func(s *queue.Stats) uint64 { return s.ExpiredTotal })
	counter("quern_chunks_damaged_total", "Chunks that were set aside as dead letters because their content could "+
		"not be read.", func(s *queue.Stats) uint64 { return s.DamagedTotal })
	counter("quern_dead_letters_aged_total", "Dead letters given up because they were older than the queue's "+
		"dead_retention_seconds.", func(s *queue.Stats) uint64 { return s.AgedTotal })
	counter("quern_dead_letters_forwarded_total", "Dead letters that went on to another queue.",
		func(s *queue.Stats) uint64 { return s.ForwardedTotal })
	counter("quern_dead_letters_arrived_total", "Submissions that came as dead letters of another queue.",
		func(s *queue.Stats) uint64 { return s.ArrivedTotal })
	m.labelled(prometheus.CounterValue, "quern_bulk_outcomes_total", "What came of what bulk operations met.", "outcome",
		word{"done", func(s *queue.Stats) uint64 { return s.BulkTotal.Done }},
		word{"unchanged", func(s *queue.Stats) uint64 { return s.BulkTotal.Unchanged }},
		word{"refused", func(s *queue.Stats) uint64 { return s.BulkTotal.Refused }})
	counter("quern_writer_commits_total", "Journal commits.", func(s *queue.Stats) uint64 { return s.CommitsTotal })
}
