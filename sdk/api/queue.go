package api

// Queue is a queue with its settings; the answer of GET and PUT /v1/queues/{queue}.
type Queue struct {
	Name      string        `json:"name"`       // Name: 1 to 64 letters, digits, '_', '-' and '.'
	Settings  QueueSettings `json:"settings"`   // The whole configuration
	CreatedAt Time          `json:"created_at"` // When it was created

	Quarantined *Quarantined `json:"quarantined,omitempty"` // Why it does not serve while other queues do; absent: it serves
}

// Quarantined says why a queue does not serve while the others do: its files are damaged or missing. Each start of the server tries
// it again.
type Quarantined struct {
	Reason string `json:"reason"` // What is wrong with which file, and what to do
	Since  Time   `json:"since"`  // The first start of the server at which it could not be opened; each start tries again
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
	// after a start nothing that a limit counts is handed out for so long
	RestartGraceMS int64 `json:"restart_grace_ms"`
	Draining       bool  `json:"draining"` // inserts are refused
	// 0 to 1: of the live consumer slots, that chunks which expired may have beside other work
	SuspectShare float64 `json:"suspect_share"`
	Requeue      string  `json:"requeue"` // head or tail
}

// Backoff is min(cap, base*factor^(n-1)) after the n-th try, spread by full jitter.
type Backoff struct {
	BaseMS int64   `json:"base_ms"`               // Longest delay after the first try
	Factor float64 `json:"factor" limit:"0..100"` // Growth from try to try, 1 or more; 0 with a base of 0
	CapMS  int64   `json:"cap_ms"`                // No delay is longer
}

// PutQueueRequest is the body of PUT /v1/queues/{queue}. It replaces all settings: what is left out gets its default.
type PutQueueRequest struct {
	Settings QueueSettingsInput `json:"settings,omitzero"` // What is left out gets its default
}

// ChangeQueueRequest is the body of PATCH /v1/queues/{queue}. What is left out stays as it is.
type ChangeQueueRequest struct {
	Settings QueueSettingsInput `json:"settings,omitzero"` // What is left out stays as it is
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
	Ready    uint64 `json:"ready"`    // Chunks that can be reserved now
	Waiting  uint64 `json:"waiting"`  // Chunks that wait for a time
	Reserved uint64 `json:"reserved"` // Chunks held by consumers
	Paused   uint64 `json:"paused"`   // Chunks kept back by pause rules
	Blocked  uint64 `json:"blocked"`  // Chunks kept back by block rules
	Done     uint64 `json:"done"`     // Chunks of open submissions that are completed
	Skipped  uint64 `json:"skipped"`  // Chunks of open submissions that were given up
	Dead     uint64 `json:"dead"`     // Dead chunks of open submissions
	// Dead chunks that can be redriven: dead, and those of submissions that completed with dead ones
	DeadLetters      uint64 `json:"dead_letters"`
	Outgoing         uint64 `json:"outgoing"`          // Dead letters on their way to another queue
	OperationsReady  uint64 `json:"operations_ready"`  // Operations that the ready chunks stand for
	SubmissionsOpen  uint64 `json:"submissions_open"`  // Submissions that have not ended
	ConsumersWaiting uint64 `json:"consumers_waiting"` // Reserve calls that wait for work
	// Age of the oldest submission with a ready chunk; 0 when there is none
	OldestReadySeconds    float64 `json:"oldest_ready_seconds"`
	InsertedTotal         uint64  `json:"inserted_total"`          // Chunks inserted
	ReservedTotal         uint64  `json:"reserved_total"`          // Chunks reserved
	DoneTotal             uint64  `json:"done_total"`              // Chunks completed
	FailedTotal           uint64  `json:"failed_total"`            // Tries that failed
	ExpiredTotal          uint64  `json:"expired_total"`           // Deadlines that passed
	ReleasedTotal         uint64  `json:"released_total"`          // Chunks given back unworked
	ForwardedTotal        uint64  `json:"forwarded_total"`         // Dead letters that went on to another queue
	ArrivedTotal          uint64  `json:"arrived_total"`           // Submissions that came as dead letters of another queue
	BulkOperationsRunning uint64  `json:"bulk_operations_running"` // Bulk operations that run
	LostTotal             uint64  `json:"lost_total"`              // Reservations that ended because their consumer was lost
	// Reservations that were taken from attached consumers, which were told so
	RevokedTotal             uint64 `json:"revoked_total"`
	ConsumersAttached        uint64 `json:"consumers_attached"`         // Consumers that have a stream open
	Draining                 uint8  `json:"draining" limit:"0..1"`      // 1: inserts are refused by the queue's settings
	Empty                    uint8  `json:"empty" limit:"0..1"`         // 1: no submission is open
	SubmissionsInsertedTotal uint64 `json:"submissions_inserted_total"` // Submissions inserted
	SubmissionsEndedTotal    uint64 `json:"submissions_ended_total"`    // Submissions that ended, in any way
	CommitsTotal             uint64 `json:"commits_total"`              // Group commits
	CommitBytesTotal         uint64 `json:"commit_bytes_total"`         // Bytes of all group commits
	JournalBytes             uint64 `json:"journal_bytes"`              // Size of the journal on disk
	StoreBytes               uint64 `json:"store_bytes"`                // Size of the store on disk
	DiskFull                 uint8  `json:"disk_full" limit:"0..1"`     // 1: inserts are refused for want of room
}

// Version is the answer of GET /version.
type Version struct {
	Version  string `json:"version"`            // The release
	Revision string `json:"revision,omitempty"` // Of the source
	Go       string `json:"go"`                 // The toolchain
}

// ServerOptions is the answer of GET /v1/config: the options that the server runs with.
type ServerOptions struct {
	Options []ServerOption `json:"options"` // Every option, in the order of the server's help
}

// ServerOption is one option of the server with the value that is in effect.
type ServerOption struct {
	// Its name in a configuration file; the flag has '-' for '_', the environment the same in capitals after QUERN_
	Option string `json:"option"`
	Value  string `json:"value"` // What is in effect
	// Who had the last word: default, file PATH, environment, flag, or command where a command such as dev decides
	Source  string `json:"source"`
	Default string `json:"default"` // The value when none is given
	Limit   string `json:"limit"`   // What it may be, in words
	Help    string `json:"help"`    // What it does
}

// Readiness is the answer of GET /readyz?verbose.
type Readiness struct {
	Ready  bool    `json:"ready"`  // Always true: what is not ready answers 503
	Checks []Check `json:"checks"` // Every check, with ?verbose
}

// Check is one named part of Readiness.
type Check struct {
	Name   string `json:"name"`             // What was checked
	OK     bool   `json:"ok"`               // Whether it works
	Detail string `json:"detail,omitempty"` // How it stands
}
