package api

import "encoding/json"

// ReserveRequest is the body of POST /v1/queues/{queue}/reservations. Strategy is one JSON value: the text form in a
// string, a tree, or {"name":"..."}; nil means Random. WaitMS is at most 60,000. Context is for plugins.
type ReserveRequest struct {
	Max       int             `json:"max"`
	Strategy  json.RawMessage `json:"strategy,omitempty"`
	Consumer  string          `json:"consumer,omitempty"`
	WaitMS    int64           `json:"wait_ms,omitempty"`
	TimeoutMS int64           `json:"timeout_ms,omitempty"`
	Context   Meta            `json:"context,omitempty"`
}

// ReserveResponse is the answer of a reserve. Reason and RetryAfterMS are null when Reservations is not empty. Limited is for
// ReasonAllLimited: up to 10 of the values that are at their limit.
type ReserveResponse struct {
	Reservations []Reservation `json:"reservations"`
	Reason       *string       `json:"reason"` // one of the reasons below
	RetryAfterMS *int64        `json:"retry_after_ms"`
	Limited      []Saturated   `json:"limited,omitempty"`

	// of the strategy: a block yields nothing, as its plugin is not there or not active
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
	Token      string  `json:"token"`
	Submission string  `json:"submission"`
	Index      uint32  `json:"index"`
	Attempt    uint32  `json:"attempt"` // 1 for the first try
	Deadline   Time    `json:"deadline"`
	Content    Content `json:"content"`
	Meta       Meta    `json:"meta"`
	Priority   int64   `json:"priority"`
	Attachment Bytes   `json:"attachment,omitzero"`
	Trace      string  `json:"trace,omitempty"`
}

// CompleteItem says that a chunk is done. Output nil is none.
type CompleteItem struct {
	Token  string `json:"token"`
	Output Bytes  `json:"output,omitzero"`
}

// FailItem says that a try did not succeed. Fatal: no further try. The chunk is offered again after RetryAfterMS or at RetryAt, one
// of them; without both the queue's back-off decides.
type FailItem struct {
	Token        string `json:"token"`
	Error        string `json:"error,omitempty"` // the server keeps the first 1,000 bytes
	Fatal        bool   `json:"fatal,omitempty"`
	RetryAfterMS *int64 `json:"retry_after_ms,omitempty"`
	RetryAt      Time   `json:"retry_at,omitzero"` // at most 30 days ahead; what has passed is at once
}

// ExtendItem asks for a deadline TimeoutMS from now; 0 is the queue's default.
type ExtendItem struct {
	Token     string `json:"token"`
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
}

// ReleaseItem gives a chunk back unworked; no attempt is counted.
type ReleaseItem struct {
	Token string `json:"token"`
}

// CompleteRequest is the body of .../reservations/complete: at most 10,000 items, as for the three below.
type CompleteRequest struct {
	Items []CompleteItem `json:"items" maxItems:"10000"`
}

// FailRequest is the body of .../reservations/fail.
type FailRequest struct {
	Items []FailItem `json:"items" maxItems:"10000"`
}

// ExtendRequest is the body of .../reservations/extend. Consumer is in whose name chunks are held again that the server forgot
// at a restart.
type ExtendRequest struct {
	Items    []ExtendItem `json:"items" maxItems:"10000"`
	Consumer string       `json:"consumer,omitempty"`
}

// ReleaseRequest is the body of .../reservations/release.
type ReleaseRequest struct {
	Items []ReleaseItem `json:"items" maxItems:"10000"`
}

// Result is the answer for one item.
type Result struct {
	Status   string `json:"status"`
	Code     string `json:"code,omitempty"`
	Detail   string `json:"detail,omitempty"`
	Deadline Time   `json:"deadline,omitzero"` // the new deadline, after an extend
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
	Results []Result `json:"results"`
}

// ExchangeRequest is the body of .../reservations/exchange: finished first, committed, then reserved. Consumer is for Extend, as in
// ExtendRequest; without it that of Reserve counts.
type ExchangeRequest struct {
	Complete []CompleteItem  `json:"complete,omitempty" maxItems:"10000"`
	Fail     []FailItem      `json:"fail,omitempty" maxItems:"10000"`
	Extend   []ExtendItem    `json:"extend,omitempty" maxItems:"10000"`
	Reserve  *ReserveRequest `json:"reserve,omitempty"`
	Consumer string          `json:"consumer,omitempty"`
}

// ExchangeResponse is the answer of an exchange; every list is present, empty for what was not asked.
type ExchangeResponse struct {
	Complete     []Result      `json:"complete"`
	Fail         []Result      `json:"fail"`
	Extend       []Result      `json:"extend"`
	Reservations []Reservation `json:"reservations"`
	Reason       *string       `json:"reason"`
	RetryAfterMS *int64        `json:"retry_after_ms"`
	Limited      []Saturated   `json:"limited,omitempty"`

	// of the strategy: a block yields nothing, as its plugin is not there or not active
	Warnings []StrategyWarning `json:"warnings,omitempty"`
}
