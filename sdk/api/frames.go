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
	Queue string `json:"queue"`
	At    Time   `json:"at"`
	Stats Stats  `json:"stats"`
	Rates Rates  `json:"rates"` // over the last second
	// what can be handed out, at the pace of the last minute; absent: nothing was done, or a rule or a cancel changed it
	EmptiesMS int64 `json:"empties_ms,omitempty"`

	Rules      []Rule `json:"rules,omitempty"` // at most 20: those of the whole queue, then the newest
	RulesTotal int    `json:"rules_total,omitempty"`
}

// Rates are chunks per second.
type Rates struct {
	Inserted float64 `json:"inserted"`
	Reserved float64 `json:"reserved"`
	Done     float64 `json:"done"`
	Failed   float64 `json:"failed"`
}

// KeysFrame is how the values of a queue's meta keys stood at one moment.
type KeysFrame struct {
	Queue string     `json:"queue"`
	At    Time       `json:"at"`
	Keys  []KeyFrame `json:"keys"`
	Left  int        `json:"left"` // keys that the frame has no room for
}

// KeyFrame are the values of one key with most in flight, and the sum of the others.
type KeyFrame struct {
	Key    string       `json:"key"`
	Values int          `json:"values"` // that were read
	Whole  bool         `json:"whole"`  // all were read; otherwise there are more, and the sums miss them
	Top    []ValueCount `json:"top"`
	Rest   ValueSum     `json:"rest"`
}

// ValueSum is the sum over some values.
type ValueSum struct {
	Values   int    `json:"values"`
	Ready    uint64 `json:"ready"`
	InFlight uint64 `json:"in_flight"`
}

// ConsumersFrame is how a queue's consumers stood at one moment: those with most overdue, then with most in hand, and sums over all.
type ConsumersFrame struct {
	Queue     string     `json:"queue"`
	At        Time       `json:"at"`
	Consumers int        `json:"consumers"` // that were looked at
	Attached  int        `json:"attached"`
	Overdue   uint64     `json:"overdue"` // chunks
	Whole     bool       `json:"whole"`   // all were looked at; otherwise there are more, and the sums miss them
	Top       []Consumer `json:"top"`     // at most 100
	Left      int        `json:"left"`    // that the frame has no room for
}

// SchedulesFrame is how a queue's schedules stand, those that are due next first.
type SchedulesFrame struct {
	Queue string        `json:"queue"`
	Items []ScheduleNow `json:"items"` // at most 200
	Left  int           `json:"left"`  // that the frame has no room for
}

// ScheduleNow is what moves of a schedule; Schedule has all of it.
type ScheduleNow struct {
	Name           string `json:"name"`
	Version        uint32 `json:"version"`
	State          string `json:"state"`
	Reason         string `json:"reason,omitempty"`
	NextAt         Time   `json:"next_at,omitzero"`
	LastAt         Time   `json:"last_at,omitzero"`
	LastSubmission string `json:"last_submission,omitempty"`
	WaitingAt      Time   `json:"waiting_at,omitzero"`
	Emitted        uint64 `json:"emitted"`
	SkippedMissed  uint64 `json:"skipped_missed"`
	SkippedLate    uint64 `json:"skipped_late"`
	SkippedOverlap uint64 `json:"skipped_overlap"`
	Open           int    `json:"open"`             // of its last submissions
	Newest         string `json:"newest,omitempty"` // of them
	NewestState    string `json:"newest_state,omitempty"`
}

// Skipped says how many frames of a queue a subscriber was too slow for.
type Skipped struct {
	Queue  string `json:"queue"`
	Frames uint64 `json:"frames"`
}

// Closed says that a stream follows a queue no longer, with the code and detail that a request for it alone is refused with.
type Closed struct {
	Queue  string `json:"queue"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// Series are a queue's numbers over time, in columns of the same length, the oldest first. Rates are chunks per second since
// the point before.
type Series struct {
	Queue        string    `json:"queue"`
	StepSeconds  int       `json:"step_seconds"`
	At           []int64   `json:"at"` // milliseconds since the epoch
	Ready        []uint64  `json:"ready"`
	Waiting      []uint64  `json:"waiting"`
	Reserved     []uint64  `json:"reserved"`
	Dead         []uint64  `json:"dead"`
	InsertedRate []float64 `json:"inserted_rate"`
	ReservedRate []float64 `json:"reserved_rate"`
	DoneRate     []float64 `json:"done_rate"`
	FailedRate   []float64 `json:"failed_rate"`
}

// KeySeries are the chunks in flight of the values of a meta key over the last ten minutes: the answer of GET
// /v1/queues/{queue}/meta-keys/{key}/timeseries.
type KeySeries struct {
	Key         string        `json:"key"`
	StepSeconds int           `json:"step_seconds"`
	Ends        Time          `json:"ends,omitzero"` // of the last cell, whose step runs
	Values      []ValueSeries `json:"values"`
}

// ValueSeries is the strip of one value: the most chunks in flight in each step, the oldest first; -1 where that is not known.
type ValueSeries struct {
	Value    MetaValue `json:"value"`
	InFlight []int64   `json:"in_flight"`
}
