package api

import "encoding/json"

// ExplainResponse is the answer of POST /v1/queues/{queue}/strategies/explain, whose body is a PreviewRequest: the
// blocks of the strategy with the chunks that reach each, its branches, and the chunks that it would hand out. A branch
// is a way to an order: a Fair block has as many branches as its contents.
type ExplainResponse struct {
	Strategy    string `json:"strategy"`    // The canonical text
	Submissions int    `json:"submissions"` // Submissions that do not wait for their run_at
	// Number of those submissions that were examined for the tree: all, unless there are very many
	Examined int `json:"examined"`
	// Chunks that operators' limits of values hold back from every strategy; they reach no block
	Withheld Withheld `json:"withheld"`
	// Chunks that rules hold back from every strategy, for the ten rules with the most; they reach no block and are
	// not in withheld
	Ruled []RuledAmount  `json:"ruled"`
	Tree  []ExplainBlock `json:"tree"` // The blocks of the strategy, each before its contents
	// The compiled branches, in the order in which the server asks them
	Branches []ExplainBranch `json:"branches"`
	// The chunks that the server would hand out, in order; as many as fit into an answer
	Picks []ExplainPick `json:"picks"`
	// Seed of Random; with it, the same state gives the same picks again
	Seed uint64 `json:"seed"`

	// Blocks that did not score, because their plugin is missing, inactive, out of use or failed. Their next branch
	// was used, as in a reserve. Absent if there are none
	Warnings []StrategyWarning `json:"warnings,omitempty"`
	// End of the restart grace; until then, picks leave out chunks that a limit counts. Absent: there is none
	RestartGraceUntil Time `json:"restart_grace_until,omitzero"`

	// Shards of a queue of several shards that did not answer, and whose chunks the answer lacks
	MissingShards []MissingShard `json:"missing_shards,omitempty"`
}

// ExplainBlock is one block of the tree. PreferDistinct passes all chunks: those that it refuses come last.
type ExplainBlock struct {
	Pointer string `json:"pointer"` // A JSON pointer into the canonical JSON, below /strategy
	Depth   int    `json:"depth"`   // Number of blocks around it
	Block   string `json:"block"`   // Name of the block
	Text    string `json:"text"`    // The block without its contents
	Entered Amount `json:"entered"` // Chunks that reach the block
	Passed  Amount `json:"passed"`  // Chunks that an order inside the block offers
	// Chunks that the block itself holds back; for PreferDistinct, those that it puts last
	Refused Amount `json:"refused"`
	// Number of different values among those; at most 10,000 are distinguished
	RefusedValues int            `json:"refused_values"`
	Top           []RefusedValue `json:"top"` // The ten of those values that hold back the most chunks
}

// Withheld is what limits that operators set for values keep from every strategy.
type Withheld struct {
	Refused Amount `json:"refused"` // Chunks that are held back
	// Number of different values that hold chunks back; at most 10,000 are distinguished
	RefusedValues int            `json:"refused_values"`
	Top           []RefusedValue `json:"top"` // The ten of those values that hold back the most chunks
}

// Amount is a number of submissions and of their ready chunks.
type Amount struct {
	Submissions int    `json:"submissions"` // Submissions with ready chunks
	Chunks      uint64 `json:"chunks"`      // Their ready chunks
}

// RefusedValue is a value of a key that a block, or an operator, does not let pass; nil is no value.
type RefusedValue struct {
	Key      string     `json:"key"`             // The meta key
	Value    *MetaValue `json:"value,omitempty"` // The value; absent: submissions without one
	InFlight uint32     `json:"in_flight"`       // Chunks of the value in flight
	Max      *uint32    `json:"max,omitempty"`   // For a limit: the maximum
	Refused  Amount     `json:"refused"`         // Chunks of the value that are held back

	// In an answer about a queue of several shards: the shard that holds them back. A value is listed once for each shard
	Shard int `json:"shard,omitempty"`
}

// ExplainBranch is how one branch stands.
type ExplainBranch struct {
	Branch int `json:"branch"` // Number of the branch, from 1; inside of Fair every alternative is a branch
	// The branch as text: its Fair blocks, order, filters and limits
	BranchText string `json:"branch_text"`
	Path       string `json:"path"` // The way to the branch through the strategy
	// Whether its index existed; if not, the server built it for this answer
	Built bool `json:"built"`
	// The Fair blocks around it with their tenants, the outermost first
	Fair []ExplainFair `json:"fair"`
}

// ExplainFair is how the tenants of a Fair block stand. For a block inside of another Fair, it counts the tenants
// inside all outer tenants together; Next and Owed are those inside the outer tenant that comes next.
type ExplainFair struct {
	Key string `json:"key"` // Key whose values are the tenants
	// The shared quantity: the number of chunks, or the time that they are held
	Cost string `json:"cost" names:"costs"`
	// Number of ledgers of the block: one, or one per tenant of the Fair block around it
	Ledgers int `json:"ledgers"`
	Active  int `json:"active"`  // Tenants with chunks to hand out, in all ledgers
	Owing   int `json:"owing"`   // Tenants without chunks that are ahead
	Blocked int `json:"blocked"` // Tenants that limits hold back
	// The next tenant, within the next tenant of the enclosing Fair block; absent if no tenant competes
	Next *Tenant  `json:"next,omitempty"`
	Owed []Tenant `json:"owed"` // The ten active tenants that are furthest behind
}

// Tenant is a value of the key of a Fair block; nil stands for all submissions without the key. Lag is the number of
// chunks that it is owed, or of seconds if the cost is time; it is negative when the tenant is ahead. Share is its fair
// share of all that the block hands out now, 0 to 1.
type Tenant struct {
	Key string `json:"key"` // Key of the Fair block
	// Its value of the key, or the id of the submission; absent: all submissions without the key
	Value  *MetaValue `json:"value,omitempty"`
	State  string     `json:"state" names:"tenants"` // State of the tenant
	Weight float64    `json:"weight"`                // Weight
	Share  float64    `json:"share" limit:"0..1"`    // Current fair share of everything handed out
	// Chunks that it is behind, or seconds under cost time; negative: ahead
	Lag float64 `json:"lag"`
	// Only in why: approximate number of tenants that come before it in this block
	Before int `json:"before,omitempty"`
}

// ExplainPick is a chunk that the server would hand out, with the obstacle in each earlier branch.
type ExplainPick struct {
	Pick PreviewPick `json:"pick"` // The chunk
	// Under Fair: the chunk's tenant in each block, the outermost first, in the state before all picks
	Tenants []Tenant `json:"tenants"`
	// The obstacle in each earlier branch; earlier picks count as in flight
	Skipped []WhyBranch `json:"skipped"`
}

// WhyRequest is the body of POST /v1/submissions/{id}/chunks/{index}/why. Strategy is as in ReserveRequest.
type WhyRequest struct {
	Strategy json.RawMessage `json:"strategy,omitempty" schema:"Strategy"` // The strategy; absent: Random
}

// WhyResponse is the first obstacle between a chunk and each branch of a strategy, and the chunk's approximate place.
type WhyResponse struct {
	State    string `json:"state" names:"chunk states"` // State of the chunk
	Shard    int    `json:"shard,omitempty"`            // Number of the shard that has it; absent if the queue has one shard
	Strategy string `json:"strategy"`                   // The canonical text
	// Branches of the strategy, in the order in which the server asks them
	Branches []WhyBranch `json:"branches"`
	// The chunk's approximate place, in its shard if the queue has several; absent if no branch admits it now
	Standing *WhyStanding `json:"standing,omitempty"`

	// End of the restart grace; until then, limits hold back the chunks that they count. Absent: there is none
	RestartGraceUntil Time `json:"restart_grace_until,omitzero"`

	// Blocks that do not score now, because their plugin is missing, inactive or out of use, so that their next branch
	// is used. Absent if there are none
	Warnings []StrategyWarning `json:"warnings,omitempty"`
}

// WhyStanding is the approximate place of a chunk, if some branch admits it.
type WhyStanding struct {
	Branch int `json:"branch"` // The first branch that admits the chunk, from 1
	// Approximate number of chunks before it, rounded to two digits; under Random, half of those
	Ahead uint64 `json:"ahead"`
	// Under Random: approximate number of chunks that it is drawn from
	Among   uint64 `json:"among,omitempty"`
	AtLeast bool   `json:"at_least"` // Whether there are more before it, because not all were examined
	// Chunks of the queue reserved per second over the last minute; 0: none, or unknown
	PerSecond float64 `json:"per_second"`
	WaitMs    *int64  `json:"wait_ms,omitempty"` // Approximate wait at that rate; absent if there is none
}

// WhyBranch is how a chunk stands with one branch. It has only the fields of its obstacle.
type WhyBranch struct {
	// Number of the branch, from 1; inside of Fair every alternative is a branch
	Branch int    `json:"branch"`
	Path   string `json:"path"` // The way to the branch through the strategy
	// The first obstacle; none: the branch may hand the chunk out now
	Obstacle string `json:"obstacle" names:"obstacles"`
	Detail   string `json:"detail"` // The obstacle in words
	// For waiting, reserved, not_yet_due, restart_grace and rate: the end. For paused and blocked: the end of the rule, if
	// it has one
	Until    Time   `json:"until,omitzero"`
	Rule     *Rule  `json:"rule,omitempty"`     // For paused and blocked: the rule that decides
	Consumer string `json:"consumer,omitempty"` // For reserved: the consumer
	Key      string `json:"key,omitempty"`      // For filter and the limits: the meta key
	// For filter and the limits: the submission's value, if it has one
	Value *MetaValue `json:"value,omitempty"`
	// For limit and value_limit: chunks of that value in flight
	InFlight *uint32 `json:"in_flight,omitempty"`
	Max      *uint32 `json:"max,omitempty"` // For limit, value_limit, restart_grace and rate: the maximum
	// For rate: time until the next reservation is allowed
	RetryAfterMS *int64 `json:"retry_after_ms,omitempty"`
	// For hidden and alternative: number of the branch that comes first
	HiddenBy int `json:"hidden_by,omitempty"`
	// Under Fair: the chunk's tenant in each block, the outermost first
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
	ObstacleRate        = "rate"
	ObstacleAfter       = "after" // the submission waits for others
)

// CompareRequest is the body of POST /v1/queues/{queue}/strategies/compare; A and B are as Strategy in ReserveRequest,
// the rest as in PreviewRequest.
type CompareRequest struct {
	A   json.RawMessage `json:"a" schema:"Strategy"`               // One strategy
	B   json.RawMessage `json:"b" schema:"Strategy"`               // The other strategy
	Max int             `json:"max,omitempty" limit:"0..MaxPicks"` // Most chunks to look ahead; 0 or absent: 10
	// The same seed gives the same picks from the same state; absent: a random one
	Seed *uint64 `json:"seed,omitempty" limit:"0..MaxSeed"`
	// Facts about the consumer for plugins and formulas, as in a reservation: at most 16 keys
	Context Meta `json:"context,omitempty"`
}

// CompareResponse is how two strategies differ on one state.
type CompareResponse struct {
	A       Spread `json:"a"`       // Picks of one strategy
	B       Spread `json:"b"`       // Picks of the other strategy
	Overlap int    `json:"overlap"` // Chunks that both would hand out

	// The first chunks that only strategy a would hand out, in its order
	OnlyA []PreviewPick `json:"only_a" limit:"..MaxDiffering"`
	// The first chunks that only strategy b would hand out, in its order
	OnlyB []PreviewPick `json:"only_b" limit:"..MaxDiffering"`

	Seed uint64 `json:"seed"` // Seed of Random; with it, the same state gives the same picks again

	// End of the restart grace; until then, picks leave out chunks that a limit counts. Absent: there is none
	RestartGraceUntil Time `json:"restart_grace_until,omitzero"`

	// Shards of a queue of several shards that did not answer, and whose chunks the answer lacks
	MissingShards []MissingShard `json:"missing_shards,omitempty"`
}

// Spread is how the picks of one strategy are spread over the values of each meta key; "$submission" is the submission.
type Spread struct {
	Strategy string      `json:"strategy"` // The canonical text
	Picks    int         `json:"picks"`    // Chunks that the server would hand out
	Keys     []KeySpread `json:"keys"`     // Spread by meta key; $submission stands for the submission itself

	// Blocks that did not score, because their plugin is missing, inactive, out of use or failed. Their next branch
	// was used, as in a reserve. Absent if there are none
	Warnings []StrategyWarning `json:"warnings,omitempty"`
}

// KeySpread is the spread over the values of one key.
type KeySpread struct {
	Key      string  `json:"key"`                    // The meta key
	Picks    int     `json:"picks"`                  // Chunks whose submission has the key
	Distinct int     `json:"distinct"`               // Number of different values among the picks
	MaxShare float64 `json:"max_share" limit:"0..1"` // Share of the most frequent value
	// Jain's index over all values that either strategy would hand out: 1 if all have the same number, 1/n if one of n
	// has all
	Jain float64 `json:"jain" limit:"0..1"`
}

// PreviewRequest is the body of POST /v1/queues/{queue}/strategies/preview. Strategy is as in ReserveRequest; Max is 1 to
// 100, 0 is 10. The same Seed on the same state gives the same picks; nil is any.
type PreviewRequest struct {
	Strategy json.RawMessage `json:"strategy,omitempty" schema:"Strategy"` // The strategy; absent: Random
	Max      int             `json:"max,omitempty" limit:"0..MaxPicks"`    // Most chunks to look ahead; 0 or absent: 10
	// The same seed gives the same picks from the same state; absent: a random one
	Seed *uint64 `json:"seed,omitempty" limit:"0..MaxSeed"`
	// Facts about the consumer for plugins and formulas, as in a reservation: at most 16 keys
	Context Meta `json:"context,omitempty"`
}

// PreviewResponse is what a reserve would hand out now, in its order, and the seed that it was drawn by.
type PreviewResponse struct {
	Strategy string        `json:"strategy"` // The canonical text
	Picks    []PreviewPick `json:"picks"`    // The chunks that the server would hand out, in order
	// Seed of Random; with it, the same state gives the same picks again
	Seed uint64 `json:"seed"`

	// Blocks that did not score, because their plugin is missing, inactive, out of use or failed. Their next branch
	// was used, as in a reserve. Absent if there are none
	Warnings []StrategyWarning `json:"warnings,omitempty"`
	// End of the restart grace; until then, picks leave out chunks that a limit counts. Absent: there is none
	RestartGraceUntil Time `json:"restart_grace_until,omitzero"`

	// Shards of a queue of several shards that did not answer, and whose chunks the answer lacks
	MissingShards []MissingShard `json:"missing_shards,omitempty"`
}

// PreviewPick is a chunk that would be handed out, by the branch of this number, from 1. Path is the way to that branch
// through the strategy, as in OrElse[1] > MaxSimultaneous(company<5) > Random.
type PreviewPick struct {
	Submission string `json:"submission"` // Id of the submission
	Index      uint32 `json:"index"`      // Index of the chunk
	Meta       Meta   `json:"meta"`       // Meta of the submission
	Priority   int64  `json:"priority"`   // Priority of the submission
	Branch     int    `json:"branch"`     // Number of the branch, from 1; inside of Fair every alternative is a branch
	Path       string `json:"path"`       // The way to the branch through the strategy

	Shard int `json:"shard,omitempty"` // Number of the shard that has it; absent if the queue has one shard
	// Under PreferDistinct: chunks of the value in flight, earlier picks among them; absent: 0
	InFlight uint32 `json:"in_flight,omitempty"`
	// Under Random: approximate number of chunks that it was drawn from
	Among uint64 `json:"among,omitempty"`
}
