package queue

import "github.com/quern-queue/quern/sdk/api"

// ConsumerOrder is an operator's order to a consumer.
type ConsumerOrder uint8

// The orders. Quiet: it gets nothing new, and stays. Drain: it gets nothing new, and is to finish what it holds and leave.
const (
	NoOrder ConsumerOrder = iota
	Quiet
	Drain
)

var consumerOrders = [...]string{"", "quiet", "drain"}

// String is the order's name, "" for none.
func (o ConsumerOrder) String() string { return consumerOrders[o] }

// Consumer is what is known about a consumer at one moment. A consumer is known as long as it is attached, holds something, waits in a
// reserve call or has an order.
type Consumer struct {
	Name     string
	Attached bool // it has a stream open
	Since    Time // when it attached; 0: it is not attached, nor was a moment ago
	Away     Time // since when its stream is broken; 0: it is not
	LostAt   Time // while away: when its reservations end as lost unless it is heard of
	Seen     Time // its last call or stream; 0: not known
	Order    ConsumerOrder
	Reserved uint64
	Oldest   Time   // when the oldest of its reservations was made; 0: it has none
	Overdue  uint64 // of its reservations, those held for longer than the queue's reservation timeout; at most MaxOverdue are counted
}

// MaxOverdue is the most reservations of a consumer that are looked at for Consumer.Overdue.
const MaxOverdue = api.MaxOverdue

// HeldChunk is a chunk in a consumer's hands, as an operator sees it: without its token.
type HeldChunk struct {
	Chunk     ChunkID
	Meta      Meta
	Consumer  string
	Attempt   uint16
	Reserved  Time // since when
	Deadline  Time
	Overdue   bool // held for longer than the queue's reservation timeout
	Finishing bool // its end is on its way to the disk
	Reported  Reported
}

// Bytes is about how much memory an answer takes for it, before it is encoded.
func (h *HeldChunk) Bytes() int {
	const fixed = 512
	return fixed + h.Meta.Bytes() + len(h.Reported.Note)
}

// HeldFilter selects held chunks, and their order. The zero value means all, the longest held first.
type HeldFilter struct {
	Submission SubmissionID // 0: of any
	Consumer   string       // "": of any
	Meta       Meta         // of the submission: all of these
	Overdue    bool         // only those that are
	ByDeadline bool         // the earliest deadline first
}

// Revoked is a reservation that was taken from its consumer.
type Revoked struct {
	Token Token
	Why   RevokeReason
}

// RevokeReason says why a reservation was taken from its consumer.
type RevokeReason uint8

// The reasons.
const (
	RevokedEnded    RevokeReason = iota // its submission ended, or the chunk itself
	RevokedExpired                      // its deadline passed
	RevokedOperator                     // an operator took it
	RevokedRule                         // a rule did
)

var revokeReasons = [...]string{"submission_ended", "expired", "operator", "rule"}

func (r RevokeReason) String() string { return revokeReasons[r] }
