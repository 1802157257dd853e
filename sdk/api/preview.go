package api

import "encoding/json"

// PreviewRequest is the body of POST /v1/queues/{queue}/strategies/preview. Strategy is as in ReserveRequest; Max is 1 to
// 100, 0 is 10. The same Seed on the same state gives the same picks; nil is any.
type PreviewRequest struct {
	Strategy json.RawMessage `json:"strategy,omitempty"`
	Max      int             `json:"max,omitempty"`
	Seed     *uint64         `json:"seed,omitempty"`
}

// PreviewResponse is what a reserve would hand out now, in its order, and the seed that it was drawn by.
type PreviewResponse struct {
	Picks []PreviewPick `json:"picks"`
	Seed  uint64        `json:"seed"`
}

// PreviewPick is a chunk that would be handed out. Branch is the number of the strategy's branch that gives it, from 1, and
// BranchText that branch.
type PreviewPick struct {
	Submission string `json:"submission"`
	Index      uint32 `json:"index"`
	Meta       Meta   `json:"meta"`
	Priority   int64  `json:"priority"`
	Branch     int    `json:"branch"`
	BranchText string `json:"branch_text"`
}

// WhyRequest is the body of POST /v1/submissions/{id}/chunks/{index}/why.
type WhyRequest struct {
	Strategy json.RawMessage `json:"strategy,omitempty"`
}

// WhyResponse is the first obstacle between a chunk and each branch of a strategy.
type WhyResponse struct {
	State    string      `json:"state"` // of the chunk
	Branches []WhyBranch `json:"branches"`
}

// WhyBranch is how a chunk stands with one branch. What is not part of the obstacle is left out.
type WhyBranch struct {
	Branch     int        `json:"branch"` // from 1
	BranchText string     `json:"branch_text"`
	Obstacle   string     `json:"obstacle"`
	Detail     string     `json:"detail"`
	Until      Time       `json:"until,omitzero"`
	Consumer   string     `json:"consumer,omitempty"`
	Key        string     `json:"key,omitempty"`
	Value      *MetaValue `json:"value,omitempty"`
	InFlight   uint32     `json:"in_flight,omitempty"`
	Max        uint32     `json:"max,omitempty"`
	HiddenBy   int        `json:"hidden_by,omitempty"`
	Before     *uint64    `json:"before,omitempty"`
	Among      *uint64    `json:"among,omitempty"`
}

// The obstacles of a WhyBranch. ObstacleNone: the branch may hand the chunk out now.
const (
	ObstacleNone     = "none"
	ObstacleDone     = "done"
	ObstacleDead     = "dead"
	ObstacleSkipped  = "skipped"
	ObstacleWaiting  = "waiting"
	ObstacleReserved = "reserved"
	ObstacleNotDue   = "not_yet_due"
	ObstacleFilter   = "filter"
	ObstacleLimit    = "limit"
	ObstacleHidden   = "hidden"
)

// CompareRequest is the body of POST /v1/queues/{queue}/strategies/compare; Max and Seed are as in PreviewRequest.
type CompareRequest struct {
	A    json.RawMessage `json:"a"`
	B    json.RawMessage `json:"b"`
	Max  int             `json:"max,omitempty"`
	Seed *uint64         `json:"seed,omitempty"`
}

// CompareResponse is how two strategies differ on one state.
type CompareResponse struct {
	A       Spread `json:"a"`
	B       Spread `json:"b"`
	Overlap int    `json:"overlap"` // chunks that both would hand out
	Seed    uint64 `json:"seed"`
}

// Spread is how the picks of one strategy are spread over the values of each meta key; "$submission" is the submission.
type Spread struct {
	Picks int         `json:"picks"`
	Keys  []KeySpread `json:"keys"`
}

// KeySpread is the spread over the values of one key.
type KeySpread struct {
	Key      string  `json:"key"`
	Picks    int     `json:"picks"`     // those that have the key
	Distinct int     `json:"distinct"`  // values among them
	MaxShare float64 `json:"max_share"` // of the most frequent value, 0 to 1
	Jain     float64 `json:"jain"`      // fairness over all values that either strategy would hand out, 0 to 1
}

// ExplainResponse is the answer of POST /v1/queues/{queue}/strategies/explain, whose body is a PreviewRequest.
type ExplainResponse struct {
	Strategy string          `json:"strategy"` // its canonical text
	Branches []ExplainBranch `json:"branches"`
	Picks    []ExplainPick   `json:"picks"`
	Seed     uint64          `json:"seed"`
}

// ExplainBranch is how one branch stands. Gates are the values of its limited keys.
type ExplainBranch struct {
	Branch      int         `json:"branch"` // from 1
	BranchText  string      `json:"branch_text"`
	Built       bool        `json:"built"`
	Submissions int         `json:"submissions"`
	GatesOpen   int         `json:"gates_open"`
	GatesShut   int         `json:"gates_shut"`
	GatesEmpty  int         `json:"gates_empty"`
	Saturated   []Saturated `json:"saturated"` // at most ten, most in flight first
}

// Saturated is a value that is at its limit.
type Saturated struct {
	Key      string    `json:"key"`
	Value    MetaValue `json:"value"`
	InFlight uint32    `json:"in_flight"`
	Max      uint32    `json:"max"`
}

// ExplainPick is a chunk that would be handed out, and what kept each branch before its own from it.
type ExplainPick struct {
	Pick    PreviewPick `json:"pick"`
	Skipped []WhyBranch `json:"skipped"`
}
