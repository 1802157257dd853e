package queue

import (
	"slices"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// Limits of schedules.
const (
	MaxScheduleNameBytes = 64
	MaxSchedules         = 1000 // of a queue: all are in memory, and the worker looks at them together
	// attachment, template and inline bytes of the submission: the server keeps them in memory, and writes them again at each tick
	MaxScheduleBytes       = 64 << 10
	MaxPreview             = api.MaxTicks
	MaxBackfill            = api.MaxBackfill
	DefaultBackfill        = 100
	ScheduleGrace          = 5 * time.Second // a tick that is at most this late counts as on time
	MaxPauseReasonBytes    = 500
	ScheduledAtPlaceholder = "{scheduled_at}" // in prefix and template: the time of the tick
)

// Missed says what happens to ticks that the server could not emit in time, because it was down, or because the schedule or its work was
// paused.
type Missed uint8

// The policies. Once emits the latest missed tick, unless a later one is on time. Skip emits none. All emits those within the catch-up
// window, and only the newest if they exceed the limit.
const (
	MissedOnce Missed = iota
	MissedSkip
	MissedAll
)

var missedNames = [...]string{"once", "skip", "all"}

func (m Missed) String() string { return missedNames[m] }

// ParseMissed reads the name of a policy.
func ParseMissed(text string) (Missed, bool) { return parseName[Missed](missedNames[:], text) }

// Overlap says what happens to a tick while the submission of the previous tick is open.
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

// Schedule is the definition of a schedule. It says what to insert, and when. It is immutable: a change makes a new one.
type Schedule struct {
	Spec           string
	Seconds        bool          // cron specs begin with a field for seconds
	Zone           string        // IANA name; "" is UTC
	Anchor         Time          // where @every begins to count: Start, or the creation of the schedule
	Template       NewSubmission // without run_at, dead_deadline, trace and key
	DeadAfter      time.Duration // time from the emission of a submission to its dead_deadline; 0: none
	Missed         Missed
	CatchUp        uint32        // MissedAll: maximum number of ticks, 1 to MaxCatchUp
	CatchUpWindow  time.Duration // MissedAll: maximum age of a tick
	Overlap        Overlap
	Jitter         time.Duration // longest delay of a tick; each tick has a fixed delay
	Start, End     Time          // first and last possible tick; 0: no bound
	Enabled        bool
	PauseOnFailure bool // pause it when one of its submissions fails, expires or has a dead letter
	RunOnCreate    bool // insert once at the creation, in addition to the ticks
}

// scheduleFields declares the fields of a schedule besides its template, in the order in which they are checked. To add one, write its
// field in Schedule, its declaration here, its field in package api, and its place in the journal's definition.
var scheduleFields = []*Field[Schedule]{
	{
		Name: "spec", Length: 256, field: fieldOf(func(s *Schedule) *string { return &s.Spec }, ""),
		Sentence: "When it is due: five fields of cron (minute, hour, day of month, month, weekday), @hourly, @daily, @weekly, " +
			"@monthly, @yearly, \"@every 90s\" or \"@at 2026-03-29T02:30:00Z\"",
	}, {
		Name: "seconds", field: fieldOf(func(s *Schedule) *bool { return &s.Seconds }, false),
		Sentence: "Whether the cron spec begins with a field for seconds",
	}, {
		Name: "tz", Length: 64, field: fieldOf(func(s *Schedule) *string { return &s.Zone }, ""),
		Sentence: "Time zone of a cron spec, by its IANA name, such as Europe/Amsterdam; UTC by default",
	}, {
		Name: "missed", Names: missedNames[:], field: fieldOf(func(s *Schedule) *Missed { return &s.Missed }, MissedOnce),
		Sentence: "What happens to ticks that the server could not emit in time: once emits the latest, unless a later tick is on " +
			"time; skip drops them; all emits those within catchup_limit and catchup_window",
	}, {
		Name: "overlap", Names: overlapNames[:], field: fieldOf(func(s *Schedule) *Overlap { return &s.Overlap }, OverlapAllow),
		Sentence: "What happens to a tick while the submission of the previous tick is open: allow emits it, skip drops it, " +
			"buffer_one keeps one tick until that submission ends",
	}, {
		Name: "catchup_limit", Range: numbers(1, 1000), field: fieldOf(func(s *Schedule) *uint32 { return &s.CatchUp }, 100),
		Sentence: "With missed all: emit at most this many missed ticks, the newest ones",
	}, {
		Name: "catchup_window_ms", Range: milliseconds(time.Second, 366*24*time.Hour),
		field:    fieldOf(func(s *Schedule) *time.Duration { return &s.CatchUpWindow }, time.Hour),
		Sentence: "With missed all: emit no tick that is older than this",
	}, {
		Name: "jitter_ms", Range: milliseconds(0, 24*time.Hour), field: fieldOf(func(s *Schedule) *time.Duration { return &s.Jitter }, 0),
		Sentence: "Delay each tick by up to this much; the delay of a tick never changes",
	}, {
		Name: "template/dead_after_ms", Range: milliseconds(0, MaxRetention, "none"),
		field:    fieldOf(func(s *Schedule) *time.Duration { return &s.DeadAfter }, 0),
		Sentence: "Time from the insert of a submission to its dead_deadline",
	}, {
		Name: "start", field: fieldOf(func(s *Schedule) *Time { return &s.Start }, 0),
		Sentence: "No ticks before this time; @every counts from it",
	}, {
		Name: "end", field: fieldOf(func(s *Schedule) *Time { return &s.End }, 0),
		Sentence: "No ticks after this time",
	}, {
		Name: "enabled", field: fieldOf(func(s *Schedule) *bool { return &s.Enabled }, true),
		Sentence: "Whether the schedule runs; false pauses it",
	}, {
		Name: "pause_on_failure", field: fieldOf(func(s *Schedule) *bool { return &s.PauseOnFailure }, false),
		Sentence: "Pause the schedule when one of its submissions fails, expires or has a dead letter",
	}, {
		Name: "run_on_create", field: fieldOf(func(s *Schedule) *bool { return &s.RunOnCreate }, false),
		Sentence: "Insert once at the creation, in addition to the ticks",
	},
}

// ScheduleFields lists the fields of a schedule, without those that its template shares with a submission.
func ScheduleFields() []*Field[Schedule] { return slices.Clone(scheduleFields) }

// DefaultSchedule is a schedule with all defaults: it has no spec and inserts nothing.
func DefaultSchedule() (s Schedule) {
	defaults(scheduleFields, &s)
	return s
}

// Valid checks every field against its declaration, but not the template.
func (s *Schedule) Valid() error {
	if err := valid(scheduleFields, s); err != nil {
		return err
	}
	if s.Start != 0 && s.End != 0 && s.End < s.Start {
		return Invalid("/end", "is before start: there could never be a tick")
	}
	return nil
}

// ScheduleState is the state of a schedule.
type ScheduleState uint8

// The states. Held: it is due, but a rule forbids its work. Finished: it has no more ticks. Broken: this server cannot read its spec or
// its zone.
const (
	ScheduleActive ScheduleState = iota
	SchedulePaused
	ScheduleHeld
	ScheduleFinished
	ScheduleBroken
)

var scheduleStates = [...]string{"active", "paused", "held", "finished", "broken"}

func (s ScheduleState) String() string { return scheduleStates[s] }

// ScheduleInfo describes a schedule at one moment.
type ScheduleInfo struct {
	Name     string
	Schedule Schedule
	Version  uint32 // starts at 1 and rises with each change of the definition, each pause and each resume
	Created  Time
	Changed  Time
	State    ScheduleState
	Reason   string // why it is paused or broken
	Words    string // when it is due, in plain words
	Next     Time   // the next tick, without jitter; 0: none. It can be in the past while the schedule cannot emit
	Last     Time   // the last emitted tick
	LastID   SubmissionID
	Waiting  Time // a tick that waits to be emitted, from run_on_create or buffer_one; 0: none
	ScheduleCounts
	Recent []Emission // its last submissions by id, as far as the server knows them since its start
}

// Emission is a submission that a schedule inserted: by a tick, a trigger or a backfill.
type Emission struct {
	Tick  Time // for which it was inserted
	ID    SubmissionID
	State SubmissionState
}

// ScheduleCounts count the ticks since the creation of the schedule, by what happened to them.
type ScheduleCounts struct {
	Emitted    uint64
	Missed     uint64 // dropped by MissedSkip and MissedOnce
	Late       uint64 // dropped by MissedAll: outside its limit or its window
	Overlapped uint64 // dropped because the previous submission was open
}
