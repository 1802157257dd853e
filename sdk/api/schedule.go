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
	Spec            string           `json:"spec"`
	Seconds         bool             `json:"seconds,omitempty"`           // cron specs have a leading field of seconds
	TZ              string           `json:"tz,omitempty"`                // IANA name of the time zone; default UTC
	Template        ScheduleTemplate `json:"template"`                    // what each tick inserts
	Missed          string           `json:"missed,omitempty"`            // once (default), skip or all
	CatchupLimit    uint32           `json:"catchup_limit,omitempty"`     // with all: at most so many, default 100
	CatchupWindowMS int64            `json:"catchup_window_ms,omitempty"` // with all: not older than this, default an hour
	Overlap         string           `json:"overlap,omitempty"`           // allow (default), skip or buffer_one
	JitterMS        int64            `json:"jitter_ms,omitempty"`         // each tick comes up to so much later, always by the same amount
	Start           Time             `json:"start,omitzero"`              // no ticks before
	End             Time             `json:"end,omitzero"`                // no ticks after
	Enabled         *bool            `json:"enabled,omitempty"`           // default true
	PauseOnFailure  bool             `json:"pause_on_failure,omitempty"`
	RunOnCreate     bool             `json:"run_on_create,omitempty"`
}

// ScheduleTemplate is what each tick of a schedule inserts: a NewSubmission without times of its own, of at most 64 KiB. In prefix and
// template "{scheduled_at}" stands for the tick's time.
type ScheduleTemplate struct {
	Meta               Meta   `json:"meta,omitempty"`
	Priority           int64  `json:"priority,omitempty"`
	Chunks             Chunks `json:"chunks"`
	Attachment         Bytes  `json:"attachment,omitzero"`
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
	Name           string             `json:"name"`
	Definition     ScheduleDefinition `json:"definition"`
	Description    string             `json:"description"` // when it is due, in plain words
	State          string             `json:"state"`
	Reason         string             `json:"reason,omitempty"` // why it is paused or broken
	NextAt         Time               `json:"next_at,omitzero"` // the next tick, jitter not counted
	LastAt         Time               `json:"last_at,omitzero"` // the last tick that was emitted
	LastSubmission string             `json:"last_submission,omitempty"`
	WaitingAt      Time               `json:"waiting_at,omitzero"` // a tick that is still to be emitted, apart from next_at
	Emitted        uint64             `json:"emitted"`
	SkippedMissed  uint64             `json:"skipped_missed"`
	SkippedLate    uint64             `json:"skipped_late"`
	SkippedOverlap uint64             `json:"skipped_overlap"`
	Version        uint32             `json:"version"`
	// the last 24 submissions of it, oldest first, as far as they are known since the server's start
	Recent    []Emission `json:"recent"`
	ETag      string     `json:"etag"`
	CreatedAt Time       `json:"created_at"`
	ChangedAt Time       `json:"changed_at"`
}

// Emission is a submission that a schedule inserted: by a tick, a trigger or a backfill.
type Emission struct {
	At         Time   `json:"at"` // the tick that it is for
	Submission string `json:"submission"`
	State      string `json:"state"` // of the submission
}

// SchedulePreviewRequest is the body of POST /v1/queues/{queue}/schedules/preview: a definition's time part, stored or not.
type SchedulePreviewRequest struct {
	Spec    string `json:"spec"`
	Seconds bool   `json:"seconds,omitempty"`
	TZ      string `json:"tz,omitempty"`
	Start   Time   `json:"start,omitzero"`
	End     Time   `json:"end,omitzero"`
	After   Time   `json:"after,omitzero"` // default: now
	N       uint32 `json:"n,omitempty"`    // 1 to 100, default 5
}

// SchedulePreview is what a definition means.
type SchedulePreview struct {
	Description string         `json:"description"`
	TZ          string         `json:"tz"`
	Ticks       []ScheduleTick `json:"ticks"`
}

// ScheduleTick is one moment at which a schedule is due, as a time and as its zone's clocks show it.
type ScheduleTick struct {
	At    Time   `json:"at"`
	Local string `json:"local"`
}

// BackfillRequest is the body of POST /v1/queues/{queue}/schedules/{name}/backfill.
type BackfillRequest struct {
	From   Time   `json:"from"`
	To     Time   `json:"to"`
	Limit  uint32 `json:"limit,omitempty"`   // 1 to 1000, default 100
	DryRun bool   `json:"dry_run,omitempty"` // only count the ticks
}

// Backfilled is its answer.
type Backfilled struct {
	Submissions []string `json:"submissions"`       // by the time of their ticks
	Ticks       int64    `json:"ticks"`             // that lie in the time that was asked for
	FirstAt     Time     `json:"first_at,omitzero"` // the first of them, of a dry run
}
