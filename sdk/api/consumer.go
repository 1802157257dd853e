package api

// Consumer is what is known about a consumer; the answer of GET /v1/queues/{queue}/consumers/{consumer} adds what it holds.
type Consumer struct {
	Consumer string `json:"consumer"` // Its name
	// attached: it has a stream open. away: its stream is broken, and the queue's consumer_grace_ms is not over. detached: only deadlines
	// end what it holds
	State            string `json:"state" names:"consumers"`
	AttachedSince    Time   `json:"attached_since,omitzero"`     // When it attached
	AwaySince        Time   `json:"away_since,omitzero"`         // Since when its stream is broken
	LostAt           Time   `json:"lost_at,omitzero"`            // While away: when what it holds is lost, unless it is heard of
	LastSeenAt       Time   `json:"last_seen_at,omitzero"`       // Its last sign of life
	Draining         bool   `json:"draining"`                    // Whether an operator told it to finish what it holds and leave
	Quiet            bool   `json:"quiet"`                       // Whether an operator keeps work from it
	Reserved         uint64 `json:"reserved"`                    // Chunks that it holds
	OldestReservedAt Time   `json:"oldest_reserved_at,omitzero"` // Since when it holds the oldest of them
	// Of them, those that it holds for longer than the queue's reservation_timeout_ms; at most 1,000 are counted
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
	Items []HeldChunk `json:"items"`          // What it holds, the oldest reservation first
	Next  string      `json:"next,omitempty"` // Cursor of the next page; absent on the last
}

// HeldChunk is a chunk in a consumer's hands.
type HeldChunk struct {
	Submission string `json:"submission"`          // Its submission
	Index      uint32 `json:"index"`               // Index of the chunk
	Meta       Meta   `json:"meta"`                // Of the submission
	Attempt    uint32 `json:"attempt"`             // 1 for the first try
	ReservedAt Time   `json:"reserved_at"`         // Since when it is held
	Deadline   Time   `json:"deadline"`            // Until when
	Finishing  bool   `json:"finishing,omitempty"` // Whether its end is on its way to the disk
}

// HeldReservation is a chunk that a consumer holds, in a list across consumers and submissions.
type HeldReservation struct {
	Submission string `json:"submission"`          // Its submission
	Index      uint32 `json:"index"`               // Index of the chunk
	Attempt    uint32 `json:"attempt"`             // 1 for the first try
	Consumer   string `json:"consumer"`            // Name of the consumer that holds it; empty if it gave none
	Since      Time   `json:"since"`               // When it was reserved
	HeldMS     int64  `json:"held_ms"`             // For how long it is held, by the server's clock
	Deadline   Time   `json:"deadline"`            // Until when it is held
	Overdue    bool   `json:"overdue"`             // Whether it is held for longer than the queue's reservation_timeout_ms
	Finishing  bool   `json:"finishing,omitempty"` // Whether its end is on its way to the disk
	Meta       Meta   `json:"meta"`                // Of the submission
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
	Released int `json:"released"` // How many chunks went back, with no try counted
}

// Events of GET /v1/queues/{queue}/consumers/{consumer}/attach.
const (
	EventHello   = "hello"   // Hello: at the beginning, and again when the server has forgotten all reservations
	EventDrain   = "drain"   // finish what you hold, detach and leave
	EventQuiet   = "quiet"   // you get nothing new for now
	EventResume  = "resume"  // neither of them any more
	EventRevoked = "revoked" // RevokedEvent: reservations that were taken from you
)

// Hello tells an attached consumer how things are. When Epoch is another one than at the last time, the server may have forgotten all
// reservations: a consumer that holds chunks extends them under its name, and has them again. Do so after every Hello.
type Hello struct {
	Consumer    string `json:"consumer"`     // The consumer's name
	HeartbeatMS int64  `json:"heartbeat_ms"` // The server says something at least so often
	// Rises with every start of the queue, and when it reloads after a failed write. Another one than at the last time: the server
	// may have begun again; after an unplanned end it has forgotten all reservations
	Epoch           uint32 `json:"epoch"`
	ConsumerGraceMS int64  `json:"consumer_grace_ms"` // From the end of the stream until what the consumer holds is lost
	Reserved        int    `json:"reserved"`          // Chunks that the server knows the consumer to hold
}

// RevokedEvent are reservations that were taken from a consumer.
type RevokedEvent struct {
	Items []Revoked `json:"items"` // The reservations
}

// Revoked is one of them: what is done under its token does not count any more.
type Revoked struct {
	Token  string `json:"token"`                      // Its token: what is done under it does not count any more
	Reason string `json:"reason" names:"revocations"` // Why
}

// The reasons of a Revoked.
const (
	RevokedEnded    = "submission_ended" // the submission ended
	RevokedExpired  = "expired"          // the deadline passed
	RevokedOperator = "operator"         // an operator took it
	RevokedRule     = "rule"             // a rule did
)
