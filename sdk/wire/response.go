package wire

import "github.com/quern-queue/quern/sdk/api"

// InsertedAt is when a submission was inserted, in milliseconds since 1970: the upper bits of its id.
func InsertedAt(submission uint64) int64 { return int64(submission >> 22) }

// Reservation is one reserved chunk in an answer.
type Reservation struct {
	Token      []byte // its 43 characters
	Submission uint64
	Index      uint32
	Attempt    uint32
	Deadline   int64  // milliseconds since 1970, as is ReadyAt
	ReadyAt    int64  // start of the wait for this attempt
	Content    []byte // the text of the key with IsKey, else the content itself
	IsKey      bool
	Meta       []byte // a raw JSON object, built with AppendMetaEntry; empty is {}
	Priority   int64
	Attachment []byte // nil: none
	Trace      string
}

// ReserveResponse is the answer of a reserve. Reason "" is null, as is RetryAfterMS without HasRetryAfter.
type ReserveResponse struct {
	Reservations  []Reservation
	Reason        string
	HasRetryAfter bool
	RetryAfterMS  int64
	Limited       []Saturated // empty: the field is left out
	Warnings      []Warning   // likewise

	scan scanner
}

// Saturated is a value that is at its limit (api.Saturated).
type Saturated struct {
	Key      string
	Value    api.MetaValue
	InFlight uint32
	Limit    uint32
	Missing  bool
}

// Warning is a part of a strategy that has no effect (api.StrategyWarning).
type Warning struct{ Kind, Pointer, Detail string }

// Result is the answer for one item. Deadline (milliseconds since 1970) is 0 when there is none.
type Result struct {
	Status   string
	Code     string
	Detail   string
	Deadline int64
	Inserted []uint64 // of a completion: the ids of the submissions that it brought
}

// ResultsResponse is the answer of complete, fail, extend and release.
type ResultsResponse struct {
	Results []Result

	scan scanner
}

// ExchangeResponse is the answer of an exchange.
type ExchangeResponse struct {
	Complete []Result
	Fail     []Result
	Extend   []Result
	ReserveResponse
}

// Submission is a submission object (api.Submission): the answer of an insert, a get and a cancel. Times are milliseconds
// since 1970, 0 for none; Meta is a raw JSON object or empty.
type Submission struct {
	ID                 uint64
	Queue              string
	State              string
	Chunks             uint32
	Ready              uint32
	Paused             uint32
	Blocked            uint32
	Waiting            uint32
	Reserved           uint32
	Done               uint32
	Dead               uint32
	Forwarded          uint32
	Skipped            uint32
	CreatedAt          int64
	Meta               []byte
	Priority           int64
	Group              string
	Shard              uint32
	OperationsPerChunk uint32
	Prefix             string
	Template           string
	HasAttachment      bool
	RunAt              int64
	DeadDeadline       int64
	FinishedAt         int64
	MaxAttempts        uint16
	OnExhausted        string
	MaxFailedChunks    uint32
	TimeoutMS          uint32 // 0: the queue's
	Failure            string
	FailedChunk        *uint32
	Trace              string
	Schedule           string
	ScheduledAt        int64
	RetryBackoff       *api.Backoff // nil: the queue's
	Unique             *api.Unique  // nil: none
	After              *api.After   // nil: none
	WaitsFor           []string
	Existing           bool
}
