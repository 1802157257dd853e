package api

// Diagnosis is the answer of .../diagnosis: why the chunks of a value, or of a submission, move or do not.
type Diagnosis struct {
	Sentence    string   `json:"sentence"`
	Causes      []Cause  `json:"causes"` // most chunks first, at most 10; never none
	InFlight    uint64   `json:"in_flight"`
	Holders     int      `json:"holders"` // consumers that hold them
	Oldest      *Holding `json:"oldest,omitempty"`
	Submissions int      `json:"submissions"` // that are open
	Examined    int      `json:"examined"`    // of them: fewer if there are very many, and then causes are of these
}

// Holding is a reservation, with the consumer that holds it.
type Holding struct {
	Consumer   string `json:"consumer,omitempty"` // empty: it gave no name
	Submission string `json:"submission"`
	Index      uint32 `json:"index"`
	Attempt    uint32 `json:"attempt"` // 1 for the first try
	ReservedAt Time   `json:"reserved_at"`
	Deadline   Time   `json:"deadline"`
}

// Cause is one reason for which chunks are not handed out; CauseNone: nothing keeps them.
type Cause struct {
	Kind        string     `json:"kind"`
	Detail      string     `json:"detail"`
	Chunks      uint64     `json:"chunks"`
	Submissions int        `json:"submissions"`
	Key         string     `json:"key,omitempty"` // of limit
	Value       *MetaValue `json:"value,omitempty"`
	InFlight    *uint32    `json:"in_flight,omitempty"`
	Max         *uint32    `json:"max,omitempty"`
	Rule        *Rule      `json:"rule,omitempty"`
	Until       Time       `json:"until,omitzero"`
	Strategy    string     `json:"strategy,omitempty"`
	LastUsed    Time       `json:"last_used,omitzero"`
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
