package queue

import (
	"slices"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// Limits of schedules.
const (
	MaxScheduleNameBytes = 64
	MaxSchedules         = 1000 // of a queue: all are in memory and looked at together
	// attachment, template and inline bytes of what one inserts: they are kept in memory, and written again for each tick
	MaxScheduleBytes       = 64 << 10
	MaxPreview             = api.MaxTicks
	MaxBackfill            = api.MaxBackfill
	DefaultBackfill        = 100
	ScheduleGrace          = 5 * time.Second // a tick that comes so late counts as on time
	MaxPauseReasonBytes    = 500
	ScheduledAtPlaceholder = "{scheduled_at}" // in prefix and template: the time of the tick
)

// Missed says what becomes of ticks that could not be emitted in time: the server was down, or the schedule or what it inserts was paused.
type Missed uint8

// The policies. Once emits the latest of them, unless a later tick is on time; All those within the catch-up window, the newest first
// when there are more than the limit.
const (
	MissedOnce Missed = iota
	MissedSkip
	MissedAll
)

var missedNames = [...]string{"once", "skip", "all"}

func (m Missed) String() string { return missedNames[m] }

// ParseMissed reads the name of a policy.
func ParseMissed(text string) (Missed, bool) { return parseName[Missed](missedNames[:], text) }

// Overlap says what becomes of a tick while the submission of the one before is open.
type Overlap uint8

// The policies. BufferOne keeps one tick until that submission has ended.
const (
	OverlapAllow Overlap = iota
	OverlapSkip
	OverlapBufferOne
)

var overlapNames = [...]string{"allow", "skip", "buffer_one"}

func (o Overlap) String() string { return overlapNames[o] }

// ParseOverlap reads the name of a policy.
func ParseOverlap(text string) (Overlap, bool) { return parseName[Overlap](overlapNames[:], text) }

// Schedule is what an operator asks for: what is inserted, and when. It is never changed once it is in use.
type Schedule struct {
	Spec           string
	Seconds        bool          // cron specs have a leading field of seconds
	Zone           string        // IANA name; "" is UTC
	Anchor         Time          // what @every counts from: the start, or when the schedule was made
	Template       NewSubmission // without run_at, dead_deadline, trace and key
	DeadAfter      time.Duration // dead_deadline of a submission, from its emission; 0: none
	Missed         Missed
	CatchUp        uint32        // of MissedAll: at most so many ticks, 1 to MaxCatchUp
	CatchUpWindow  time.Duration // of MissedAll: not older than this
	Overlap        Overlap
	Jitter         time.Duration // each tick is emitted up to so much later, always by the same amount
	Start, End     Time          // ticks from and up to these; 0: unbounded
	Enabled        bool
	PauseOnFailure bool // disable it when a submission of it fails, expires or has a dead letter
	RunOnCreate    bool // insert its work once at its creation, in addition to its ticks
}

// scheduleFields is what a schedule has beside its template, in the order in which it is checked. To add one: its field in Schedule, its
// declaration here, its field in package api, and its place in the journal's definition.
var scheduleFields = []*Field[Schedule]{
	{
		Name: "spec", Length: 256, field: fieldOf(func(s *Schedule) *string { return &s.Spec }, ""),
		Sentence: "When it is due: five fields of cron (minute, hour, day of month, month, weekday), @hourly, @daily, @weekly, " +
			"@monthly, @yearly, \"@every 90s\" or \"@at 2026-03-29T02:30:00Z\"",
	}, {
		Name: "seconds", field: fieldOf(func(s *Schedule) *bool { return &s.Seconds }, false),
		Sentence: "The cron spec has a leading field of seconds",
	}, {
		Name: "tz", Length: 64, field: fieldOf(func(s *Schedule) *string { return &s.Zone }, ""),
		Sentence: "Time zone whose clocks cron specs mean, by its IANA name such as Europe/Amsterdam; default UTC",
	}, {
		Name: "missed", Names: missedNames[:], field: fieldOf(func(s *Schedule) *Missed { return &s.Missed }, MissedOnce),
		Sentence: "Ticks that could not be emitted in time: once emits the latest of them, unless a later one is on time; " +
			"skip drops them; all emits those within catchup_limit and catchup_window",
	}, {
		Name: "overlap", Names: overlapNames[:], field: fieldOf(func(s *Schedule) *Overlap { return &s.Overlap }, OverlapAllow),
		Sentence: "A tick while the submission of the one before is open: allow emits it, skip drops it, " +
			"buffer_one keeps one until then",
	}, {
		Name: "catchup_limit", Range: numbers(1, 1000), field: fieldOf(func(s *Schedule) *uint32 { return &s.CatchUp }, 100),
		Sentence: "With missed all: emit at most this many, the newest ones",
	}, {
		Name: "catchup_window_ms", Range: milliseconds(time.Second, 366*24*time.Hour),
		field:    fieldOf(func(s *Schedule) *time.Duration { return &s.CatchUpWindow }, time.Hour),
		Sentence: "With missed all: emit none that is older than this",
	}, {
		Name: "jitter_ms", Range: milliseconds(0, 24*time.Hour), field: fieldOf(func(s *Schedule) *time.Duration { return &s.Jitter }, 0),
		Sentence: "Longest delay of a tick; a given tick always has the same delay",
	}, {
		Name: "template/dead_after_ms", Range: milliseconds(0, MaxRetention, "none"),
		field:    fieldOf(func(s *Schedule) *time.Duration { return &s.DeadAfter }, 0),
		Sentence: "How long after its insert a submission expires if it is still open",
	}, {
		Name: "start", field: fieldOf(func(s *Schedule) *Time { return &s.Start }, 0),
		Sentence: "No ticks before; what @every counts from",
	}, {
		Name: "end", field: fieldOf(func(s *Schedule) *Time { return &s.End }, 0),
		Sentence: "No ticks after",
	}, {
		Name: "enabled", field: fieldOf(func(s *Schedule) *bool { return &s.Enabled }, true),
		Sentence: "false: paused",
	}, {
		Name: "pause_on_failure", field: fieldOf(func(s *Schedule) *bool { return &s.PauseOnFailure }, false),
		Sentence: "Pause the schedule when one of its submissions fails, expires or has a dead letter",
	}, {
		Name: "run_on_create", field: fieldOf(func(s *Schedule) *bool { return &s.RunOnCreate }, false),
		Sentence: "Emit once when it is made, beside its ticks",
	},
}

// ScheduleFields lists the fields of a schedule, all but those of its template that a submission has too.
func ScheduleFields() []*Field[Schedule] { return slices.Clone(scheduleFields) }

// DefaultSchedule is a schedule that says nothing: it has no spec and inserts nothing yet.
func DefaultSchedule() (s Schedule) {
	defaults(scheduleFields, &s)
	return s
}

// Valid checks every field by its declaration, but not the template.
func (s *Schedule) Valid() error {
	if err := valid(scheduleFields, s); err != nil {
		return err
	}
	if s.Start != 0 && s.End != 0 && s.End < s.Start {
		return Invalid("/end", "is before start: there could never be a tick")
	}
	return nil
}

// ScheduleState says in a word how a schedule stands.
type ScheduleState uint8

// The states. Held: due, but a rule forbids what it inserts. Finished: no tick is left. Broken: its spec or zone cannot be read by
// this server.
const (
	ScheduleActive ScheduleState = iota
	SchedulePaused
	ScheduleHeld
	ScheduleFinished
	ScheduleBroken
)

var scheduleStates = [...]string{"active", "paused", "held", "finished", "broken"}

func (s ScheduleState) String() string { return scheduleStates[s] }

// ScheduleInfo is a schedule as it stands at one moment.
type ScheduleInfo struct {
	Name     string
	Schedule Schedule
	Version  uint32 // from 1; each change of the definition, a pause and a resume too, makes the next
	Created  Time
	Changed  Time
	State    ScheduleState
	Reason   string // why it is paused or broken
	Words    string // when it is due, in plain words
	Next     Time   // the next tick, jitter not counted; 0: none. It may be past while nothing may be emitted
	Last     Time   // the last tick that was emitted
	LastID   SubmissionID
	Waiting  Time // a tick that is still to be emitted: run_on_create, or buffered by overlap; 0: none
	ScheduleCounts
	Recent []Emission // the last submissions of it, by id: as far as they are known since the server's start
}

// Emission is a submission that a schedule inserted: by a tick, a trigger or a backfill.
type Emission struct {
	Tick  Time // that it is for
	ID    SubmissionID
	State SubmissionState
}

// ScheduleCounts count what became of ticks since the schedule was made.
type ScheduleCounts struct {
	Emitted    uint64
	Missed     uint64 // dropped by MissedSkip and MissedOnce
	Late       uint64 // dropped by MissedAll: beyond its limit or its window
	Overlapped uint64 // dropped because the submission before was open
}
