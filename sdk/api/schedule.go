package api

// The values of ScheduleDefinition.Missed and Overlap.
const (
	MissedOnce       = "once"
	MissedSkip       = "skip"
	MissedAll        = "all"
	OverlapAllow     = "allow"
	OverlapSkip      = "skip"
	OverlapBufferOne = "buffer_one"
)

// The states of a schedule.
const (
	ScheduleActive   = "active"
	SchedulePaused   = "paused"
	ScheduleHeld     = "held"     // due, but a rule keeps it from inserting
	ScheduleFinished = "finished" // no tick is left
	ScheduleBroken   = "broken"   // this server cannot read its spec or time zone
)

// ScheduleDefinition is the body of PUT /v1/queues/{queue}/schedules/{name}: the work to insert, and the times. A field that you leave
// out gets its default. In answers, all fields are filled in.
type ScheduleDefinition struct {
	// When it is due: five fields of cron, @hourly to @yearly, "@every 90s" or "@at 2026-03-29T02:30:00Z"
	Spec    string `json:"spec"`
	Seconds bool   `json:"seconds,omitempty"` // The cron spec begins with a field for seconds
	TZ      string `json:"tz,omitempty"`      // IANA name of the time zone; default UTC
	// The submission of each tick: at most 64 KiB of attachment, template and inline bytes
	Template     ScheduleTemplate `json:"template"`
	Missed       string           `json:"missed,omitempty"`        // once (default), skip or all
	CatchupLimit uint32           `json:"catchup_limit,omitempty"` // With missed all: emit at most this many, the newest; default 100
	// With missed all: emit no tick that is older than this; default one hour
	CatchupWindowMS int64  `json:"catchup_window_ms,omitempty"`
	Overlap         string `json:"overlap,omitempty"` // allow (default), skip or buffer_one
	// Delay each tick by up to this much; the delay of a tick never changes
	JitterMS       int64 `json:"jitter_ms,omitempty"`
	Start          Time  `json:"start,omitzero"`    // No ticks before this time; @every counts from it
	End            Time  `json:"end,omitzero"`      // No ticks after this time
	Enabled        *bool `json:"enabled,omitempty"` // default true
	PauseOnFailure bool  `json:"pause_on_failure,omitempty"`
	RunOnCreate    bool  `json:"run_on_create,omitempty"`
}

// ScheduleTemplate is what each tick of a schedule inserts: a NewSubmission without times of its own, of at most 64 KiB. In prefix and
// template "{scheduled_at}" stands for the tick's time.
type ScheduleTemplate struct {
	Meta     Meta  `json:"meta,omitempty"` // Keys and values for strategies
	Priority int64 `json:"priority,omitempty"`
	// The work, in exactly one of three forms; in prefix and template {scheduled_at} is replaced by the tick's time (RFC 3339, UTC)
	Chunks             Chunks `json:"chunks"`
	Attachment         Bytes  `json:"attachment,omitzero"` // Sent with every reservation
	OperationsPerChunk uint32 `json:"operations_per_chunk,omitempty"`
	DeadAfterMS        int64  `json:"dead_after_ms,omitempty"` // dead_deadline, from the insert; 0: none
	MaxAttempts        uint16 `json:"max_attempts,omitempty"`
	OnExhausted        string `json:"on_exhausted,omitempty"`
	MaxFailedChunks    uint32 `json:"max_failed_chunks,omitempty"`
	TimeoutMS          int64  `json:"timeout_ms,omitempty"` // Longest time that one attempt may take; 0: the queue's
	// Pause after a failed attempt; absent: the queue's
	RetryBackoff *Backoff `json:"retry_backoff,omitempty"`
	// A tick whose key is held inserts nothing; it counts in skipped_overlap
	Unique *Unique `json:"unique,omitempty"`
	Group  string  `json:"group,omitempty"`
}

// Schedule is a schedule as it stands; the answer of GET and PUT /v1/queues/{queue}/schedules/{name}, whose header ETag names the
// version for If-Match.
type Schedule struct {
	Name        string             `json:"name"`        // Its name in the queue
	Definition  ScheduleDefinition `json:"definition"`  // The body of PUT, with defaults filled in
	Description string             `json:"description"` // Its times, in plain words
	// held: due, but a rule prevents inserts. finished: no tick is left. broken: this server cannot read its spec or
	// time zone
	State  string `json:"state" names:"schedules"`
	Reason string `json:"reason,omitempty"` // Why it is paused or broken
	// The next tick, without jitter; absent while paused. It may lie in the past while nothing is emitted
	NextAt         Time   `json:"next_at,omitzero"`
	LastAt         Time   `json:"last_at,omitzero"`          // The last emitted tick
	LastSubmission string `json:"last_submission,omitempty"` // Submission of that tick
	// A tick still to be emitted, apart from next_at: from run_on_create, or kept by buffer_one
	WaitingAt Time `json:"waiting_at,omitzero"`
	// Ticks emitted since it was created; triggers and backfills do not count
	Emitted        uint64 `json:"emitted"`
	SkippedMissed  uint64 `json:"skipped_missed"`  // Ticks dropped by missed skip or once
	SkippedLate    uint64 `json:"skipped_late"`    // Ticks dropped by missed all, beyond its limit or window
	SkippedOverlap uint64 `json:"skipped_overlap"` // Ticks dropped because the last submission was open, or another one held the unique key
	Version        uint32 `json:"version"`         // Version, from 1; each change, pause and resume makes the next
	// Its last submissions, by ticks, triggers and backfills, the oldest first, as known since the server's start
	Recent    []Emission `json:"recent" limit:"..MaxRecent"`
	ETag      string     `json:"etag"`       // As in the header ETag, with the quotes
	CreatedAt Time       `json:"created_at"` // Time when it was created
	ChangedAt Time       `json:"changed_at"` // Time of the last definition, pause or resume
}

// Emission is a submission that a schedule inserted: by a tick, a trigger or a backfill.
type Emission struct {
	At         Time   `json:"at"`                   // Time of the tick
	Submission string `json:"submission"`           // Id of the submission
	State      string `json:"state" names:"states"` // State of the submission
}

// SchedulePreviewRequest is the body of POST /v1/queues/{queue}/schedules/preview: a definition's time part, stored or not.
type SchedulePreviewRequest struct {
	Spec    string `json:"spec"`
	Seconds bool   `json:"seconds,omitempty"`
	TZ      string `json:"tz,omitempty"`
	Start   Time   `json:"start,omitzero"`
	End     Time   `json:"end,omitzero"`
	After   Time   `json:"after,omitzero"`                  // Ticks after this time; default now
	N       uint32 `json:"n,omitempty" limit:"0..MaxTicks"` // Number of ticks; default 5
}

// SchedulePreview is what a definition means.
type SchedulePreview struct {
	Description string         `json:"description"` // Its times, in plain words
	TZ          string         `json:"tz"`          // The time zone
	Ticks       []ScheduleTick `json:"ticks"`       // The next ticks
}

// ScheduleTick is one moment at which a schedule is due, as a time and as its zone's clocks show it.
type ScheduleTick struct {
	At    Time   `json:"at"`    // Time of the tick
	Local string `json:"local"` // The same time on the clocks of the time zone
}

// BackfillRequest is the body of POST /v1/queues/{queue}/schedules/{name}/backfill.
type BackfillRequest struct {
	From Time `json:"from"` // First time of the ticks
	To   Time `json:"to"`   // Last time of the ticks, in the past
	// Refuse the request if it has more ticks than this; default 100
	Limit  uint32 `json:"limit,omitempty" limit:"0..MaxBackfill"`
	DryRun bool   `json:"dry_run,omitempty"` // Count the ticks without a limit, and insert nothing
}

// Backfilled is the answer to a BackfillRequest.
type Backfilled struct {
	// Ids of the submissions, in the order of their ticks; absent in a dry run
	Submissions []string `json:"submissions"`
	Ticks       int64    `json:"ticks"`             // Number of ticks in the requested time
	FirstAt     Time     `json:"first_at,omitzero"` // Time of the first tick; only in a dry run
}
