package api

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Limits of requests and answers. The tag `limit` of a field names them, so each number stands here only: the server's checks, their texts
// and the OpenAPI document follow. Each has its reason; raising one is a decision, not a tweak.
const (
	MaxChunks           = 1<<32 - 1 // a chunk index is 32 bits
	MaxInlineChunks     = 100_000   // chunks of one insert call that carry bytes; JSON lines may be appended call by call
	MaxPrefixBytes      = 1024      // object keys are at most 1,024 bytes on the common stores
	MaxTemplateBytes    = 4096
	MaxTraceBytes       = 512 // traceparent is 55; tracestate up to 512 by its specification
	MaxConsumerBytes    = 128
	MaxNoteBytes        = 256 // of what a consumer says of a chunk: a line, not a log
	MaxIncarnation      = 64  // bytes; a UUID has 36
	MaxIdempotencyKey   = 255
	MaxUniqueKey        = 255 // bytes
	MaxAfter            = 100 // submissions that one waits for
	MaxQueueNameBytes   = 64
	MaxQueueShards      = 16        // shards of one queue: a reserve looks at each of them
	MaxInsertions       = 10_000    // submissions of one call
	MaxFollowing        = 100       // submissions that one completion inserts: they are decided under one hold of the queue's lock
	MaxPriority         = 1<<53 - 1 // exact in every JSON implementation; the minimum is its negative
	MaxValueLimit       = 1<<31 - 1
	MaxGroupLimit       = 1_000_000_000_000 // of GroupLimits
	MaxGroupDescription = 1000              // bytes
	MinWeight           = 0.001
	MaxWeight           = 1000
	MaxValueRate        = 1<<31 - 1
	MinPerMS            = 10 // of a rate
	MaxPerMS            = 7 * 24 * 3600 * 1000

	MaxTokenQueues            = 64 // queues that one token is bound to
	MaxScopes                 = 7  // all there are
	MaxRotationOverlapSeconds = 30 * 24 * 3600

	MaxReserve       = 1000   // chunks of one reserve
	MaxBatch         = 10_000 // items of one complete, fail, extend or release
	MaxWaitMS        = 60_000
	MaxWaitIDs       = 1000                  // submissions that one call waits for: each is looked up under its shard's lock
	MaxReservationMS = 24 * 3600 * 1000      // hard cap of a reservation, extensions included
	MaxDelayMS       = 30 * 24 * 3600 * 1000 // of a released chunk
	MaxDelays        = 16                    // of a list of delays between attempts; more attempts wait as long as after the last
	MaxOverdue       = 1000                  // reservations of a consumer that are counted
	MaxLimited       = 10                    // values at their limit that an answer without chunks names: a hint where to look, not a list

	MaxOldest   = 1_000_000 // dead letters that one can ask for as the oldest
	MaxRate     = 1<<32 - 1 // of a bulk operation, per second
	MaxTicks    = 100       // of one preview of a schedule
	MaxBackfill = 1000      // ticks that one backfill makes
	MaxRecent   = 24        // emissions of a schedule that are kept

	MaxPicks           = 100       // of one preview or comparison
	MaxSeed            = 1<<53 - 1 // exact in every JSON implementation
	MaxDiffering       = 50        // picks of each side that a comparison names
	MaxCells           = 1000      // of a map of chunks
	MaxDurationBuckets = 37        // powers of two milliseconds, up to two years
	MaxLedgerTenants   = 1000

	MaxFrameConsumers = 100 // that one frame names
	MaxFrameSchedules = 200

	MaxPluginRows = 4096 // candidates of a dry run
	MaxPluginWant = 1000 // that a dry run takes
	MaxPluginBins = 20
)

// limits are the constants by the names that tags have.
var limits = map[string]float64{
	"MaxChunks": MaxChunks, "MaxInlineChunks": MaxInlineChunks, "MaxPrefixBytes": MaxPrefixBytes,
	"MaxTemplateBytes": MaxTemplateBytes, "MaxTraceBytes": MaxTraceBytes, "MaxConsumerBytes": MaxConsumerBytes,
	"MaxIncarnation":    MaxIncarnation,
	"MaxNoteBytes":      MaxNoteBytes,
	"MaxIdempotencyKey": MaxIdempotencyKey, "MaxUniqueKey": MaxUniqueKey, "MaxAfter": MaxAfter,
	"MaxQueueNameBytes": MaxQueueNameBytes, "MaxQueueShards": MaxQueueShards, "MaxInsertions": MaxInsertions, "MaxFollowing": MaxFollowing,
	"MaxPriority": MaxPriority, "MaxValueLimit": MaxValueLimit, "MaxGroupLimit": MaxGroupLimit,
	"MaxGroupDescription": MaxGroupDescription, "MinWeight": MinWeight, "MaxWeight": MaxWeight,
	"MaxValueRate": MaxValueRate, "MinPerMS": MinPerMS, "MaxPerMS": MaxPerMS,
	"MaxTokenQueues": MaxTokenQueues, "MaxScopes": MaxScopes, "MaxRotationOverlapSeconds": MaxRotationOverlapSeconds,
	"MaxReserve": MaxReserve, "MaxBatch": MaxBatch, "MaxWaitMS": MaxWaitMS, "MaxWaitIDs": MaxWaitIDs,
	"MaxReservationMS": MaxReservationMS, "MaxLimited": MaxLimited, "MaxOverdue": MaxOverdue, "MaxOldest": MaxOldest,
	"MaxDelayMS": MaxDelayMS, "MaxDelays": MaxDelays,
	"MaxRate": MaxRate, "MaxTicks": MaxTicks, "MaxBackfill": MaxBackfill, "MaxRecent": MaxRecent, "MaxPicks": MaxPicks,
	"MaxSeed": MaxSeed, "MaxDiffering": MaxDiffering, "MaxCells": MaxCells,
	"MaxDurationBuckets": MaxDurationBuckets, "MaxLedgerTenants": MaxLedgerTenants,
	"MaxFrameConsumers": MaxFrameConsumers, "MaxFrameSchedules": MaxFrameSchedules, "MaxPluginRows": MaxPluginRows,
	"MaxPluginWant": MaxPluginWant, "MaxPluginBins": MaxPluginBins,
}

// names are the lists of values that the tag `names` of a field may have.
var names = map[string][]string{
	"actions":      {ActionPause, ActionBlock},
	"backoffs":     {BackoffExponential, BackoffLinear, BackoffFixed, BackoffList},
	"breakers":     {BreakerClosed, BreakerStarting, BreakerOpen, BreakerHalfOpen, BreakerThrottled, BreakerQuarantined, BreakerHeld},
	"bulk actions": {BulkRedrive, BulkDelete, BulkForward, BulkRetry, BulkGiveUp, BulkCancel, BulkReprioritize, BulkPurge},
	"bulk states":  {BulkRunning, BulkCompleted, BulkCancelled, BulkFailed},
	"causes":       {CauseLimit, CauseRule, CauseNotDue, CauseAfter, CauseDead, CauseEmpty, CauseUnasked, CauseNone, CauseRate},
	"chunk states": {ChunkReady, ChunkWaiting, ChunkReserved, ChunkDone, ChunkDead, ChunkSkipped, ChunkForwarded},
	"consumers":    {ConsumerAttached, ConsumerAway, ConsumerDetached},
	"costs":        {CostChunk, CostTime},
	"insertions":   {InsertCreated, InsertExisting, InsertReplayed, InsertInvalid, InsertRefused},
	"jitters":      {JitterFull, JitterEqual, JitterNone},
	"levels":       {LevelDebug, LevelInfo, LevelWarn, LevelError},
	"life cycle": {LifecycleExpiry, LifecycleLost, LifecycleGrace, LifecycleRetry, LifecycleSuspect,
		LifecycleRunAt, LifecycleDeadDeadline, LifecycleSweep, LifecycleRetention,
		LifecycleSchedule, LifecycleAfter, LifecycleRule, LifecycleForward},
	"obstacles": {ObstacleNone, ObstacleDone, ObstacleDead, ObstacleSkipped, ObstacleForwarded, ObstacleWaiting, ObstacleReserved,
		ObstacleNotDue, ObstaclePaused, ObstacleBlocked, ObstacleFilter, ObstacleGrace, ObstacleLimit, ObstacleValueLimit, ObstacleHidden,
		ObstacleAlternative, ObstacleTurn, ObstacleScore, ObstacleRate, ObstacleAfter},
	"outcomes": {OutcomeOK, OutcomeRefused},
	"plugins": {PluginActive, PluginInactive, BreakerStarting, BreakerOpen, BreakerHalfOpen,
		BreakerThrottled, BreakerQuarantined, BreakerHeld},
	"plugin versions": {PluginReady, PluginQuarantined},
	"reasons": {ReasonNothing, ReasonAllLimited, ReasonPaused, ReasonNotYetDue, ReasonAllSkipped, ReasonRestartGrace,
		ReasonQuiet, ReasonDraining, ReasonRateLimited},
	"results":            {StatusOK, StatusAlready, StatusLost, StatusGone, StatusUnknown, StatusInvalid, StatusRefused},
	"revocations":        {RevokedEnded, RevokedExpired, RevokedOperator, RevokedRule},
	"rule ends":          {RuleLifted, RuleOver, RuleOutlived},
	"rulings":            {RulingPaused, RulingBlocked},
	"schedules":          {ScheduleActive, SchedulePaused, ScheduleHeld, ScheduleFinished, ScheduleBroken},
	"scopes of counters": {CounterOfSubmission, CounterOfValue, CounterOfQueue},
	"states":             {StateOpen, StateCompleted, StateCompletedWithDead, StateFailed, StateCancelled, StateExpired},
	"states with dead":   {StateOpen, StateCompletedWithDead},
	"tenants":            {TenantIdle, TenantActive, TenantOwing, TenantBlocked},
	"tenants of ledgers": {TenantActive, TenantOwing, TenantBlocked},
	"warnings": {WarningOffersNothing, WarningContradiction, WarningRepeatedFilter, WarningLimitNeverBinds,
		WarningPreference, WarningHidden, WarningSharesNothing, WarningSameScores,
		WarningPluginUnusable, WarningPluginUnavailable},
}

// Limit is what a field may be, by its tags: `limit:"1..MaxReserve"` of a number, `limit:"..MaxBatch"` of the entries of a list or the
// bytes of a text, and `names:"states"` of a text that is one of a list.
type Limit struct {
	Least, Most *float64
	Names       []string
}

// LimitOf reads the tags of a field. It panics when they name a limit or a list that does not exist.
func LimitOf(field reflect.StructField) (l Limit) {
	if least, most, ok := strings.Cut(field.Tag.Get("limit"), ".."); ok {
		l.Least, l.Most = limitNamed(field.Name, least), limitNamed(field.Name, most)
	}
	if list, ok := field.Tag.Lookup("names"); ok {
		if l.Names = names[list]; l.Names == nil {
			panic(fmt.Sprintf("api: the names of %s are %q, which is no list", field.Name, list))
		}
	}
	return l
}

// limitNamed is a constant, its negative, a number as it stands, or nothing.
func limitNamed(field, text string) *float64 {
	if text == "" {
		return nil
	}
	if n, ok := limits[strings.TrimPrefix(text, "-")]; ok {
		if strings.HasPrefix(text, "-") {
			n = -n
		}
		return &n
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		panic(fmt.Sprintf("api: the limit of %s is %q, which is no limit", field, text))
	}
	return new(float64(n))
}
