package api

// Consumer is what is known about a consumer; the answer of GET /v1/queues/{queue}/consumers/{consumer} adds what it holds.
type Consumer struct {
	Consumer string `json:"consumer"` // Name of the consumer
	// attached: it has an open stream. away: its stream broke, within the queue's consumer_grace_ms. detached: only
	// deadlines end its reservations
	State         string `json:"state" names:"consumers"`
	AttachedSince Time   `json:"attached_since,omitzero"` // Time when it attached
	AwaySince     Time   `json:"away_since,omitzero"`     // Time when its stream broke
	// While away: time when its reservations are lost, unless it returns
	LostAt     Time `json:"lost_at,omitzero"`
	LastSeenAt Time `json:"last_seen_at,omitzero"` // Time of its last call
	// Whether an operator told it to finish its chunks and leave
	Draining         bool   `json:"draining"`
	Quiet            bool   `json:"quiet"`                       // Whether an operator keeps new work from it
	Reserved         uint64 `json:"reserved"`                    // Chunks that it holds
	OldestReservedAt Time   `json:"oldest_reserved_at,omitzero"` // Time of its oldest reservation
	// Number of its chunks held for longer than the queue's reservation_timeout_ms; at most 1,000 are counted
	Overdue uint64 `json:"overdue" limit:"0..MaxOverdue"`
}

// The states of a consumer.
const (
	ConsumerAttached = "attached" // it has a stream open
	ConsumerAway     = "away"     // its stream is broken, and the queue's consumer_grace_ms is not over
	ConsumerDetached = "detached" // it has none; only deadlines end what it holds
)

// ConsumerDetail is a consumer with what it holds, page by page, the oldest reservation first.
type ConsumerDetail struct {
	Consumer
	Items []HeldChunk `json:"items"`          // Its reservations, the oldest first
	Next  string      `json:"next,omitempty"` // Cursor of the next page; absent on the last
}

// HeldChunk is a chunk in a consumer's hands.
type HeldChunk struct {
	Submission string `json:"submission"`  // Its submission
	Index      uint32 `json:"index"`       // Index of the chunk
	Meta       Meta   `json:"meta"`        // Meta of the submission
	Attempt    uint32 `json:"attempt"`     // Number of the attempt, from 1
	ReservedAt Time   `json:"reserved_at"` // Time of the reservation
	Deadline   Time   `json:"deadline"`    // Deadline of the reservation
	// Whether the server is writing the end of the reservation to disk
	Finishing bool `json:"finishing,omitempty"`
	// Share of the work that is done, 0 to 1, as the consumer last reported
	Progress *float64 `json:"progress,omitempty"`
	Note     string   `json:"note,omitempty"` // The latest note of the consumer
}

// HeldReservation is a chunk that a consumer holds, in a list across consumers and submissions.
type HeldReservation struct {
	Submission string `json:"submission"` // Its submission
	Index      uint32 `json:"index"`      // Index of the chunk
	Attempt    uint32 `json:"attempt"`    // Number of the attempt, from 1
	Consumer   string `json:"consumer"`   // Name of the consumer; empty if it gave none
	Since      Time   `json:"since"`      // Time of the reservation
	HeldMS     int64  `json:"held_ms"`    // Time since the reservation, by the server's clock
	Deadline   Time   `json:"deadline"`   // Deadline of the reservation
	// Whether the consumer has held it for longer than the queue's reservation_timeout_ms
	Overdue bool `json:"overdue"`
	// Whether the server is writing the end of the reservation to disk
	Finishing bool `json:"finishing,omitempty"`
	Meta      Meta `json:"meta"` // Meta of the submission
	// Share of the work that is done, 0 to 1, as its consumer last reported
	Progress *float64 `json:"progress,omitempty"`
	Note     string   `json:"note,omitempty"` // The latest note of the consumer
}

// HeldFilter says which of a queue's reservations to list, and how. The zero value lists all, held for longest first.
type HeldFilter struct {
	Submission string
	Consumer   string
	Meta       Meta // all of these
	Overdue    bool // only what is held for longer than the queue's reservation_timeout_ms
	ByDeadline bool // the earliest deadline first

	Limit int // reservations per page, 1 to 1,000; 0 is the server's default
}

// Released is the answer of .../consumers/{consumer}/detach and /release: how many chunks went back.
type Released struct {
	Released int `json:"released"` // Number of chunks given back, without counting an attempt
}

// Events of GET /v1/queues/{queue}/consumers/{consumer}/attach.
const (
	EventHello   = "hello"   // Hello: at the beginning, and again when the server has forgotten all reservations
	EventDrain   = "drain"   // finish what you hold, detach and leave
	EventQuiet   = "quiet"   // you get nothing new for now
	EventResume  = "resume"  // neither of them any more
	EventRevoked = "revoked" // RevokedEvent: reservations that were taken from you
)

// Hello tells an attached consumer the present state. When Epoch is not the last one that it got, the server may have
// forgotten all reservations: a consumer that holds chunks extends them under its name, and has them again. Do so
// after every Hello.
type Hello struct {
	Consumer    string `json:"consumer"`     // The consumer's name
	HeartbeatMS int64  `json:"heartbeat_ms"` // Longest silence of the server
	// Rises with every start of the queue, and when it reloads after a failed write. If it differs from the last one,
	// the server may have restarted; after an unplanned end it has forgotten all reservations
	Epoch uint32 `json:"epoch"`
	// Time from the end of the stream until the consumer's reservations are lost
	ConsumerGraceMS int64 `json:"consumer_grace_ms"`
	Reserved        int   `json:"reserved"` // Number of the consumer's chunks that the server knows
}

// RevokedEvent are reservations that were taken from a consumer.
type RevokedEvent struct {
	Items []Revoked `json:"items"` // The revoked reservations
}

// Revoked is one of them: results under its token no longer count.
type Revoked struct {
	Token  string `json:"token"`                      // Token of the reservation; results under it no longer count
	Reason string `json:"reason" names:"revocations"` // Reason
}

// The reasons of a Revoked.
const (
	RevokedEnded    = "submission_ended" // the submission ended
	RevokedExpired  = "expired"          // the deadline passed
	RevokedOperator = "operator"         // an operator took it
	RevokedRule     = "rule"             // a rule did
)
