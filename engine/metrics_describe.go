package engine

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
)

// describe lists all metrics that are read from the queues. docs/METRICS.md has the same list for people.
func (m *metrics) describe() {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		m.descs = append(m.descs, prometheus.NewDesc(name, help, append([]string{"queue"}, labels...), nil))
		return m.descs[len(m.descs)-1]
	}
	m.planBytes = prometheus.NewDesc("quern_strategy_plans_bytes",
		"Estimated memory of compiled strategies, in bytes.", nil, nil)
	m.planLimit = prometheus.NewDesc("quern_strategy_plans_limit_bytes",
		"Maximum memory of compiled strategies, in bytes. Above it, the server drops all of them, and compiles each "+
			"one again when it is used.", nil, nil)
	m.memoryUsed = prometheus.NewDesc("quern_memory_used_bytes",
		"Memory of the process in bytes, without the garbage on Go's heap.", nil, nil)
	m.memoryLimit = prometheus.NewDesc("quern_memory_limit_bytes",
		"Memory of the process above which the server refuses inserts, in bytes; 0: none.", nil, nil)
	m.descs = append(m.descs, m.planBytes, m.planLimit, m.memoryUsed, m.memoryLimit)
	m.reserve = desc("quern_reserve_seconds", "Duration of a reserve in seconds, without its wait for work.")
	m.waited = desc("quern_wait_seconds",
		"Time from the insert of a chunk, or its run_at, to its first reservation in seconds.")
	m.held = desc("quern_run_seconds", "Time from a reservation to its completion or failure in seconds.")
	m.reserved = desc("quern_chunks_reserved_total",
		"Total number of reserved chunks, by name of the strategy: _inline if the consumer sent its text, "+
			"_other beyond 100 names.", "strategy")
	m.empty = desc("quern_reserve_empty_total", "Total number of reserves that returned no chunk, by reason.", "reason")
	m.examined = desc("quern_strategy_examined_total",
		"Total number of candidates that reserves examined, by block of the strategy.", "node")
	m.skipped = desc("quern_strategy_skipped_total",
		"Total number of candidates that reserves examined and did not take, by block and reason: limited (its value "+
			"is at a limit), redrawn (a random draw hit nothing) or unwanted (it has no score).", "node", "reason")
	m.ended = desc("quern_submissions_ended_total", "Total number of submissions that ended, by final state.", "state")

	m.quarantined = desc("quern_queue_quarantined",
		"1 if the queue does not serve because its files are damaged or missing, 0 if it serves.")

	m.overrun = desc("quern_shards_overrun",
		"1 if all shards of the queue that take new groups are full (groups_per_shard), so that new groups go to full "+
			"ones, 0 otherwise. In a cluster, the node of the first shard has it.")

	m.ledgers = desc("quern_fair_ledgers",
		"Number of ledgers of Fair blocks in use. A Fair inside another has a ledger for each tenant of the outer "+
			"one.")
	m.tenants = desc("quern_fair_tenants",
		"Number of tenants in the ledgers of Fair, by state: active (has work), owing (has no work, and had more than "+
			"its share) or blocked (at a limit).", "state")
	m.lag = desc("quern_fair_net_lag",
		"Sum of the lags of all tenants, in chunks, or in seconds if the tenants share time. Any value but 0 is a bug "+
			"in the server. Absent beyond 10,000 tenants.")
	m.mostLag = desc("quern_fair_max_lag",
		"Largest lag of a tenant, ahead or behind, in chunks, or in seconds if the tenants share time. Absent beyond "+
			"10,000 tenants.")

	m.keyInFlight = desc("quern_key_in_flight",
		"Number of chunks in flight by value of the meta keys in metric-keys: the values with the most, and _other "+
			"for the rest.", "meta_key", "value")
	m.keyBacklog = desc("quern_key_backlog",
		"Number of ready chunks by value of the meta keys in metric-keys: the values with the most, and _other "+
			"for the rest.", "meta_key", "value")
	m.keyOldest = desc("quern_key_oldest_ready_seconds",
		"Age of the oldest submission with a ready chunk by value of the meta keys in metric-keys, in seconds: the "+
			"values with the oldest.", "meta_key", "value")
	m.keyValues = desc("quern_key_values",
		"Number of values that open submissions have for each of the meta keys in metric-keys.", "meta_key")

	m.describeWork()
	m.describeRoom()
	m.describeFlow()
	m.describeRefusals()
}

func (m *metrics) plain(kind prometheus.ValueType, name, help string, value func(*queue.Stats, queue.Time) float64) {
	m.described = append(m.described, described{prometheus.NewDesc(name, help, []string{"queue"}, nil), kind, nil, value})
}

func (m *metrics) gauge(name, help string, value func(*queue.Stats) uint64) {
	m.plain(prometheus.GaugeValue, name, help, func(s *queue.Stats, _ queue.Time) float64 { return float64(value(s)) })
}

func (m *metrics) counter(name, help string, value func(*queue.Stats) uint64) {
	m.plain(prometheus.CounterValue, name, help, func(s *queue.Stats, _ queue.Time) float64 { return float64(value(s)) })
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

// describeWork lists the gauges of a queue's work.
func (m *metrics) describeWork() {
	m.labelled(prometheus.GaugeValue, "quern_chunks", "Number of unfinished chunks by state.", "state",
		word{"ready", func(s *queue.Stats) uint64 { return s.Ready }},
		word{"paused", func(s *queue.Stats) uint64 { return s.Paused }},
		word{"blocked", func(s *queue.Stats) uint64 { return s.Blocked }},
		word{"waiting", func(s *queue.Stats) uint64 { return s.Waiting }},
		word{"reserved", func(s *queue.Stats) uint64 { return s.Reserved }},
		word{"dead", func(s *queue.Stats) uint64 { return s.Dead }})
	m.labelled(prometheus.GaugeValue, "quern_submissions", "Number of submissions by state.", "state",
		word{"open", func(s *queue.Stats) uint64 { return s.SubmissionsOpen }})
	m.gauge("quern_reservations",
		"Number of chunks that consumers hold.", func(s *queue.Stats) uint64 { return s.Reserved })
	m.gauge("quern_consumers_attached",
		"Number of consumers with an open stream.", func(s *queue.Stats) uint64 { return s.ConsumersAttached })
	m.gauge("quern_reserve_waiters",
		"Number of reserve calls that wait for work.", func(s *queue.Stats) uint64 { return s.ConsumersWaiting })
	m.labelled(prometheus.GaugeValue, "quern_consumers",
		"Number of consumers by state: attached, or away if their stream ended and they may come back.", "state",
		word{"attached", func(s *queue.Stats) uint64 { return s.ConsumersAttached }},
		word{"away", func(s *queue.Stats) uint64 { return s.ConsumersAway }})
	m.labelled(prometheus.GaugeValue, "quern_rules_active", "Number of active rules by action.", "action",
		word{queue.Pause.String(), func(s *queue.Stats) uint64 { return s.RulesActive[queue.Pause] }},
		word{queue.Block.String(), func(s *queue.Stats) uint64 { return s.RulesActive[queue.Block] }})
	m.gauge("quern_dead_letters", "Number of dead chunks that can be redriven, including those of ended submissions.",
		func(s *queue.Stats) uint64 { return s.DeadLetters })
	m.gauge("quern_dead_letters_outgoing",
		"Number of dead letters on their way to another queue.", func(s *queue.Stats) uint64 { return s.Outgoing })
	m.labelled(prometheus.GaugeValue, "quern_bulk_operations", "Number of bulk operations by state.", "state",
		word{"running", func(s *queue.Stats) uint64 { return s.BulkOperationsRunning }})
	m.gauge("quern_schedules", "Number of schedules in any state.", func(s *queue.Stats) uint64 { return s.Schedules })
	m.plain(prometheus.GaugeValue, "quern_schedule_lag_seconds",
		"Time since the oldest tick became due that waits only for the server, in seconds.",
		func(s *queue.Stats, now queue.Time) float64 {
			if s.NextTick == 0 {
				return 0
			}
			return max(now.Sub(s.NextTick).Seconds(), 0)
		})
	m.plain(prometheus.GaugeValue, "quern_oldest_available_seconds",
		"Age of the oldest submission with a ready chunk in seconds.",
		func(s *queue.Stats, _ queue.Time) float64 { return s.OldestReadySeconds })
}

// describeRoom lists the gauges of keys, memory and disk, with their limits.
func (m *metrics) describeRoom() {
	m.gauge("quern_writer_queue_depth", "Number of journal operations that wait for their commit.",
		func(s *queue.Stats) uint64 { return s.OperationsWaiting })
	m.gauge("quern_journal_bytes",
		"Size of the journal file in bytes.", func(s *queue.Stats) uint64 { return s.JournalBytes })
	m.gauge("quern_shard_bytes", "Size of the store file in bytes.", func(s *queue.Stats) uint64 { return s.StoreBytes })
	m.gauge("quern_idempotency_keys",
		"Number of idempotency keys that the queue remembers.", func(s *queue.Stats) uint64 { return s.Keys })
	m.gauge("quern_idempotency_keys_limit",
		"Maximum number of idempotency keys. Above it, the queue refuses inserts with a new key.",
		func(s *queue.Stats) uint64 { return s.KeysMost })
	m.gauge("quern_unique_keys",
		"Number of unique keys that submissions hold.", func(s *queue.Stats) uint64 { return s.UniqueKeys })
	m.gauge("quern_rates",
		"Number of different rates of MaxRate blocks that the queue knows.",
		func(s *queue.Stats) uint64 { return s.Rates.Known })
	m.gauge("quern_rates_limit", "Maximum number of rates. Above it, the queue refuses strategies with a new rate.",
		func(*queue.Stats) uint64 { return uint64(backlog.MostRates) })
	m.gauge("quern_rate_values", "Number of values that a rate delays now, or that have used part of their burst.",
		func(s *queue.Stats) uint64 { return s.Rates.Values })
	m.gauge("quern_unsaved_bytes",
		"Size of the contents and outputs that are in memory until a checkpoint, in bytes. The journal has them, too.",
		func(s *queue.Stats) uint64 { return s.Unsaved })
	m.gauge("quern_unsaved_limit_bytes",
		"Maximum size of unsaved contents and outputs, in bytes. Above it, inserts with contents and completions with "+
			"outputs wait for a checkpoint.",
		func(s *queue.Stats) uint64 { return s.UnsavedMost })
	m.gauge("quern_disk_full",
		"1 while the server refuses inserts because the disk is full.",
		func(s *queue.Stats) uint64 { return uint64(s.DiskFull) })
	m.labelled(prometheus.GaugeValue, "quern_view_bytes",
		"Memory of the indexes of strategies in bytes, by use: reserves, or questions (preview, explain, why and "+
			"compare). The option view-memory limits it.", "of",
		word{"reserves", func(s *queue.Stats) uint64 { return s.ViewBytes }},
		word{"questions", func(s *queue.Stats) uint64 { return s.QuestionViewBytes }})
	m.labelled(prometheus.GaugeValue, "quern_forecast_values",
		"Number of values that are or recently were at their limit, by state: paced (the forecast uses the pace of "+
			"the value) or unpaced (it treats the value as if it had no limit).", "state",
		word{"paced", func(s *queue.Stats) uint64 { return s.Paced }},
		word{"unpaced", func(s *queue.Stats) uint64 { return s.Unpaced }})
}

// describeFlow lists the counters of a queue's work.
func (m *metrics) describeFlow() {
	m.labelled(prometheus.CounterValue, "quern_chunks_finished_total",
		"Total number of attempts that ended, by outcome.", "outcome",
		word{"completed", func(s *queue.Stats) uint64 { return s.DoneTotal }},
		word{"failed", func(s *queue.Stats) uint64 { return s.FailedTotal }},
		word{"expired", func(s *queue.Stats) uint64 { return s.ExpiredTotal }},
		word{"lost", func(s *queue.Stats) uint64 { return s.LostTotal }},
		word{"released", func(s *queue.Stats) uint64 { return s.ReleasedTotal }})
	m.labelled(prometheus.CounterValue, "quern_schedule_ticks_total",
		"Total number of schedule ticks by outcome: emitted, missed (dropped by skip or once), late (beyond the "+
			"limits of all) or overlap.", "outcome",
		word{"emitted", func(s *queue.Stats) uint64 { return s.Ticks.Emitted }},
		word{"missed", func(s *queue.Stats) uint64 { return s.Ticks.Missed }},
		word{"late", func(s *queue.Stats) uint64 { return s.Ticks.Late }},
		word{"overlap", func(s *queue.Stats) uint64 { return s.Ticks.Overlapped }})
	m.counter("quern_chunks_inserted_total",
		"Total number of inserted chunks.", func(s *queue.Stats) uint64 { return s.InsertedTotal })
	m.counter("quern_submissions_inserted_total",
		"Total number of inserted submissions.",
		func(s *queue.Stats) uint64 { return s.SubmissionsInsertedTotal })
	m.counter("quern_reservations_lost_total", "Total number of reservations that ended because their consumer was lost.",
		func(s *queue.Stats) uint64 { return s.LostTotal })
	m.counter("quern_reservations_revoked_total",
		"Total number of reservations that were taken from attached consumers.",
		func(s *queue.Stats) uint64 { return s.RevokedTotal })
	m.counter("quern_reservations_expired_total", "Total number of reservations whose deadline passed.",
		func(s *queue.Stats) uint64 { return s.ExpiredTotal })
	m.counter("quern_chunks_damaged_total",
		"Total number of chunks that became dead letters because their content could not be read.",
		func(s *queue.Stats) uint64 { return s.DamagedTotal })
	m.counter("quern_dead_letters_aged_total",
		"Total number of dead letters that the server deleted because they were older than dead_retention_seconds.",
		func(s *queue.Stats) uint64 { return s.AgedTotal })
	m.counter("quern_dead_letters_forwarded_total", "Total number of dead letters that the queue sent to another queue.",
		func(s *queue.Stats) uint64 { return s.ForwardedTotal })
	m.counter("quern_dead_letters_arrived_total",
		"Total number of submissions received as dead letters of another queue.",
		func(s *queue.Stats) uint64 { return s.ArrivedTotal })
	m.labelled(prometheus.CounterValue, "quern_bulk_outcomes_total",
		"Total number of items that bulk operations handled, by outcome.", "outcome",
		word{"done", func(s *queue.Stats) uint64 { return s.BulkTotal.Done }},
		word{"unchanged", func(s *queue.Stats) uint64 { return s.BulkTotal.Unchanged }},
		word{"refused", func(s *queue.Stats) uint64 { return s.BulkTotal.Refused }})
	m.counter("quern_writer_commits_total",
		"Total number of journal commits.", func(s *queue.Stats) uint64 { return s.CommitsTotal })
}

// describeRefusals lists the counters of keys, rates and memory: calls that found no room, and what a limit removed.
func (m *metrics) describeRefusals() {
	m.labelled(prometheus.CounterValue, "quern_views_refused_total",
		"Total number of calls refused because there was no memory for the index of their strategy.", "of",
		word{"reserves", func(s *queue.Stats) uint64 { return s.ViewsRefused }},
		word{"questions", func(s *queue.Stats) uint64 { return s.QuestionsRefused }})
	m.counter("quern_inserts_refused_total",
		"Total number of inserts refused because max-live-submissions are open, or the memory-limit is reached.",
		func(s *queue.Stats) uint64 { return s.InsertsRefused })
	m.counter("quern_idempotency_keys_refused_total",
		"Total number of inserts refused because the queue remembers its maximum number of idempotency "+
			"keys.",
		func(s *queue.Stats) uint64 { return s.KeysRefused })
	m.counter("quern_unique_existing_total",
		"Total number of inserts that created nothing because another submission held their unique key.",
		func(s *queue.Stats) uint64 { return s.UniqueKept })
	m.counter("quern_unique_replaced_total",
		"Total number of submissions that an insert with the same unique key replaced.",
		func(s *queue.Stats) uint64 { return s.UniqueReplaced })
	m.counter("quern_unique_keys_refused_total",
		"Total number of inserts refused because the queue has its maximum number of unique keys that are "+
			"held for a time.",
		func(s *queue.Stats) uint64 { return s.UniqueRefused })
	m.counter("quern_rates_refused_total",
		"Total number of strategies refused because the queue knows its maximum number of rates.",
		func(s *queue.Stats) uint64 { return s.Rates.Refused })
	m.counter("quern_rate_values_forgotten_total",
		"Total number of values without submissions that rates forgot because there were too many. If such a value "+
			"comes back, it counts as if it had just used its burst.",
		func(s *queue.Stats) uint64 { return s.Rates.Forgotten })
	m.counter("quern_reports_dropped_total",
		"Total number of progress reports and notes that the queue did not keep because they would take more than 24 "+
			"MiB.", func(s *queue.Stats) uint64 { return s.Unreported })
}
