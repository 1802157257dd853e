package queue

import "time"

// Limits of schedules.
const (
	MaxScheduleNameBytes = 64
	MaxSchedules         = 1000 // of a queue: all are in memory and looked at together
	// attachment, template and inline bytes of what one inserts: they are kept in memory, and written again for each tick
	MaxScheduleBytes       = 64 << 10
	MaxCatchUp             = 1000 // ticks that are emitted late
	DefaultCatchUp         = 100
	MaxCatchUpWindow       = 366 * 24 * time.Hour
	DefaultCatchUpWindow   = time.Hour
	MaxJitter              = 24 * time.Hour
	MaxPreview             = 100 // ticks of one preview
	MaxBackfill            = 1000
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
func ParseMissed(text string) (Missed, bool) {
	for i, name := range missedNames {
		if name == text {
			return Missed(i), true
		}
	}
	return 0, false
}

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
func ParseOverlap(text string) (Overlap, bool) {
	for i, name := range overlapNames {
		if name == text {
			return Overlap(i), true
		}
	}
	return 0, false
}

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
	PauseOnFailure bool // disable it when a submission of it fails or expires
	RunOnCreate    bool // emit once when it is made, beside its ticks
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
