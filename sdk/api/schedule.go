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

// ScheduleDefinition is the body of PUT /v1/queues/{queue}/schedules/{name}: what is inserted, and when. What is left out gets its
// default; in answers everything is filled in.
type ScheduleDefinition struct {
	// five fields of cron, @hourly to @yearly, "@every 90s" or "@at 2026-03-29T02:30:00Z"
	Spec    string `json:"spec"`
	Seconds bool   `json:"seconds,omitempty"` // cron specs have a leading field of seconds
	TZ      string `json:"tz,omitempty"`      // IANA name of the time zone; default UTC
	// What each tick inserts: at most 64 KiB of attachment, template and inline bytes
	Template        ScheduleTemplate `json:"template"`
	Missed          string           `json:"missed,omitempty"`            // once (default), skip or all
	CatchupLimit    uint32           `json:"catchup_limit,omitempty"`     // with all: at most so many, default 100
	CatchupWindowMS int64            `json:"catchup_window_ms,omitempty"` // with all: not older than this, default an hour
	Overlap         string           `json:"overlap,omitempty"`           // allow (default), skip or buffer_one
	// each tick comes up to so much later, always by the same amount
	JitterMS       int64 `json:"jitter_ms,omitempty"`
	Start          Time  `json:"start,omitzero"`    // no ticks before
	End            Time  `json:"end,omitzero"`      // no ticks after
	Enabled        *bool `json:"enabled,omitempty"` // default true
	PauseOnFailure bool  `json:"pause_on_failure,omitempty"`
	RunOnCreate    bool  `json:"run_on_create,omitempty"`
}

// ScheduleTemplate is what each tick of a schedule inserts: a NewSubmission without times of its own, of at most 64 KiB. In prefix and
// template "{scheduled_at}" stands for the tick's time.
type ScheduleTemplate struct {
	Meta     Meta  `json:"meta,omitempty"` // What strategies see
	Priority int64 `json:"priority,omitempty"`
	// The work, in exactly one of three forms; in prefix and template {scheduled_at} is replaced by the tick's time (RFC 3339, UTC)
	Chunks             Chunks `json:"chunks"`
	Attachment         Bytes  `json:"attachment,omitzero"` // Goes out with every reservation
	OperationsPerChunk uint32 `json:"operations_per_chunk,omitempty"`
	DeadAfterMS        int64  `json:"dead_after_ms,omitempty"` // dead_deadline, from the insert; 0: none
	MaxAttempts        uint16 `json:"max_attempts,omitempty"`
	OnExhausted        string `json:"on_exhausted,omitempty"`
	MaxFailedChunks    uint32 `json:"max_failed_chunks,omitempty"`
	Group              string `json:"group,omitempty"`
}

// Schedule is a schedule as it stands; the answer of GET and PUT /v1/queues/{queue}/schedules/{name}, whose header ETag names the
// version for If-Match.
type Schedule struct {
	Name        string             `json:"name"`        // Its name in the queue
	Definition  ScheduleDefinition `json:"definition"`  // What PUT takes, with the defaults filled in
	Description string             `json:"description"` // When it is due, in plain words
	// held: due, but a rule keeps it from inserting; finished: no tick is left; broken: this server cannot read its spec or time zone
	State  string `json:"state" names:"schedules"`
	Reason string `json:"reason,omitempty"` // Why it is paused or broken
	// The next tick, jitter not counted; absent while it is paused. It may be past while nothing is emitted
	NextAt         Time   `json:"next_at,omitzero"`
	LastAt         Time   `json:"last_at,omitzero"`          // The last tick that was emitted
	LastSubmission string `json:"last_submission,omitempty"` // What it inserted
	// A tick that is still to be emitted, apart from next_at: of run_on_create, or kept by buffer_one
	WaitingAt Time `json:"waiting_at,omitzero"`
	// Ticks emitted since it was made; triggers and backfills are not counted
	Emitted        uint64 `json:"emitted"`
	SkippedMissed  uint64 `json:"skipped_missed"`  // Ticks dropped by missed skip or once
	SkippedLate    uint64 `json:"skipped_late"`    // Ticks dropped by missed all: beyond its limit or window
	SkippedOverlap uint64 `json:"skipped_overlap"` // Ticks dropped because the submission before was open
	// From 1; each change of the definition, a pause and a resume too, makes the next
	Version uint32 `json:"version"`
	// The last submissions that it inserted, by ticks, triggers and backfills, the oldest first; as far as they are known since the
	// server's start
	Recent    []Emission `json:"recent" limit:"..MaxRecent"`
	ETag      string     `json:"etag"`       // As in the header ETag, quotes included
	CreatedAt Time       `json:"created_at"` // When it was made
	ChangedAt Time       `json:"changed_at"` // When it was last defined, paused or resumed
}

// Emission is a submission that a schedule inserted: by a tick, a trigger or a backfill.
type Emission struct {
	At         Time   `json:"at"`                   // The tick that it is for
	Submission string `json:"submission"`           // Its id
	State      string `json:"state" names:"states"` // How it stands
}

// SchedulePreviewRequest is the body of POST /v1/queues/{queue}/schedules/preview: a definition's time part, stored or not.
type SchedulePreviewRequest struct {
	Spec    string `json:"spec"`
	Seconds bool   `json:"seconds,omitempty"`
	TZ      string `json:"tz,omitempty"`
	Start   Time   `json:"start,omitzero"`
	End     Time   `json:"end,omitzero"`
	After   Time   `json:"after,omitzero"`                  // Ticks after this; default now
	N       uint32 `json:"n,omitempty" limit:"0..MaxTicks"` // How many; default 5
}

// SchedulePreview is what a definition means.
type SchedulePreview struct {
	Description string         `json:"description"` // When it is due, in plain words
	TZ          string         `json:"tz"`          // The time zone
	Ticks       []ScheduleTick `json:"ticks"`       // The next ticks
}

// ScheduleTick is one moment at which a schedule is due, as a time and as its zone's clocks show it.
type ScheduleTick struct {
	At    Time   `json:"at"`    // When
	Local string `json:"local"` // The same on the clocks of the time zone
}

// BackfillRequest is the body of POST /v1/queues/{queue}/schedules/{name}/backfill.
type BackfillRequest struct {
	From   Time   `json:"from"`                                   // Ticks from this time
	To     Time   `json:"to"`                                     // Ticks up to this time, which must be in the past
	Limit  uint32 `json:"limit,omitempty" limit:"0..MaxBackfill"` // More ticks than this are refused; default 100
	DryRun bool   `json:"dry_run,omitempty"`                      // Only count the ticks, however many they are; nothing is inserted
}

// Backfilled is its answer.
type Backfilled struct {
	Submissions []string `json:"submissions"`       // Their ids, by the time of their ticks; none of a dry run
	Ticks       int64    `json:"ticks"`             // Ticks that lie in the time that was asked for
	FirstAt     Time     `json:"first_at,omitzero"` // Of a dry run, the first of them
}
