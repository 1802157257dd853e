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
	At    Time   `json:"at"`    // Time of these numbers
	Stats Stats  `json:"stats"` // The numbers
	Rates Rates  `json:"rates"` // Chunks per second over the last second

	// The first 20 rules: those of the whole queue, then the newest; absent when there are none
	Rules      []Rule `json:"rules,omitempty"`
	RulesTotal int    `json:"rules_total,omitempty"` // Number of rules
}

// Rates are chunks per second.
type Rates struct {
	Inserted float64 `json:"inserted"` // Chunks inserted, per second
	Reserved float64 `json:"reserved"` // Chunks reserved, per second
	Done     float64 `json:"done"`     // Chunks completed, per second
	Failed   float64 `json:"failed"`   // Attempts that failed, per second
}

// KeysFrame is how the values of a queue's meta keys stood at one moment.
type KeysFrame struct {
	Queue string     `json:"queue"` // Name of the queue
	At    Time       `json:"at"`    // Time of these numbers
	Keys  []KeyFrame `json:"keys"`  // The meta keys, by name
	Left  int        `json:"left"`  // Number of keys that the frame has no space for
}

// KeyFrame are the values of one key with most in flight, and the sum of the others.
type KeyFrame struct {
	Key    string `json:"key"`    // The meta key
	Values int    `json:"values"` // Number of values of open submissions that were read
	// Whether all values were read; if not, there are more, and the sums miss them
	Whole bool         `json:"whole"`
	Top   []ValueCount `json:"top"`  // Values with the most chunks in flight
	Rest  ValueSum     `json:"rest"` // Sum of the other values that were read
}

// ValueSum is the sum over some values.
type ValueSum struct {
	Values   int    `json:"values"`    // Number of values
	Ready    uint64 `json:"ready"`     // Their ready chunks
	InFlight uint64 `json:"in_flight"` // Their chunks in flight
}

// ConsumersFrame is how a queue's consumers stood at one moment: those with most overdue, then with most in hand, and sums over all.
type ConsumersFrame struct {
	Queue     string `json:"queue"`     // Name of the queue
	At        Time   `json:"at"`        // Time of these numbers
	Consumers int    `json:"consumers"` // Number of consumers examined
	Attached  int    `json:"attached"`  // Number of them with an open stream
	Overdue   uint64 `json:"overdue"`   // Chunks that they hold for longer than usual
	// Whether all consumers were examined; if not, there are more, and the sums miss them
	Whole bool `json:"whole"`
	// Consumers with the most overdue chunks, then with the most chunks
	Top  []Consumer `json:"top" limit:"..MaxFrameConsumers"`
	Left int        `json:"left"` // Number of consumers that the frame has no space for
}

// SchedulesFrame is how a queue's schedules stand, those that are due next first.
type SchedulesFrame struct {
	Queue string        `json:"queue"`                             // Name of the queue
	Items []ScheduleNow `json:"items" limit:"..MaxFrameSchedules"` // Schedules, the next due first
	// Number of schedules that the frame has no space for
	Left int `json:"left"`
}

// ScheduleNow has the changing fields of a schedule; Schedule has all fields.
type ScheduleNow struct {
	Name string `json:"name"` // Its name in the queue
	// Changes when the schedule is redefined, paused or resumed
	Version        uint32 `json:"version"`
	State          string `json:"state" names:"schedules"`   // As in Schedule
	Reason         string `json:"reason,omitempty"`          // Why it is paused or broken
	NextAt         Time   `json:"next_at,omitzero"`          // The next tick, without jitter; absent while paused
	LastAt         Time   `json:"last_at,omitzero"`          // The last emitted tick
	LastSubmission string `json:"last_submission,omitempty"` // Submission of that tick
	WaitingAt      Time   `json:"waiting_at,omitzero"`       // A tick still to be emitted, apart from next_at
	Emitted        uint64 `json:"emitted"`                   // Ticks emitted
	SkippedMissed  uint64 `json:"skipped_missed"`            // Ticks dropped by missed skip or once
	SkippedLate    uint64 `json:"skipped_late"`              // Ticks dropped by missed all
	SkippedOverlap uint64 `json:"skipped_overlap"`           // Ticks dropped because the last submission was open
	Open           int    `json:"open"`                      // Number of its last submissions that are open
	// Its last submission, by a tick, a trigger or a backfill
	Newest      string `json:"newest,omitempty"`
	NewestState string `json:"newest_state,omitempty"` // State of that submission
}

// Skipped says how many frames of a queue a subscriber was too slow for.
type Skipped struct {
	Queue  string `json:"queue"`  // Name of the queue
	Frames uint64 `json:"frames"` // Frames that the subscriber was too slow for
}

// Closed says that a stream follows a queue no longer. It has the code and detail with which a request for that queue
// alone is refused.
type Closed struct {
	Queue  string `json:"queue"`  // Name of the queue
	Code   string `json:"code"`   // Stable name of the reason, as in Problem
	Detail string `json:"detail"` // The reason in words, with advice
}

// Series are a queue's numbers over time, in columns of the same length, the oldest first. Rates are chunks per second since
// the point before.
type Series struct {
	Queue        string    `json:"queue"`         // Name of the queue
	StepSeconds  int       `json:"step_seconds"`  // Time between two points
	At           []int64   `json:"at"`            // Times, in milliseconds since 1970
	Ready        []uint64  `json:"ready"`         // Chunks that could be reserved
	Waiting      []uint64  `json:"waiting"`       // Chunks that waited for a retry or for run_at
	Reserved     []uint64  `json:"reserved"`      // Chunks held by consumers
	Dead         []uint64  `json:"dead"`          // Dead letters of open submissions
	InsertedRate []float64 `json:"inserted_rate"` // Chunks inserted, per second since the point before
	ReservedRate []float64 `json:"reserved_rate"` // Chunks reserved, per second since the point before
	DoneRate     []float64 `json:"done_rate"`     // Chunks completed, per second since the point before
	FailedRate   []float64 `json:"failed_rate"`   // Attempts that failed, per second since the point before
}

// KeySeries are the chunks in flight of the values of a meta key over the last ten minutes: the answer of GET
// /v1/queues/{queue}/meta-keys/{key}/timeseries.
type KeySeries struct {
	Key         string `json:"key"`          // The meta key
	StepSeconds int    `json:"step_seconds"` // Duration of a cell
	// End of the last cell's time, which is still running; absent without values
	Ends   Time          `json:"ends,omitzero"`
	Values []ValueSeries `json:"values"` // The values, sorted
}

// ValueSeries is the strip of one value: the most chunks in flight in each step, the oldest first; -1 where that is not known.
type ValueSeries struct {
	Value MetaValue `json:"value"` // The value
	// Most chunks in flight in each step, the oldest first; -1 if unknown
	InFlight []int64 `json:"in_flight"`
}
