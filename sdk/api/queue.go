package api

// Queue is a queue with its settings; the answer of GET and PUT /v1/queues/{queue}.
type Queue struct {
	Name      string        `json:"name"`
	Settings  QueueSettings `json:"settings"`
	CreatedAt Time          `json:"created_at"`

	Quarantined *Quarantined `json:"quarantined,omitempty"` // why it does not serve; nil: it serves
}

// Quarantined says why a queue does not serve while the others do: its files are damaged or missing. Each start of the server tries
// it again.
type Quarantined struct {
	Reason string `json:"reason"` // what is wrong with which file, and what to do
	Since  Time   `json:"since"`
}

// The values of QueueSettings.Durability.
const (
	DurabilityFull    = "full"
	DurabilityRelaxed = "relaxed"
)

// QueueSettings is a queue's whole configuration.
type QueueSettings struct {
	Durability           string  `json:"durability"` // full or relaxed
	MaxAttempts          uint16  `json:"max_attempts"`
	MaxExpiries          uint8   `json:"max_expiries"`
	OnExhausted          string  `json:"on_exhausted"`
	ReservationTimeoutMS int64   `json:"reservation_timeout_ms"`
	MaxReservationMS     int64   `json:"max_reservation_ms"`
	RetryBackoff         Backoff `json:"retry_backoff"`
	ExpiryBackoff        Backoff `json:"expiry_backoff"`
	RetentionSeconds     int64   `json:"retention_seconds"`
	// how long dead letters are kept; 0: until they are redriven or discarded
	DeadRetentionSeconds int64  `json:"dead_retention_seconds"`
	DeadLetterQueue      string `json:"dead_letter_queue,omitempty"` // where dead letters go on to; "": they stay
	ConsumerGraceMS      int64  `json:"consumer_grace_ms"`           // from the end of a consumer's stream until what it holds is lost
	RestartGraceMS       int64  `json:"restart_grace_ms"`            // after a start nothing that a limit counts is handed out for so long
	Draining             bool   `json:"draining"`                    // inserts are refused
	// 0 to 1: of the live consumer slots, that chunks which expired may have beside other work
	SuspectShare float64 `json:"suspect_share"`
	Requeue      string  `json:"requeue"` // head or tail
}

// Backoff is min(cap, base*factor^(n-1)) after the n-th try, spread by full jitter.
type Backoff struct {
	BaseMS int64   `json:"base_ms"`
	Factor float64 `json:"factor"`
	CapMS  int64   `json:"cap_ms"`
}

// PutQueueRequest is the body of PUT /v1/queues/{queue}. It replaces all settings: what is left out gets its default.
type PutQueueRequest struct {
	Settings QueueSettingsInput `json:"settings,omitzero"`
}

// ChangeQueueRequest is the body of PATCH /v1/queues/{queue}. What is left out stays as it is.
type ChangeQueueRequest struct {
	Settings QueueSettingsInput `json:"settings,omitzero"`
}

// QueueSettingsInput is QueueSettings as a request: nil means the default, or, in a change, what it is.
type QueueSettingsInput struct {
	Durability           *string  `json:"durability,omitempty"`
	MaxAttempts          *uint16  `json:"max_attempts,omitempty"`
	MaxExpiries          *uint8   `json:"max_expiries,omitempty"`
	OnExhausted          *string  `json:"on_exhausted,omitempty"`
	ReservationTimeoutMS *int64   `json:"reservation_timeout_ms,omitempty"`
	MaxReservationMS     *int64   `json:"max_reservation_ms,omitempty"`
	RetryBackoff         *Backoff `json:"retry_backoff,omitempty"`
	ExpiryBackoff        *Backoff `json:"expiry_backoff,omitempty"`
	RetentionSeconds     *int64   `json:"retention_seconds,omitempty"`
	DeadRetentionSeconds *int64   `json:"dead_retention_seconds,omitempty"`
	DeadLetterQueue      *string  `json:"dead_letter_queue,omitempty"`
	ConsumerGraceMS      *int64   `json:"consumer_grace_ms,omitempty"`
	RestartGraceMS       *int64   `json:"restart_grace_ms,omitempty"`
	Draining             *bool    `json:"draining,omitempty"`
	SuspectShare         *float64 `json:"suspect_share,omitempty"`
	Requeue              *string  `json:"requeue,omitempty"`
}

// Stats are a queue's numbers, flat so that a scaler can read one by its path. Totals count from the server's start.
type Stats struct {
	Ready    uint64 `json:"ready"`
	Waiting  uint64 `json:"waiting"`
	Reserved uint64 `json:"reserved"`
	Paused   uint64 `json:"paused"`
	Blocked  uint64 `json:"blocked"`
	Done     uint64 `json:"done"`
	Skipped  uint64 `json:"skipped"`
	Dead     uint64 `json:"dead"`
	// dead chunks that can be redriven, also those of submissions that completed with dead ones
	DeadLetters              uint64  `json:"dead_letters"`
	Outgoing                 uint64  `json:"outgoing"` // dead letters on their way to another queue
	OperationsReady          uint64  `json:"operations_ready"`
	SubmissionsOpen          uint64  `json:"submissions_open"`
	ConsumersWaiting         uint64  `json:"consumers_waiting"`
	OldestReadySeconds       float64 `json:"oldest_ready_seconds"`
	InsertedTotal            uint64  `json:"inserted_total"`
	ReservedTotal            uint64  `json:"reserved_total"`
	DoneTotal                uint64  `json:"done_total"`
	FailedTotal              uint64  `json:"failed_total"`
	ExpiredTotal             uint64  `json:"expired_total"`
	ReleasedTotal            uint64  `json:"released_total"`
	ForwardedTotal           uint64  `json:"forwarded_total"` // dead letters that went on to another queue
	ArrivedTotal             uint64  `json:"arrived_total"`   // submissions that came as dead letters of another queue
	BulkOperationsRunning    uint64  `json:"bulk_operations_running"`
	LostTotal                uint64  `json:"lost_total"`    // reservations that ended with their consumers
	RevokedTotal             uint64  `json:"revoked_total"` // reservations that were taken from attached consumers
	ConsumersAttached        uint64  `json:"consumers_attached"`
	Draining                 uint8   `json:"draining"` // 1: inserts are refused
	Empty                    uint8   `json:"empty"`    // 1: no submission is open
	SubmissionsInsertedTotal uint64  `json:"submissions_inserted_total"`
	SubmissionsEndedTotal    uint64  `json:"submissions_ended_total"`
	CommitsTotal             uint64  `json:"commits_total"`
	CommitBytesTotal         uint64  `json:"commit_bytes_total"`
	JournalBytes             uint64  `json:"journal_bytes"`
	StoreBytes               uint64  `json:"store_bytes"`
	DiskFull                 uint8   `json:"disk_full"` // 1: inserts are refused for want of room
}

// Version is the answer of GET /version.
type Version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the source
	Go       string `json:"go"`
}

// ServerOptions is the answer of GET /v1/config: the options that the server runs with.
type ServerOptions struct {
	Options []ServerOption `json:"options"`
}

// ServerOption is one option of the server with the value that is in effect.
type ServerOption struct {
	Option string `json:"option"` // its name in a configuration file
	Value  string `json:"value"`
	// who said so: "default", "file PATH", "environment", "flag", or "command" where a command such as dev decides
	Source  string `json:"source"`
	Default string `json:"default"`
	Limit   string `json:"limit"` // what it may be, in words
	Help    string `json:"help"`  // what it does
}

// Readiness is the answer of GET /readyz?verbose.
type Readiness struct {
	Ready  bool    `json:"ready"`
	Checks []Check `json:"checks"`
}

// Check is one named part of Readiness.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}
