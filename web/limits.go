package web

import (
	"maps"
	"math"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// note is what is said about one property.
type note struct {
	text     string // "": the comment of its field in package api
	least    *float64
	most     *float64
	enum     []any
	length   int
	items    int
	ref      string
	nullable bool
}

// between limits a number.
func between(least, most float64) note { return note{least: &least, most: &most} }

// oneOf limits a string to names.
func oneOf(names ...string) note {
	n := note{}
	for _, name := range names {
		n.enum = append(n.enum, name)
	}
	return n
}

// oneOfOrNull is oneOf for a string that may be null too.
func oneOfOrNull(names ...string) note {
	n := oneOf(names...)
	n.enum, n.nullable = append(n.enum, nil), true
	return n
}

// orNull is a number that may be null too.
func (n note) orNull() note {
	n.nullable = true
	return n
}

const (
	mostMilliseconds = float64(queue.MaxReservation / time.Millisecond)
	mostWait         = float64(queue.MaxWait / time.Millisecond)
)

// limits are what the engine keeps of properties: their ranges, lengths and names, and the types of some.
func limits() map[string]note {
	all := map[string]note{}
	for _, part := range []map[string]note{workLimits(), queueLimits(), operatorLimits(), questionLimits(), pluginLimits()} {
		maps.Copy(all, part)
	}
	return all
}

// workLimits are about submissions and reservations.
func workLimits() map[string]note {
	states := oneOf("open", "completed", "completed_with_dead", "failed", "cancelled", "expired")
	chunkStates := oneOf("ready", "waiting", "reserved", "done", "dead", "skipped", "forwarded")
	reasons := oneOfOrNull("nothing", "all_limited", "paused", "not_yet_due", "all_skipped", "restart_grace", "quiet", "draining")
	return map[string]note{
		"BatchSubmission.idempotency_key": {length: queue.MaxIdempotencyKey},
		"BatchSubmission.trace":           {length: queue.MaxTraceBytes},
		"Chunk.state":                     chunkStates,
		"Chunks.count":                    between(1, queue.MaxChunks),
		"Chunks.inline":                   {items: queue.MaxInlineChunks},
		"Chunks.prefix":                   {length: queue.MaxPrefixBytes},
		"Chunks.template":                 {length: queue.MaxTemplateBytes},
		"CompleteRequest.items":           {items: queue.MaxBatch},
		"Emission.state":                  states,
		"ExchangeAnswer.limited":          {items: queue.MaxLimited},
		"ExchangeAnswer.reason":           reasons,
		"ExchangeAnswer.retry_after_ms":   {nullable: true},
		"ExchangeRequest.complete":        {items: queue.MaxBatch},
		"ExchangeRequest.consumer":        {length: queue.MaxConsumerBytes},
		"ExchangeRequest.extend":          {items: queue.MaxBatch},
		"ExchangeRequest.fail":            {items: queue.MaxBatch},
		"ExtendItem.timeout_ms":           between(0, mostMilliseconds),
		"ExtendRequest.consumer":          {length: queue.MaxConsumerBytes},
		"ExtendRequest.items":             {items: queue.MaxBatch},
		"FailRequest.items":               {items: queue.MaxBatch},
		"InsertManyRequest.submissions":   {items: queue.MaxInsertions},
		"InsertResult.status":             oneOf("created", "replayed", "invalid", "refused"),
		"NewSubmission.trace":             {length: queue.MaxTraceBytes},
		"NewSubmissionHead.trace":         {length: queue.MaxTraceBytes},
		"ReleaseRequest.items":            {items: queue.MaxBatch},
		"ReserveAnswer.limited":           {items: queue.MaxLimited},
		"ReserveAnswer.reason":            reasons,
		"ReserveAnswer.retry_after_ms":    {nullable: true},
		"ReserveRequest.consumer":         {length: queue.MaxConsumerBytes},
		"ReserveRequest.max":              between(1, queue.MaxReserve),
		"ReserveRequest.strategy":         {ref: "Strategy"},
		"ReserveRequest.timeout_ms":       between(0, mostMilliseconds),
		"ReserveRequest.wait_ms":          between(0, mostWait),
		"Result.status":                   oneOf("ok", "already", "lost", "gone", "unknown", "invalid"),
		"Submission.state":                states,
		"WaitRequest.ids":                 {items: queue.MaxWaitIDs},
		"WaitRequest.wait_ms":             between(0, mostWait),
		"WhyAnswer.state":                 chunkStates,
	}
}

// queueLimits are about queues, their numbers and what stands on the page of one.
func queueLimits() map[string]note {
	limit := between(0, queue.MaxValueLimit).orNull()
	weight := between(1./queue.DefaultWeight, queue.MaxWeight/queue.DefaultWeight).orNull()
	out := map[string]note{
		"Backoff.factor":             between(0, 100),
		"ConsumersFrame.top":         {items: frameConsumers},
		"SchedulesFrame.items":       {items: frameSchedules},
		"Stats.disk_full":            between(0, 1),
		"Stats.draining":             between(0, 1),
		"Stats.empty":                between(0, 1),
		"ValueCount.limit":           limit,
		"ValueCount.saturated_since": {nullable: true},
		"ValueCount.weight":          weight,
		"ValueSettings.limit":        limit,
		"ValueSettings.weight":       weight,
	}
	out["ChunkMap.ruling"] = oneOf(queue.PausedByRule.String(), queue.BlockedByRule.String())
	for _, state := range []string{"ready", "waiting", "reserved", "done", "dead", "skipped"} {
		out["ChunkMap."+state] = note{items: 1000}
	}
	return out
}

// operatorLimits are about what operators do: rules, schedules, bulk operations, consumers, tokens.
func operatorLimits() map[string]note {
	actions := oneOf("pause", "block")
	consumers := oneOf("attached", "away", "detached")
	schedules := oneOf("active", "paused", "held", "finished", "broken")
	scopes := oneOf("submission", "value", "queue")
	out := map[string]note{
		"AuditEntry.outcome":          oneOf("ok", "refused"),
		"BackfillRequest.limit":       between(1, queue.MaxBackfill),
		"BulkFilter.oldest":           between(0, queue.MaxOldest),
		"BulkOperation.percent":       between(0, 100),
		"BulkOperation.state":         oneOf("running", "completed", "cancelled", "failed"),
		"Consumer.overdue":            between(0, 1000),
		"Consumer.state":              consumers,
		"ConsumerDetail.overdue":      between(0, 1000),
		"ConsumerDetail.state":        consumers,
		"CounterDrift.scope":          scopes,
		"DeadLetter.submission_state": oneOf("open", "completed_with_dead"),
		"LifecycleKind.kind": oneOf("expiry", "lost", "grace", "retry", "suspect", "run_at", "dead_deadline", "sweep", "retention",
			"schedule", "rule", "forward"),
		"RecountDrift.scope":          scopes,
		"Revoked.reason":              oneOf("submission_ended", "expired", "operator", "rule"),
		"RotateToken.overlap_seconds": between(0, 30*24*3600),
		"Rule.action":                 actions,
		"Rule.end":                    oneOf("lifted", "over", "submission_ended"),
		"RuleRequest.action":          actions,
		"Schedule.recent":             {items: 24},
		"Schedule.state":              schedules,
		"ScheduleNow.state":           schedules,
		"SchedulePreviewRequest.n":    between(1, queue.MaxPreview),
	}
	for _, schema := range []string{"BulkRequest", "BulkOperation"} {
		out[schema+".action"] = oneOf(queue.BulkActions()...)
		out[schema+".priority"] = between(-queue.MaxPriority, queue.MaxPriority)
		out[schema+".rate_per_second"] = between(0, math.MaxUint32)
	}
	return out
}

// questionLimits are about strategies and questions about them.
func questionLimits() map[string]note {
	costs := oneOf("chunk", "time")
	out := map[string]note{
		"Cause.kind": oneOf(api.CauseLimit, api.CauseRule, api.CauseNotDue, api.CauseDead, api.CauseEmpty, api.CauseUnasked,
			api.CauseNone),
		"Cause.rule":               {ref: "Rule"},
		"Cause.value":              {ref: "MetaValue"},
		"CompareAnswer.only_a":     {items: mostDiffering},
		"CompareAnswer.only_b":     {items: mostDiffering},
		"CompareRequest.a":         {ref: "Strategy"},
		"CompareRequest.b":         {ref: "Strategy"},
		"Diagnosis.oldest":         {ref: "Holding"},
		"ExplainFair.cost":         costs,
		"KeySpread.jain":           between(0, 1),
		"KeySpread.max_share":      between(0, 1),
		"Ledger.cost":              costs,
		"LedgerTenant.state":       oneOf("active", "owing", "blocked"),
		"LedgerTenants.items":      {items: 1000},
		"PreviewRequest.strategy":  {ref: "Strategy"},
		"RefusedValue.value":       {ref: "MetaValue"},
		"StrategyRequest.strategy": {ref: "Strategy"},
		"StrategyWarning.kind": oneOf(strategy.WarnOffersNothing, strategy.WarnContradiction, strategy.WarnRepeatedFilter,
			strategy.WarnLimitNeverBind, strategy.WarnNoPreference, strategy.WarnHidden, strategy.WarnSharesNothing,
			strategy.WarnSameScores, strategy.WarnUnusable, strategy.WarnUnavailable),
		"Tenant.share":       between(0, 1),
		"Tenant.state":       oneOf("idle", "active", "owing", "blocked"),
		"Tenant.value":       {ref: "MetaValue"},
		"ValidStrategy.tree": {ref: "Strategy"},
		"WhyBranch.obstacle": oneOf(api.ObstacleNone, api.ObstacleDone, api.ObstacleDead, api.ObstacleSkipped, api.ObstacleForwarded,
			api.ObstacleWaiting, api.ObstacleReserved, api.ObstacleNotDue, api.ObstaclePaused, api.ObstacleBlocked, api.ObstacleFilter,
			api.ObstacleGrace, api.ObstacleLimit, api.ObstacleValueLimit, api.ObstacleHidden, api.ObstacleAlternative,
			api.ObstacleTurn, api.ObstacleScore),
		"WhyBranch.value":     {ref: "MetaValue"},
		"WhyRequest.strategy": {ref: "Strategy"},
	}
	for _, schema := range []string{"PreviewRequest", "CompareRequest"} {
		out[schema+".max"] = between(0, engine.MaxPreview)
		out[schema+".seed"] = between(0, engine.MaxSeed)
	}
	return out
}

// pluginLimits are about plugins.
func pluginLimits() map[string]note {
	return map[string]note{
		"Plugin.active":             {ref: "PluginUse"},
		"Plugin.canary":             {ref: "PluginUse"},
		"Plugin.canary_percent":     between(0, 100),
		"Plugin.previous":           {ref: "PluginUse"},
		"Plugin.shadow":             {ref: "PluginUse"},
		"Plugin.state":              oneOf("active", "inactive", "starting", "open", "half_open", "throttled", "quarantined", "held"),
		"PluginBreaker.state":       oneOf("closed", "starting", "open", "half_open", "throttled", "quarantined", "held"),
		"PluginDryRun.queue":        {length: queue.MaxQueueNameBytes},
		"PluginDryRun.rows":         between(0, 4096),
		"PluginDryRun.want":         between(0, 1000),
		"PluginLive.picks":          {items: 1000},
		"PluginLogLine.level":       oneOf("debug", "info", "warn", "error"),
		"PluginPick.score":          {nullable: true},
		"PluginScores.distribution": {items: 20},
		"PluginSelection.percent":   between(0, 100),
		"PluginStats.shadow":        {ref: "PluginShadow"},
		"PluginTried.live":          {ref: "PluginLive"},
		"PluginTried.replay":        {ref: "PluginReplay"},
		"PluginVersion.state":       oneOf("ready", "quarantined"),
	}
}
