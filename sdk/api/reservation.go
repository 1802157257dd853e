package api

import "encoding/json"

// ReserveRequest is the body of POST /v1/queues/{queue}/reservations. Strategy is one JSON value: the text form in a
// string, a tree, or {"name":"..."}; nil means Random. WaitMS is at most 60,000. Context is for plugins.
type ReserveRequest struct {
	Max       int             `json:"max" limit:"1..MaxReserve"`                        // Most chunks to take
	Strategy  json.RawMessage `json:"strategy,omitempty" schema:"Strategy"`             // What to take first; absent: Random
	Consumer  string          `json:"consumer,omitempty" limit:"..MaxConsumerBytes"`    // Name of the consumer, for people
	WaitMS    int64           `json:"wait_ms,omitempty" limit:"0..MaxWaitMS"`           // How long to wait while there is nothing
	TimeoutMS int64           `json:"timeout_ms,omitempty" limit:"0..MaxReservationMS"` // Deadline from now; 0 or absent: the queue's
	// What the consumer says about itself to plugins: at most 16 keys
	Context Meta `json:"context,omitempty"`
}

// ReserveResponse is the answer of a reserve. Reason and RetryAfterMS are null when Reservations is not empty. Limited is for
// ReasonAllLimited: up to 10 of the values that are at their limit.
type ReserveResponse struct {
	Reservations []Reservation `json:"reservations"`                           // What was reserved, in the order of the strategy
	Reason       *string       `json:"reason" names:"reasons" nullable:"true"` // Why nothing was reserved; null when something was
	RetryAfterMS *int64        `json:"retry_after_ms" nullable:"true"`         // When to ask again, where that is known
	// With all_limited: some of the values that are at their limit; absent otherwise
	Limited []Saturated `json:"limited,omitempty" limit:"..MaxLimited"`

	// Blocks of the strategy that are not scored, as their plugin, or its version, is not there, not active, or out of use for now; absent
	// when there is none
	Warnings []StrategyWarning `json:"warnings,omitempty"`
}

// The reasons of an empty ReserveResponse.
const (
	ReasonNothing    = "nothing"
	ReasonAllLimited = "all_limited"
	ReasonPaused     = "paused"
	ReasonNotYetDue  = "not_yet_due"
	ReasonAllSkipped = "all_skipped"

	ReasonRestartGrace = "restart_grace" // what there is falls under a limit, and the queue's restart grace is not over
	ReasonQuiet        = "quiet"         // an operator keeps work from this consumer
	ReasonDraining     = "draining"      // an operator wants this consumer to finish what it holds and leave
)

// Reservation is a chunk in a consumer's hands.
type Reservation struct {
	Token      string  `json:"token"`               // Proof of holding the chunk; needed to finish it
	Submission string  `json:"submission"`          // Id of the submission
	Index      uint32  `json:"index"`               // Index of the chunk
	Attempt    uint32  `json:"attempt"`             // 1 for the first try
	Deadline   Time    `json:"deadline"`            // After it the chunk is offered again
	Content    Content `json:"content"`             // What to work on
	Meta       Meta    `json:"meta"`                // Of the submission
	Priority   int64   `json:"priority"`            // Of the submission
	Attachment Bytes   `json:"attachment,omitzero"` // Of the submission
	Trace      string  `json:"trace,omitempty"`     // W3C trace context of the insert
}

// CompleteItem says that a chunk is done. Output nil is none.
type CompleteItem struct {
	Token  string `json:"token"`           // As the reservation gave it
	Output Bytes  `json:"output,omitzero"` // At most 1 MiB, kept with the chunk
}

// FailItem says that a try did not succeed. Fatal: no further try. The chunk is offered again after RetryAfterMS or at RetryAt, one
// of them; without both the queue's back-off decides.
type FailItem struct {
	Token        string `json:"token"`                    // As the reservation gave it
	Error        string `json:"error,omitempty"`          // Why; the first 1,000 bytes are kept
	Fatal        bool   `json:"fatal,omitempty"`          // No further try
	RetryAfterMS *int64 `json:"retry_after_ms,omitempty"` // Delay of the next try, instead of retry_at; absent: the queue's back-off
	// When it is offered again, instead of retry_after_ms: at most 30 days ahead; what has passed is at once
	RetryAt Time `json:"retry_at,omitzero"`
}

// ExtendItem asks for a deadline TimeoutMS from now; 0 is the queue's default.
type ExtendItem struct {
	Token     string `json:"token"`                                            // As the reservation gave it
	TimeoutMS int64  `json:"timeout_ms,omitempty" limit:"0..MaxReservationMS"` // Deadline from now; 0 or absent: the queue's
}

// ReleaseItem gives a chunk back unworked; no attempt is counted.
type ReleaseItem struct {
	Token string `json:"token"` // As the reservation gave it
}

// CompleteRequest is the body of .../reservations/complete: at most 10,000 items, as for the three below.
type CompleteRequest struct {
	Items []CompleteItem `json:"items" limit:"..MaxBatch"` // What was done
}

// FailRequest is the body of .../reservations/fail.
type FailRequest struct {
	Items []FailItem `json:"items" limit:"..MaxBatch"` // What did not succeed
}

// ExtendRequest is the body of .../reservations/extend. Consumer is in whose name chunks are held again that the server forgot
// at a restart.
type ExtendRequest struct {
	Items []ExtendItem `json:"items" limit:"..MaxBatch"` // What to hold longer
	// In whose name chunks are held again that the server forgot at a restart
	Consumer string `json:"consumer,omitempty" limit:"..MaxConsumerBytes"`
}

// ReleaseRequest is the body of .../reservations/release.
type ReleaseRequest struct {
	Items []ReleaseItem `json:"items" limit:"..MaxBatch"` // What to give back
}

// Result is the answer for one item.
type Result struct {
	Status   string `json:"status" names:"results"` // What became of the item
	Code     string `json:"code,omitempty"`         // Stable name of the reason
	Detail   string `json:"detail,omitempty"`       // The reason in words
	Deadline Time   `json:"deadline,omitzero"`      // After an extend: the new deadline
}

// The statuses of a Result.
const (
	StatusOK      = "ok"
	StatusAlready = "already" // this very token did it before: a replay after a lost answer
	StatusLost    = "lost"    // another consumer holds or finished the chunk
	StatusGone    = "gone"    // the submission ended
	StatusUnknown = "unknown" // no such chunk, or not a token of this server
	StatusInvalid = "invalid" // the item is wrong in itself
)

// ResultsResponse is the answer of complete, fail, extend and release: one result per item, in order.
type ResultsResponse struct {
	Results []Result `json:"results"` // One per item, in order
}

// ExchangeRequest is the body of .../reservations/exchange: finished first, committed, then reserved. Consumer is for Extend, as in
// ExtendRequest; without it that of Reserve counts.
type ExchangeRequest struct {
	Complete []CompleteItem  `json:"complete,omitempty" limit:"..MaxBatch"` // Chunks that are done
	Fail     []FailItem      `json:"fail,omitempty" limit:"..MaxBatch"`     // Tries that did not succeed
	Extend   []ExtendItem    `json:"extend,omitempty" limit:"..MaxBatch"`   // Deadlines to move
	Reserve  *ReserveRequest `json:"reserve,omitempty"`                     // What to reserve after that; absent: nothing
	// In whose name chunks of extend are held again that the server forgot at a restart; absent: that of reserve
	Consumer string `json:"consumer,omitempty" limit:"..MaxConsumerBytes"`
}

// ExchangeResponse is the answer of an exchange; every list is present, empty for what was not asked.
type ExchangeResponse struct {
	Complete     []Result      `json:"complete"`                               // One result per item, in order
	Fail         []Result      `json:"fail"`                                   // One result per item, in order
	Extend       []Result      `json:"extend"`                                 // One result per item, in order
	Reservations []Reservation `json:"reservations"`                           // What was reserved
	Reason       *string       `json:"reason" names:"reasons" nullable:"true"` // Why nothing was reserved; null when something was
	RetryAfterMS *int64        `json:"retry_after_ms" nullable:"true"`         // When to ask again, where that is known
	// With all_limited: some of the values that are at their limit; absent otherwise
	Limited []Saturated `json:"limited,omitempty" limit:"..MaxLimited"`

	// Blocks of the strategy that are not scored, as their plugin, or its version, is not there, not active, or out of use for now; absent
	// when there is none
	Warnings []StrategyWarning `json:"warnings,omitempty"`
}
