package api

// Diagnosis is the answer of .../diagnosis: why the chunks of a queue, of a value, or of a submission, move or do not.
type Diagnosis struct {
	// The answer as one sentence, the cause with the most chunks first
	Sentence string `json:"sentence"`
	// At most 10 causes, those with the most chunks first; one of the kind empty if there is no other
	Causes   []Cause `json:"causes"`
	InFlight uint64  `json:"in_flight"` // Chunks that consumers hold
	// Number of consumers that hold them; of very many chunks, only the examined ones count
	Holders     int      `json:"holders"`
	Oldest      *Holding `json:"oldest,omitempty"` // The longest reservation; absent if there is none
	Submissions int      `json:"submissions"`      // Open submissions in question
	// Number of these chunks that were examined for the causes: all, unless there are very many
	Examined int `json:"examined"`
	// Time when the submission's first chunk was reserved, to a tenth of a second. Absent for a value, before that
	// time, and after a restart, which forgets it
	FirstReservedAt Time `json:"first_reserved_at,omitzero"`
	// Time when everything is done: the latest end of the causes. null if nothing moves; for a tenant's token also if
	// the forecast of a cause is null
	Forecast *Forecast `json:"forecast"`

	// For a submission: number of the shard that has it; absent if the queue has one shard
	Shard int `json:"shard,omitempty"`
}

// Holding is a reservation, with the consumer that holds it.
type Holding struct {
	Consumer   string `json:"consumer,omitempty"` // Name of the consumer; absent if the reserve gave none
	Submission string `json:"submission"`         // The chunk's submission
	Index      uint32 `json:"index"`              // The chunk's index
	Attempt    uint32 `json:"attempt"`            // Number of the attempt, from 1
	ReservedAt Time   `json:"reserved_at"`        // Time of the reservation
	Deadline   Time   `json:"deadline"`           // Deadline, unless the consumer extends it
}

// Cause is one reason for which chunks are not handed out; CauseNone: nothing keeps them.
type Cause struct {
	// Reason why the chunks are held back. none: nothing holds them back. limit includes the restart grace. not_due
	// includes the wait for a retry. unasked: no strategy in use selects them
	Kind   string `json:"kind" names:"causes"`
	Detail string `json:"detail"` // The cause in words, as a part of a sentence
	// Open chunks with this cause; each counts for its first cause only
	Chunks uint64 `json:"chunks"`
	// Submissions of these chunks. In the diagnosis of a queue they are counted only for limits, and 0 for other causes
	Submissions int        `json:"submissions"`
	Key         string     `json:"key,omitempty"`   // For limit: the meta key
	Value       *MetaValue `json:"value,omitempty"` // For limit: the value
	// For limit: chunks of that value in flight; absent during the restart grace
	InFlight *uint32 `json:"in_flight,omitempty"`
	Max      *uint32 `json:"max,omitempty"` // For limit: the maximum
	// For rule: the rule that decides. A tenant's token sees only rules about its own work
	Rule *Rule `json:"rule,omitempty"`
	// For not_due: the earliest known time. For rule: its end. For limit: the end of the restart grace
	Until Time `json:"until,omitzero"`
	// For none: the latest strategy that selects the chunks. For limit: the strategy with the limit; absent for an
	// operator's limit
	Strategy string `json:"strategy,omitempty"`
	LastUsed Time   `json:"last_used,omitzero"` // Time of the last reserve with that strategy
	// Chunks per second at which these end, the median of the last ten minutes; absent if nothing moves
	PerSecond float64 `json:"per_second,omitempty"`
	// For a queue: the names in the sentence about this cause, in its order
	Links []Link `json:"links,omitempty"`
	// Time when all chunks with this cause are done; their order is not known. null if they are stuck. For a tenant's
	// token it follows from the pace of its own value at its limit; null if that is not known
	Forecast *Forecast `json:"forecast"`
}

// Link points to details of something that a sentence names.
type Link struct {
	Text string `json:"text"` // Text of the link, as it stands in the sentence
	Href string `json:"href"` // Path of the API
}

// The kinds of causes.
const (
	CauseRate    = "rate"    // a rate of a strategy holds them back
	CauseLimit   = "limit"   // as many chunks of a value are in flight as may be, or the restart grace holds back what a limit counts
	CauseRule    = "rule"    // a pause or a block covers them
	CauseNotDue  = "not_due" // they wait for their next try, or for the run_at of their submission
	CauseAfter   = "after"   // their submission waits for others
	CauseDead    = "dead"    // they are out of attempts
	CauseEmpty   = "empty"   // there is nothing but what is in flight
	CauseUnasked = "unasked" // no strategy in use selects them
	CauseNone    = "none"    // the next reserve may be given them
)
