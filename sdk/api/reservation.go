package api

import (
	"encoding/json"
	"strconv"
	"time"
)

// ReserveRequest is the body of POST /v1/queues/{queue}/reservations. Strategy is one JSON value: the text form in a
// string, a tree, or {"name":"..."}; nil means Random. WaitMS is at most 60,000. Context is for plugins.
type ReserveRequest struct {
	Max int `json:"max" limit:"1..MaxReserve"` // Most chunks to take
	// Strategy that chooses the chunks; absent: Random
	Strategy json.RawMessage `json:"strategy,omitempty" schema:"Strategy"`
	Consumer string          `json:"consumer,omitempty" limit:"..MaxConsumerBytes"` // Name of the consumer
	// Time to wait if nothing is ready
	WaitMS int64 `json:"wait_ms,omitempty" limit:"0..MaxWaitMS"`
	// Time until the deadline; 0 or absent: the queue's
	TimeoutMS int64 `json:"timeout_ms,omitempty" limit:"0..MaxReservationMS"`
	// Facts about the consumer for plugins and formulas: at most 16 keys
	Context Meta `json:"context,omitempty"`
}

// ReserveResponse is the answer of a reserve. Reason and RetryAfterMS are null when Reservations is not empty. Limited is for
// ReasonAllLimited: up to 10 of the values that are at their limit.
type ReserveResponse struct {
	Reservations []Reservation `json:"reservations"` // The reserved chunks, in the order of the strategy
	// Reason for an empty answer; null if chunks were reserved
	Reason *string `json:"reason" names:"reasons" nullable:"true"`
	// Pause before the next reserve, if it is known
	RetryAfterMS *int64 `json:"retry_after_ms" nullable:"true"`
	// With all_limited: some of the values at their limit; otherwise absent
	Limited []Saturated `json:"limited,omitempty" limit:"..MaxLimited"`

	// Blocks of the strategy that do not score, because their plugin or its version is missing, inactive or out of
	// use; absent if there are none
	Warnings []StrategyWarning `json:"warnings,omitempty"`
}

// The reasons of an empty ReserveResponse.
const (
	ReasonNothing    = "nothing"
	ReasonAllLimited = "all_limited"
	ReasonPaused     = "paused"
	ReasonNotYetDue  = "not_yet_due"
	ReasonAllSkipped = "all_skipped"

	ReasonRateLimited  = "rate_limited"  // a rate holds back what there is; retry_after_ms says until when, exactly
	ReasonRestartGrace = "restart_grace" // what there is falls under a limit, and the queue's restart grace is not over
	ReasonQuiet        = "quiet"         // an operator keeps work from this consumer
	ReasonDraining     = "draining"      // an operator wants this consumer to finish what it holds and leave
)

// Reservation is a chunk in a consumer's hands.
type Reservation struct {
	Token      string `json:"token"`      // Proof of the reservation; every call about it needs it
	Submission string `json:"submission"` // Id of the submission
	Index      uint32 `json:"index"`      // Index of the chunk
	Attempt    uint32 `json:"attempt"`    // Number of the attempt, from 1
	Deadline   Time   `json:"deadline"`   // Time when the server offers the chunk again
	// Start of the wait for this attempt: run_at, or the end of the previous attempt or its back-off. Absent where it is the
	// time of the insert, which the id of the submission tells: divided by 4,194,304, it is milliseconds since 1970.
	ReadyAt    Time    `json:"ready_at,omitzero"`
	Content    Content `json:"content"`             // Content of the chunk
	Meta       Meta    `json:"meta"`                // Meta of the submission
	Priority   int64   `json:"priority"`            // Priority of the submission
	Attachment Bytes   `json:"attachment,omitzero"` // Attachment of the submission
	Trace      string  `json:"trace,omitempty"`     // W3C trace context of the insert
}

// CreatedAt is the time of the insert, which the id of the submission tells. It is zero for an id that is no number.
func (r *Reservation) CreatedAt() Time {
	id, err := strconv.ParseUint(r.Submission, 10, 64)
	if err != nil {
		return Time{}
	}
	return At(time.UnixMilli(int64(id >> 22)))
}

// CompleteItem says that a chunk is done. Output nil is none.
type CompleteItem struct {
	Token  string `json:"token"`           // Token from the reservation
	Output Bytes  `json:"output,omitzero"` // At most 1 MiB, stored with the chunk
	// Submissions to insert into this queue in the same commit: all and the completion, or nothing
	Insert []BatchSubmission `json:"insert,omitempty" limit:"..MaxFollowing"`
}

// FailItem says that an attempt failed. Fatal: no further attempt. The chunk is offered again after RetryAfterMS or at
// RetryAt, of which only one may be given; without both the queue's back-off decides.
type FailItem struct {
	Token string `json:"token"`           // Token from the reservation
	Error string `json:"error,omitempty"` // The error; the server keeps the first 1,000 bytes
	Fatal bool   `json:"fatal,omitempty"` // Whether to make no further attempt
	// Delay of the next attempt, instead of retry_at; absent: the queue's back-off
	RetryAfterMS *int64 `json:"retry_after_ms,omitempty"`
	// Time of the next attempt, instead of retry_after_ms: at most 30 days ahead; a past time means at once
	RetryAt Time `json:"retry_at,omitzero"`
}

// ExtendItem asks for a deadline TimeoutMS from now; 0 is the queue's default.
type ExtendItem struct {
	Token string `json:"token"` // Token from the reservation
	// Time until the new deadline; 0 or absent: the queue's
	TimeoutMS int64 `json:"timeout_ms,omitempty" limit:"0..MaxReservationMS"`
	// How much of the work is done, for people to see; absent: as it was
	Progress *float64 `json:"progress,omitempty" limit:"0..1"`
	// Current activity of the consumer, as plain text for people to see; absent or empty: as it was
	Note string `json:"note,omitempty" limit:"..MaxNoteBytes"`
}

// ReleaseItem gives a chunk back unworked; no attempt is counted.
type ReleaseItem struct {
	Token string `json:"token"` // Token from the reservation
	// Delay until the chunk is offered again, at most 30 days; 0: none. It survives a restart; the bulk action retry
	// ends it
	DelayMS int64 `json:"delay_ms,omitempty" limit:"0..MaxDelayMS"`
}

// CompleteRequest is the body of .../reservations/complete: at most 10,000 items, as for the three below.
type CompleteRequest struct {
	Items []CompleteItem `json:"items" limit:"..MaxBatch"` // Chunks that are done
}

// FailRequest is the body of .../reservations/fail.
type FailRequest struct {
	Items []FailItem `json:"items" limit:"..MaxBatch"` // Attempts that failed
}

// ExtendRequest is the body of .../reservations/extend. If the server forgot reservations at a restart, it gives their
// chunks to Consumer again.
type ExtendRequest struct {
	Items []ExtendItem `json:"items" limit:"..MaxBatch"` // Reservations to extend
	// Name of the consumer, for chunks whose reservations the server lost at a restart: it holds them again
	Consumer string `json:"consumer,omitempty" limit:"..MaxConsumerBytes"`
}

// ReleaseRequest is the body of .../reservations/release.
type ReleaseRequest struct {
	Items []ReleaseItem `json:"items" limit:"..MaxBatch"` // Chunks to give back
}

// Result is the answer for one item.
type Result struct {
	Status   string `json:"status" names:"results"` // Result of this item
	Code     string `json:"code,omitempty"`         // Stable name of the reason
	Detail   string `json:"detail,omitempty"`       // The reason in words
	Deadline Time   `json:"deadline,omitzero"`      // The new deadline, after an extend
	// Ids of the submissions that a completion inserted, in their order
	Inserted []string `json:"inserted,omitempty" limit:"..MaxFollowing"`
}

// The statuses of a Result.
const (
	StatusOK      = "ok"
	StatusAlready = "already" // this very token did it before: a replay after a lost answer
	StatusLost    = "lost"    // another consumer holds or finished the chunk
	StatusGone    = "gone"    // the submission ended
	StatusUnknown = "unknown" // no such chunk, or not a token of this server
	StatusInvalid = "invalid" // the item is wrong in itself
	StatusRefused = "refused" // the submissions that it brings cannot be inserted now: the chunk is held as before
)

// ResultsResponse is the answer of complete, fail, extend and release: one result per item, in order.
type ResultsResponse struct {
	Results []Result `json:"results"` // One per item, in order
}

// ExchangeRequest is the body of .../reservations/exchange. The server finishes chunks, commits, and then reserves.
// Consumer is for Extend, as in ExtendRequest; without it the consumer of Reserve counts.
type ExchangeRequest struct {
	Complete []CompleteItem `json:"complete,omitempty" limit:"..MaxBatch"` // Chunks that are done
	Fail     []FailItem     `json:"fail,omitempty" limit:"..MaxBatch"`     // Attempts that failed
	Extend   []ExtendItem   `json:"extend,omitempty" limit:"..MaxBatch"`   // Deadlines to move
	// The reserve to make afterwards; absent: none
	Reserve *ReserveRequest `json:"reserve,omitempty"`
	// Name for extend, as in an extend request; absent: the name in reserve
	Consumer string `json:"consumer,omitempty" limit:"..MaxConsumerBytes"`
}

// ExchangeResponse is the answer of an exchange; every list is present, and empty if the request had no such items.
type ExchangeResponse struct {
	Complete     []Result      `json:"complete"`     // One result per item, in order
	Fail         []Result      `json:"fail"`         // One result per item, in order
	Extend       []Result      `json:"extend"`       // One result per item, in order
	Reservations []Reservation `json:"reservations"` // The reserved chunks
	// Reason for an empty answer; null if chunks were reserved
	Reason *string `json:"reason" names:"reasons" nullable:"true"`
	// Pause before the next reserve, if it is known
	RetryAfterMS *int64 `json:"retry_after_ms" nullable:"true"`
	// With all_limited: some of the values at their limit; otherwise absent
	Limited []Saturated `json:"limited,omitempty" limit:"..MaxLimited"`

	// Blocks of the strategy that do not score, because their plugin or its version is missing, inactive or out of
	// use; absent if there are none
	Warnings []StrategyWarning `json:"warnings,omitempty"`
}
