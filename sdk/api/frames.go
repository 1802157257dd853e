package api

// Events of GET /v1/events.
const (
	EventSeries  = "series"  // Series: the points that the subscriber does not have yet, before the first frame
	EventStats   = "stats"   // StatsFrame, once a second
	EventKeys    = "keys"    // KeysFrame, once a second
	EventSkipped = "skipped" // Skipped: the subscriber was too slow for some frames

	EventClosed = "closed" // Closed: a queue is followed no longer

	EventConsumers = "consumers" // ConsumersFrame, once a second, of the topic consumers
	EventSchedules = "schedules" // SchedulesFrame, of the topic schedules, when it says something new
)

// StatsFrame is how a queue stood at one moment.
type StatsFrame struct {
	Queue string `json:"queue"` // Name of the queue
	At    Time   `json:"at"`    // When it stood so
	Stats Stats  `json:"stats"` // The numbers
	Rates Rates  `json:"rates"` // Chunks per second over the last second
	// How long what can be handed out lasts at the pace of the last minute, without what rules hold; absent when nothing was done, and for
	// a minute after a rule or a cancel changed what can be handed out
	EmptiesMS int64 `json:"empties_ms,omitempty"`

	// The first 20 rules: those of the whole queue, then the newest; absent when there are none
	Rules      []Rule `json:"rules,omitempty"`
	RulesTotal int    `json:"rules_total,omitempty"` // How many rules there are
}

// Rates are chunks per second.
type Rates struct {
	Inserted float64 `json:"inserted"` // Chunks inserted, per second
	Reserved float64 `json:"reserved"` // Chunks reserved, per second
	Done     float64 `json:"done"`     // Chunks completed, per second
	Failed   float64 `json:"failed"`   // Tries that failed, per second
}

// KeysFrame is how the values of a queue's meta keys stood at one moment.
type KeysFrame struct {
	Queue string     `json:"queue"` // Name of the queue
	At    Time       `json:"at"`    // When it stood so
	Keys  []KeyFrame `json:"keys"`  // The meta keys, by name
	Left  int        `json:"left"`  // Keys that the frame has no room for
}

// KeyFrame are the values of one key with most in flight, and the sum of the others.
type KeyFrame struct {
	Key    string       `json:"key"`    // The meta key
	Values int          `json:"values"` // Values of open submissions that were read
	Whole  bool         `json:"whole"`  // Whether all were read; otherwise there are more, and the sums miss them
	Top    []ValueCount `json:"top"`    // The values with most in flight
	Rest   ValueSum     `json:"rest"`   // The sum of the other values that were read
}

// ValueSum is the sum over some values.
type ValueSum struct {
	Values   int    `json:"values"`    // How many values
	Ready    uint64 `json:"ready"`     // Their ready chunks
	InFlight uint64 `json:"in_flight"` // Their chunks that are held
}

// ConsumersFrame is how a queue's consumers stood at one moment: those with most overdue, then with most in hand, and sums over all.
type ConsumersFrame struct {
	Queue     string     `json:"queue"`                           // Name of the queue
	At        Time       `json:"at"`                              // When it stood so
	Consumers int        `json:"consumers"`                       // How many were looked at
	Attached  int        `json:"attached"`                        // Of them, with a stream open
	Overdue   uint64     `json:"overdue"`                         // Chunks that they hold for longer than usual
	Whole     bool       `json:"whole"`                           // All were looked at; otherwise there are more, and the sums miss them
	Top       []Consumer `json:"top" limit:"..MaxFrameConsumers"` // Those with most overdue, then with most in hand
	Left      int        `json:"left"`                            // Those that the frame has no room for
}

// SchedulesFrame is how a queue's schedules stand, those that are due next first.
type SchedulesFrame struct {
	Queue string        `json:"queue"`                             // Name of the queue
	Items []ScheduleNow `json:"items" limit:"..MaxFrameSchedules"` // Those that are due next come first
	Left  int           `json:"left"`                              // Those that the frame has no room for
}

// ScheduleNow is what moves of a schedule; Schedule has all of it.
type ScheduleNow struct {
	Name           string `json:"name"`                      // Its name in the queue
	Version        uint32 `json:"version"`                   // Changes when the schedule is redefined, paused or resumed
	State          string `json:"state" names:"schedules"`   // As in Schedule
	Reason         string `json:"reason,omitempty"`          // Why it is paused or broken
	NextAt         Time   `json:"next_at,omitzero"`          // The next tick, jitter not counted; absent while it is paused
	LastAt         Time   `json:"last_at,omitzero"`          // The last tick that was emitted
	LastSubmission string `json:"last_submission,omitempty"` // What it inserted
	WaitingAt      Time   `json:"waiting_at,omitzero"`       // A tick that is still to be emitted, apart from next_at
	Emitted        uint64 `json:"emitted"`                   // Ticks emitted
	SkippedMissed  uint64 `json:"skipped_missed"`            // Ticks dropped by missed skip or once
	SkippedLate    uint64 `json:"skipped_late"`              // Ticks dropped by missed all
	SkippedOverlap uint64 `json:"skipped_overlap"`           // Ticks dropped because the submission before was open
	Open           int    `json:"open"`                      // Of its last submissions, how many are open
	Newest         string `json:"newest,omitempty"`          // The last submission that it inserted: by a tick, a trigger or a backfill
	NewestState    string `json:"newest_state,omitempty"`    // How that stands
}

// Skipped says how many frames of a queue a subscriber was too slow for.
type Skipped struct {
	Queue  string `json:"queue"`  // Name of the queue
	Frames uint64 `json:"frames"` // Frames that the subscriber was too slow for
}

// Closed says that a stream follows a queue no longer, with the code and detail that a request for it alone is refused with.
type Closed struct {
	Queue  string `json:"queue"`  // Name of the queue
	Code   string `json:"code"`   // Stable name of the reason, as in Problem
	Detail string `json:"detail"` // The reason in words, and what can be done
}

// Series are a queue's numbers over time, in columns of the same length, the oldest first. Rates are chunks per second since
// the point before.
type Series struct {
	Queue        string    `json:"queue"`         // Name of the queue
	StepSeconds  int       `json:"step_seconds"`  // Time from point to point
	At           []int64   `json:"at"`            // When, in milliseconds since 1970
	Ready        []uint64  `json:"ready"`         // Chunks that could be reserved
	Waiting      []uint64  `json:"waiting"`       // Chunks that waited for a time
	Reserved     []uint64  `json:"reserved"`      // Chunks held by consumers
	Dead         []uint64  `json:"dead"`          // Chunks out of attempts
	InsertedRate []float64 `json:"inserted_rate"` // Chunks inserted, per second since the point before
	ReservedRate []float64 `json:"reserved_rate"` // Chunks reserved, per second since the point before
	DoneRate     []float64 `json:"done_rate"`     // Chunks completed, per second since the point before
	FailedRate   []float64 `json:"failed_rate"`   // Tries that failed, per second since the point before
}

// KeySeries are the chunks in flight of the values of a meta key over the last ten minutes: the answer of GET
// /v1/queues/{queue}/meta-keys/{key}/timeseries.
type KeySeries struct {
	Key         string        `json:"key"`           // The meta key
	StepSeconds int           `json:"step_seconds"`  // Time that one cell stands for
	Ends        Time          `json:"ends,omitzero"` // End of the time of the last cell, which runs; absent without values
	Values      []ValueSeries `json:"values"`        // The values, sorted
}

// ValueSeries is the strip of one value: the most chunks in flight in each step, the oldest first; -1 where that is not known.
type ValueSeries struct {
	Value    MetaValue `json:"value"`     // The value
	InFlight []int64   `json:"in_flight"` // The most chunks in flight in each step, the oldest first; -1 where that is not known
}
