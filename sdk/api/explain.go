package api

import "encoding/json"

// ExplainResponse is the answer of POST /v1/queues/{queue}/strategies/explain, whose body is a PreviewRequest: the
// blocks of the strategy with what reaches each, its branches, and what it would hand out. What Withheld counts reaches
// none. A branch is a way to an order: of a Fair block there are as many as of what is inside of it. Of Submissions,
// Examined were looked at: all, unless there are very many.
type ExplainResponse struct {
	Strategy    string `json:"strategy"`    // The canonical text
	Submissions int    `json:"submissions"` // Submissions that are not waiting for their run_at
	Examined    int    `json:"examined"`    // Of them those that were looked at for the tree: all, unless there are very many
	// What limits that operators set for values keep from every strategy; it reaches no block
	Withheld Withheld `json:"withheld"`
	// What rules keep from every strategy, by rule, at most ten, which keep most; it reaches no block and is not withheld
	Ruled    []RuledAmount   `json:"ruled"`
	Tree     []ExplainBlock  `json:"tree"`     // The blocks of the strategy, each before what it holds
	Branches []ExplainBranch `json:"branches"` // What it compiles to, in the order in which it is asked
	Picks    []ExplainPick   `json:"picks"`    // What would be handed out, in order; as many as an answer has room for
	Seed     uint64          `json:"seed"`     // What Random drew by; ask with it again to get the same picks from the same state

	// Blocks that were not scored, as their plugin is not there, not active, out of use for now, or failed; what follows them was gone on
	// with, as a reserve would. Absent when there is none
	Warnings []StrategyWarning `json:"warnings,omitempty"`
	// Until then the restart grace keeps back what a limit counts, and it is not among the picks; absent: there is none
	RestartGraceUntil Time `json:"restart_grace_until,omitzero"`
}

// ExplainBlock is one block of the tree. What PreferDistinct refuses comes last, and is passed all the same.
type ExplainBlock struct {
	Pointer       string         `json:"pointer"`        // A JSON pointer into the canonical JSON, below /strategy
	Depth         int            `json:"depth"`          // How many blocks are around it
	Block         string         `json:"block"`          // Its name
	Text          string         `json:"text"`           // It alone, without what it holds
	Entered       Amount         `json:"entered"`        // What reaches it
	Passed        Amount         `json:"passed"`         // What an order inside of it offers
	Refused       Amount         `json:"refused"`        // What it keeps back itself; of PreferDistinct what it puts last
	RefusedValues int            `json:"refused_values"` // Different values among that; at most 10,000 are distinguished
	Top           []RefusedValue `json:"top"`            // Of them the ten that keep back most chunks
}

// Withheld is what limits that operators set for values keep from every strategy.
type Withheld struct {
	Refused       Amount         `json:"refused"`        // What is kept back
	RefusedValues int            `json:"refused_values"` // Different values that do; at most 10,000 are distinguished
	Top           []RefusedValue `json:"top"`            // Of them the ten that keep back most chunks
}

// Amount is a number of submissions and of their ready chunks.
type Amount struct {
	Submissions int    `json:"submissions"` // Submissions with ready chunks
	Chunks      uint64 `json:"chunks"`      // Their ready chunks
}

// RefusedValue is a value of a key that a block, or an operator, does not let pass; nil is no value.
type RefusedValue struct {
	Key      string     `json:"key"`             // The meta key
	Value    *MetaValue `json:"value,omitempty"` // The value; absent: the submissions that have none
	InFlight uint32     `json:"in_flight"`       // Chunks of the value that are held
	Max      *uint32    `json:"max,omitempty"`   // Of a limit: how many may be
	Refused  Amount     `json:"refused"`         // What of it is kept back
}

// ExplainBranch is how one branch stands.
type ExplainBranch struct {
	Branch     int           `json:"branch"`      // Number of the branch, from 1; inside of Fair every alternative is a branch
	BranchText string        `json:"branch_text"` // The branch: the Fair blocks around it, its order, its filters and its limits
	Path       string        `json:"path"`        // The way to the branch through the strategy
	Built      bool          `json:"built"`       // Whether its index was standing already; if not, it was built for this answer
	Fair       []ExplainFair `json:"fair"`        // The Fair blocks around it and how their tenants stand, the outermost first
}

// ExplainFair is how the tenants of a Fair block stand: of one inside of Fair those in every tenant around it together.
// Next and Owed are those inside the tenant that comes next in the block around it.
type ExplainFair struct {
	Key     string `json:"key"`                // The key whose values are the tenants
	Cost    string `json:"cost" names:"costs"` // What is shared out: the number of chunks, or the time that they are held
	Ledgers int    `json:"ledgers"`            // How many there are of the block: one, or inside of Fair one for each tenant around it
	Active  int    `json:"active"`             // Tenants that have something to hand out, in all ledgers
	Owing   int    `json:"owing"`              // Tenants that have nothing, and had more than their share
	Blocked int    `json:"blocked"`            // Tenants that are held back by limits
	// Whose turn it is, within the tenant of the enclosing Fair whose turn it is; absent when no tenant competes
	Next *Tenant  `json:"next,omitempty"`
	Owed []Tenant `json:"owed"` // Of the active tenants there the ten that are owed most
}

// Tenant is a value of the key of a Fair block; nil stands for all submissions without the key. Lag is how many chunks
// it is owed, of cost time how many seconds, negative when it is ahead; Share what it is entitled to of all that is
// handed out now in this block, 0 to 1.
type Tenant struct {
	Key string `json:"key"` // Key of the Fair block
	// Its value of the key, or the id of the submission; absent: all submissions without the key
	Value  *MetaValue `json:"value,omitempty"`
	State  string     `json:"state" names:"tenants"` // How it stands
	Weight float64    `json:"weight"`                // Its weight
	Share  float64    `json:"share" limit:"0..1"`    // What it is entitled to of all that is handed out now
	Lag    float64    `json:"lag"`                   // Chunks that it is owed, under cost time seconds; negative: that it is ahead
	Before int        `json:"before,omitempty"`      // Asked why: about how many tenants come before it in this block
}

// ExplainPick is a chunk that would be handed out, and why each branch before its own did not give it.
type ExplainPick struct {
	Pick    PreviewPick `json:"pick"`    // The chunk
	Tenants []Tenant    `json:"tenants"` // Under Fair: whose it is in each block, the outermost first, as they stand before all picks
	Skipped []WhyBranch `json:"skipped"` // What kept each branch before its own from it; the picks before it count as in flight
}

// WhyRequest is the body of POST /v1/submissions/{id}/chunks/{index}/why. Strategy is as in ReserveRequest.
type WhyRequest struct {
	Strategy json.RawMessage `json:"strategy,omitempty" schema:"Strategy"` // The strategy; absent: Random
}

// WhyResponse is the first obstacle between a chunk and each branch of a strategy, and about where the chunk stands.
type WhyResponse struct {
	State    string       `json:"state" names:"chunk states"` // Where the chunk stands
	Strategy string       `json:"strategy"`                   // The canonical text
	Branches []WhyBranch  `json:"branches"`                   // The strategy's branches, in the order in which they are asked
	Standing *WhyStanding `json:"standing,omitempty"`         // About where the chunk stands; absent when no branch admits it now

	// Until then the restart grace keeps back what a limit counts; absent: there is none
	RestartGraceUntil Time `json:"restart_grace_until,omitzero"`

	// Blocks that are not scored now, as their plugin is not there, not active, or out of use, so that what follows them is gone on with.
	// Absent when there is none
	Warnings []StrategyWarning `json:"warnings,omitempty"`
}

// WhyStanding is about where a chunk stands, if some branch admits it.
type WhyStanding struct {
	Branch int `json:"branch"` // The first branch that admits the chunk, from 1
	// About how many chunks come before it, rounded to two digits; of those that Random draws among, half
	Ahead   uint64 `json:"ahead"`
	Among   uint64 `json:"among,omitempty"` // Under Random: about how many chunks it is drawn from
	AtLeast bool   `json:"at_least"`        // Whether there are more before it, as not everything was looked at
	// Chunks of the queue reserved a second over the last minute; 0: none, or not known yet
	PerSecond float64 `json:"per_second"`
	WaitMs    *int64  `json:"wait_ms,omitempty"` // About how long it waits at that rate; absent when there is none
}

// WhyBranch is how a chunk stands with one branch. What is not part of the obstacle is left out.
type WhyBranch struct {
	Branch   int    `json:"branch"`                     // Number of the branch, from 1; inside of Fair every alternative is a branch
	Path     string `json:"path"`                       // The way to the branch through the strategy
	Obstacle string `json:"obstacle" names:"obstacles"` // The first obstacle; none: the branch may hand the chunk out now
	Detail   string `json:"detail"`                     // The obstacle in words
	// Of waiting, reserved, not_yet_due and restart_grace: until when; of paused and blocked too, if the rule ends by itself
	Until    Time       `json:"until,omitzero"`
	Rule     *Rule      `json:"rule,omitempty"`      // Of paused and blocked: the rule that counts
	Consumer string     `json:"consumer,omitempty"`  // Of reserved: who holds it
	Key      string     `json:"key,omitempty"`       // Of filter and the limits: the meta key
	Value    *MetaValue `json:"value,omitempty"`     // Of filter and the limits: the submission's value, if it has one
	InFlight *uint32    `json:"in_flight,omitempty"` // Of limit and value_limit: chunks of that value that are held
	Max      *uint32    `json:"max,omitempty"`       // Of limit, value_limit and restart_grace: how many may be
	HiddenBy int        `json:"hidden_by,omitempty"` // Of hidden and alternative: number of the branch that comes first
	// Under Fair: the tenant that the chunk belongs to in each block, the outermost first
	Tenants []Tenant `json:"tenants,omitempty"`
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
	A    json.RawMessage `json:"a" schema:"Strategy"`               // The one strategy
	B    json.RawMessage `json:"b" schema:"Strategy"`               // The other
	Max  int             `json:"max,omitempty" limit:"0..MaxPicks"` // Most chunks to look ahead; 0 or absent: 10
	Seed *uint64         `json:"seed,omitempty" limit:"0..MaxSeed"` // The same seed on the same state gives the same picks; absent: any
	// What the consumer would say about itself to plugins and formulas, as in a reservation: at most 16 keys
	Context Meta `json:"context,omitempty"`
}

// CompareResponse is how two strategies differ on one state.
type CompareResponse struct {
	A       Spread `json:"a"`       // Of the one strategy
	B       Spread `json:"b"`       // Of the other
	Overlap int    `json:"overlap"` // Chunks that both would hand out

	OnlyA []PreviewPick `json:"only_a" limit:"..MaxDiffering"` // The first that only the one would hand out, in its order
	OnlyB []PreviewPick `json:"only_b" limit:"..MaxDiffering"` // The first that only the other would

	Seed uint64 `json:"seed"` // What Random drew by; ask with it again to get the same picks from the same state

	// Until then the restart grace keeps back what a limit counts, and it is not among the picks; absent: there is none
	RestartGraceUntil Time `json:"restart_grace_until,omitzero"`
}

// Spread is how the picks of one strategy are spread over the values of each meta key; "$submission" is the submission.
type Spread struct {
	Strategy string      `json:"strategy"` // The canonical text
	Picks    int         `json:"picks"`    // Chunks that would be handed out
	Keys     []KeySpread `json:"keys"`     // By meta key; $submission stands for the submission itself

	// Blocks that were not scored, as their plugin is not there, not active, out of use for now, or failed; what follows them was gone on
	// with, as a reserve would. Absent when there is none
	Warnings []StrategyWarning `json:"warnings,omitempty"`
}

// KeySpread is the spread over the values of one key.
type KeySpread struct {
	Key      string  `json:"key"`                    // The meta key
	Picks    int     `json:"picks"`                  // Chunks whose submission has the key
	Distinct int     `json:"distinct"`               // Different values among them
	MaxShare float64 `json:"max_share" limit:"0..1"` // Share of the most frequent value
	// Jain's index over all values that either strategy would hand out: 1 is the same number for each, 1/n all for one of n
	Jain float64 `json:"jain" limit:"0..1"`
}
