package api

// Diagnosis is the answer of .../diagnosis: why the chunks of a value, or of a submission, move or do not.
type Diagnosis struct {
	Sentence    string   `json:"sentence"`         // All of it in one sentence, the cause with most chunks first
	Causes      []Cause  `json:"causes"`           // Most chunks first, at most 10; one of the kind empty if there is no other
	InFlight    uint64   `json:"in_flight"`        // Chunks that consumers hold
	Holders     int      `json:"holders"`          // How many consumers hold them; of very many chunks, those that were looked at
	Oldest      *Holding `json:"oldest,omitempty"` // The reservation that has been held for longest; absent when there is none
	Submissions int      `json:"submissions"`      // Open submissions that it is about
	// Of them those that were looked at: all, unless there are very many. Causes are of these
	Examined int `json:"examined"`
	// When the first chunk of the submission was reserved, to a tenth of a second. Absent for a value, before that, and when the server
	// does not know it: it is not kept over a restart
	FirstReservedAt Time `json:"first_reserved_at,omitzero"`
}

// Holding is a reservation, with the consumer that holds it.
type Holding struct {
	Consumer   string `json:"consumer,omitempty"` // Who holds it; absent when the reserve gave no name
	Submission string `json:"submission"`         // The chunk's submission
	Index      uint32 `json:"index"`              // The chunk's index
	Attempt    uint32 `json:"attempt"`            // 1 for the first try
	ReservedAt Time   `json:"reserved_at"`        // Since when
	Deadline   Time   `json:"deadline"`           // When it expires, unless it is extended
}

// Cause is one reason for which chunks are not handed out; CauseNone: nothing keeps them.
type Cause struct {
	// What keeps the chunks; none: nothing does. limit includes the restart grace, not_due the wait for the next try, unasked means that
	// no strategy in use selects them
	Kind        string     `json:"kind" names:"causes"`
	Detail      string     `json:"detail"`              // The cause in words: a part of a sentence
	Chunks      uint64     `json:"chunks"`              // Open chunks that it is about; each counts for its first cause
	Submissions int        `json:"submissions"`         // Their submissions
	Key         string     `json:"key,omitempty"`       // Of limit: the meta key
	Value       *MetaValue `json:"value,omitempty"`     // Of limit: its value
	InFlight    *uint32    `json:"in_flight,omitempty"` // Of limit: chunks of that value that are held; absent during the restart grace
	Max         *uint32    `json:"max,omitempty"`       // Of limit: how many may be
	Rule        *Rule      `json:"rule,omitempty"`      // Of rule: the one that counts. A tenant's token sees only those about its own
	// Of not_due: the first time that is known; of rule: when it ends by itself; of limit: the end of the restart grace
	Until Time `json:"until,omitzero"`
	// Of none: the strategy used last that selects them; of limit: the one whose limit it is, absent for an operator's
	Strategy string `json:"strategy,omitempty"`
	LastUsed Time   `json:"last_used,omitzero"` // When that strategy was last reserved by
}

// The kinds of causes.
const (
	CauseLimit   = "limit"   // as many chunks of a value are in flight as may be, or the restart grace holds back what a limit counts
	CauseRule    = "rule"    // a pause or a block covers them
	CauseNotDue  = "not_due" // they wait for their next try, or for the run_at of their submission
	CauseDead    = "dead"    // they are out of attempts
	CauseEmpty   = "empty"   // there is nothing but what is in flight
	CauseUnasked = "unasked" // no strategy in use selects them
	CauseNone    = "none"    // the next reserve may be given them
)
