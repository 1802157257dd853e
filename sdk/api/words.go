package api

// The ways to end a chunk whose attempts are over.
const (
	ExhaustedDeadLetter     = "dead_letter"     // it is kept among the dead letters
	ExhaustedFailSubmission = "fail_submission" // its submission fails, and the other chunks are skipped
	ExhaustedSkip           = "skip"            // it is passed over
)

// Where a chunk that comes back stands among those of its submission.
const (
	RequeueHead = "head" // before the others
	RequeueTail = "tail" // behind them
)

// The states of a chunk.
const (
	ChunkReady     = "ready"
	ChunkWaiting   = "waiting" // until its time: run_at or a back-off
	ChunkReserved  = "reserved"
	ChunkDone      = "done"
	ChunkDead      = "dead"
	ChunkSkipped   = "skipped"
	ChunkForwarded = "forwarded"
)

// The costs that Fair charges a tenant for.
const (
	CostChunk = "chunk" // each chunk
	CostTime  = "time"  // the time that its chunks are held
)

// The states of a tenant of a Fair block.
const (
	TenantIdle    = "idle"    // it has no work
	TenantActive  = "active"  // it takes turns
	TenantOwing   = "owing"   // it has no work, and received more than its share
	TenantBlocked = "blocked" // it has work that nothing may be taken of now
)

// The states of a plugin's breaker.
const (
	BreakerClosed      = "closed" // it is asked
	BreakerStarting    = "starting"
	BreakerOpen        = "open" // it failed, and is not asked for a while
	BreakerHalfOpen    = "half_open"
	BreakerThrottled   = "throttled"
	BreakerQuarantined = "quarantined"
	BreakerHeld        = "held"
)

// The states of a plugin: these, or that of its breaker.
const (
	PluginActive   = "active"
	PluginInactive = "inactive"
)

// The levels of a line that a plugin logs.
const (
	LevelDebug = "debug"
	LevelInfo  = "info"
	LevelWarn  = "warn"
	LevelError = "error"
)

// The kinds of actions of the life-cycle worker.
const (
	LifecycleExpiry       = "expiry"
	LifecycleLost         = "lost"
	LifecycleGrace        = "grace"
	LifecycleRetry        = "retry"
	LifecycleSuspect      = "suspect"
	LifecycleRunAt        = "run_at"
	LifecycleDeadDeadline = "dead_deadline"
	LifecycleSweep        = "sweep"
	LifecycleRetention    = "retention"
	LifecycleSchedule     = "schedule"
	LifecycleRule         = "rule"
	LifecycleForward      = "forward"
	LifecycleAfter        = "after"
)

// The effects of rules on a submission or value.
const (
	RulingPaused  = "paused"
	RulingBlocked = "blocked"
)

// The things that have counters.
const (
	CounterOfSubmission = "submission"
	CounterOfValue      = "value"
	CounterOfQueue      = "queue"
)

// The kinds of warnings about parts of a strategy that have no effect.
const (
	WarningOffersNothing     = "offers_nothing"
	WarningContradiction     = "contradiction"
	WarningRepeatedFilter    = "repeated_filter"
	WarningLimitNeverBinds   = "limit_never_binds"
	WarningPreference        = "preference_has_no_effect"
	WarningHidden            = "hidden"
	WarningSharesNothing     = "shares_nothing"
	WarningSameScores        = "same_scores"
	WarningPluginUnusable    = "plugin_unusable"
	WarningPluginUnavailable = "plugin_unavailable"
)
