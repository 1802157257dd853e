package api

import "encoding/json"

// ExplainResponse is the answer of POST /v1/queues/{queue}/strategies/explain, whose body is a PreviewRequest: the
// blocks of the strategy with what reaches each, its branches, and what it would hand out. What Withheld counts reaches
// none. A branch is a way to an order: of a Fair block there are as many as of what is inside of it. Of Submissions,
// Examined were looked at: all, unless there are very many.
type ExplainResponse struct {
	Strategy    string          `json:"strategy"` // canonical text
	Submissions int             `json:"submissions"`
	Examined    int             `json:"examined"`
	Withheld    Withheld        `json:"withheld"`
	Ruled       []RuledAmount   `json:"ruled"`
	Tree        []ExplainBlock  `json:"tree"` // each block before what it holds
	Branches    []ExplainBranch `json:"branches"`
	Picks       []ExplainPick   `json:"picks"`
	Seed        uint64          `json:"seed"`

	Warnings []StrategyWarning `json:"warnings,omitempty"` // as in PreviewResponse
	// until then all that a limit counts is refused, and left out of the picks.
	RestartGraceUntil Time `json:"restart_grace_until,omitzero"`
}

// ExplainBlock is one block of the tree. What PreferDistinct refuses comes last, and is passed all the same.
type ExplainBlock struct {
	Pointer       string         `json:"pointer"` // into the canonical JSON, below "/strategy"
	Depth         int            `json:"depth"`   // of the root 0
	Block         string         `json:"block"`
	Text          string         `json:"text"` // such as MaxSimultaneous(company<5)
	Entered       Amount         `json:"entered"`
	Passed        Amount         `json:"passed"`
	Refused       Amount         `json:"refused"`
	RefusedValues int            `json:"refused_values"`
	Top           []RefusedValue `json:"top"` // at most ten, which hold back most
}

// Withheld is what limits that operators set for values keep from every strategy.
type Withheld struct {
	Refused       Amount         `json:"refused"`
	RefusedValues int            `json:"refused_values"`
	Top           []RefusedValue `json:"top"` // at most ten, which hold back most
}

// Amount is a number of submissions and of their ready chunks.
type Amount struct {
	Submissions int    `json:"submissions"`
	Chunks      uint64 `json:"chunks"`
}

// RefusedValue is a value of a key that a block, or an operator, does not let pass; nil is no value.
type RefusedValue struct {
	Key      string     `json:"key"`
	Value    *MetaValue `json:"value,omitempty"`
	InFlight uint32     `json:"in_flight"`
	Max      *uint32    `json:"max,omitempty"` // of a limit
	Refused  Amount     `json:"refused"`
}

// ExplainBranch is how one branch stands.
type ExplainBranch struct {
	Branch     int           `json:"branch"` // from 1
	BranchText string        `json:"branch_text"`
	Path       string        `json:"path"`
	Built      bool          `json:"built"` // its index was standing; otherwise it was built for this
	Fair       []ExplainFair `json:"fair"`  // the Fair blocks around it, the outermost first
}

// ExplainFair is how the tenants of a Fair block stand: of one inside of Fair those in every tenant around it together.
// Next and Owed are inside of the tenant around it whose turn it is.
type ExplainFair struct {
	Key     string   `json:"key"`
	Cost    string   `json:"cost"`    // chunk or time
	Ledgers int      `json:"ledgers"` // one, or one for each tenant around it
	Active  int      `json:"active"`  // have something to offer
	Owing   int      `json:"owing"`   // have nothing, and are ahead still
	Blocked int      `json:"blocked"` // are behind limits
	Next    *Tenant  `json:"next,omitempty"`
	Owed    []Tenant `json:"owed"` // at most ten, which are owed most
}

// Tenant is a value of the key of a Fair block; nil stands for all submissions without the key. Lag is how many chunks
// it is owed, of cost time how many seconds, negative when it is ahead; Share what it is entitled to of all that is
// handed out now in this block, 0 to 1.
type Tenant struct {
	Key    string     `json:"key"`
	Value  *MetaValue `json:"value,omitempty"`
	State  string     `json:"state"` // idle, active, owing, blocked
	Weight float64    `json:"weight"`
	Share  float64    `json:"share"`
	Lag    float64    `json:"lag"`
	Before int        `json:"before,omitempty"` // of WhyBranch: about how many tenants come before it in this block
}

// ExplainPick is a chunk that would be handed out, and why each branch before its own did not give it.
type ExplainPick struct {
	Pick    PreviewPick `json:"pick"`
	Tenants []Tenant    `json:"tenants"` // under Fair: whose it is, the outermost first, as they stand before all picks
	Skipped []WhyBranch `json:"skipped"`
}

// WhyRequest is the body of POST /v1/submissions/{id}/chunks/{index}/why. Strategy is as in ReserveRequest.
type WhyRequest struct {
	Strategy json.RawMessage `json:"strategy,omitempty"`
}

// WhyResponse is the first obstacle between a chunk and each branch of a strategy, and about where the chunk stands.
type WhyResponse struct {
	State    string       `json:"state"`    // of the chunk
	Strategy string       `json:"strategy"` // canonical text
	Branches []WhyBranch  `json:"branches"`
	Standing *WhyStanding `json:"standing,omitempty"`

	RestartGraceUntil Time `json:"restart_grace_until,omitzero"` // until then nothing that a limit counts is handed out

	Warnings []StrategyWarning `json:"warnings,omitempty"` // blocks that are not scored now
}

// WhyStanding is about where a chunk stands, if some branch admits it.
type WhyStanding struct {
	Branch    int     `json:"branch"`            // the first that admits it, from 1
	Ahead     uint64  `json:"ahead"`             // chunks that would come before it
	Among     uint64  `json:"among,omitempty"`   // chunks that Random draws it from
	AtLeast   bool    `json:"at_least"`          // not everything was looked at
	PerSecond float64 `json:"per_second"`        // chunks reserved over the last minute; 0: not known
	WaitMs    *int64  `json:"wait_ms,omitempty"` // at that rate
}

// WhyBranch is how a chunk stands with one branch. What is not part of the obstacle is left out.
type WhyBranch struct {
	Branch   int        `json:"branch"` // from 1
	Path     string     `json:"path"`
	Obstacle string     `json:"obstacle"`
	Detail   string     `json:"detail"`
	Until    Time       `json:"until,omitzero"`
	Rule     *Rule      `json:"rule,omitempty"`
	Consumer string     `json:"consumer,omitempty"`
	Key      string     `json:"key,omitempty"`
	Value    *MetaValue `json:"value,omitempty"`
	InFlight *uint32    `json:"in_flight,omitempty"`
	Max      *uint32    `json:"max,omitempty"`
	HiddenBy int        `json:"hidden_by,omitempty"`
	Tenants  []Tenant   `json:"tenants,omitempty"` // under Fair: whose it is, the outermost first
}

// The obstacles of a WhyBranch. ObstacleNone: the branch may hand the chunk out now.
const (
	ObstacleNone        = "none"
	ObstacleValueLimit  = "value_limit" // one that an operator set, whatever the strategy
	ObstacleAlternative = "alternative" // of the same tenant under Fair
	ObstacleDone        = "done"
	ObstacleDead        = "dead"
	ObstacleSkipped     = "skipped"
	ObstacleForwarded   = "forwarded"
	ObstacleWaiting     = "waiting"
	ObstacleReserved    = "reserved"
	ObstacleNotDue      = "not_yet_due"
	ObstaclePaused      = "paused"
	ObstacleBlocked     = "blocked"
	ObstacleFilter      = "filter"
	ObstacleGrace       = "restart_grace"
	ObstacleLimit       = "limit"
	ObstacleHidden      = "hidden"
	ObstacleTurn        = "turn"
	ObstacleScore       = "score"
)

// CompareRequest is the body of POST /v1/queues/{queue}/strategies/compare; A and B are as Strategy in ReserveRequest,
// the rest as in PreviewRequest.
type CompareRequest struct {
	A       json.RawMessage `json:"a"`
	B       json.RawMessage `json:"b"`
	Max     int             `json:"max,omitempty"`
	Seed    *uint64         `json:"seed,omitempty"`
	Context Meta            `json:"context,omitempty"`
}

// CompareResponse is how two strategies differ on one state.
type CompareResponse struct {
	A       Spread `json:"a"`
	B       Spread `json:"b"`
	Overlap int    `json:"overlap"` // chunks that both would hand out

	// The first chunks that one would hand out and the other would not, each in its order.
	OnlyA []PreviewPick `json:"only_a"`
	OnlyB []PreviewPick `json:"only_b"`

	Seed uint64 `json:"seed"`

	RestartGraceUntil Time `json:"restart_grace_until,omitzero"` // as in PreviewResponse
}

// Spread is how the picks of one strategy are spread over the values of each meta key; "$submission" is the submission.
type Spread struct {
	Strategy string      `json:"strategy"` // canonical text
	Picks    int         `json:"picks"`
	Keys     []KeySpread `json:"keys"`

	Warnings []StrategyWarning `json:"warnings,omitempty"` // blocks that were not scored
}

// KeySpread is the spread over the values of one key.
type KeySpread struct {
	Key      string  `json:"key"`
	Picks    int     `json:"picks"`     // those that have the key
	Distinct int     `json:"distinct"`  // values among them
	MaxShare float64 `json:"max_share"` // of the most frequent value, 0 to 1
	Jain     float64 `json:"jain"`      // fairness over all values that either strategy would hand out, 0 to 1
}
