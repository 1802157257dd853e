package api

import "encoding/json"

// NamedStrategy is one version of a strategy that a queue keeps under a name; the answer of GET and PUT
// /v1/queues/{queue}/strategies/{name}, whose header ETag names the version for If-Match.
type NamedStrategy struct {
	Name      string `json:"name"`
	Version   uint32 `json:"version"`  // from 1; each change makes the next
	Strategy  string `json:"strategy"` // canonical text
	ETag      string `json:"etag"`     // as in the header ETag, quotes included
	CreatedAt Time   `json:"created_at"`
}

// StrategiesInUse is the answer of GET /v1/queues/{queue}/strategies/in-use: the strategies that consumers reserved by in the last hour,
// those that handed out most chunks first. At most 256 are told apart: the one that was unused for longest makes room.
type StrategiesInUse struct {
	Items []StrategyUse `json:"items"`
	Since Time          `json:"since"` // what was used before is not known: an hour ago, or later if the server started since
}

// StrategyUse is a strategy in use. The rates are over the last one to two minutes, empty reserves included. Consumers is how many names
// reserved by it in the last half hour to hour: an estimate, rarely wrong up to 20 and by a few percent beyond.
type StrategyUse struct {
	Strategy          string  `json:"strategy"` // canonical text
	Consumers         int     `json:"consumers"`
	ReservesPerSecond float64 `json:"reserves_per_second"`
	ChunksPerSecond   float64 `json:"chunks_per_second"`
	LastUsed          Time    `json:"last_used"` // to the second
}

// StrategyRequest is the body of PUT /v1/queues/{queue}/strategies/{name} and of POST .../strategies/validate. Strategy is one
// JSON value: the text form in a string, or a tree; to validate also {"name":"..."}.
type StrategyRequest struct {
	Strategy json.RawMessage `json:"strategy"`
}

// ValidStrategy is the answer of POST /v1/queues/{queue}/strategies/validate: what a valid strategy means.
type ValidStrategy struct {
	Strategy string            `json:"strategy"` // canonical text
	Tree     json.RawMessage   `json:"tree"`     // canonical JSON
	Branches []string          `json:"branches"` // what it compiles to, in the order in which it is asked
	Warnings []StrategyWarning `json:"warnings"` // what in it has no effect
}

// StrategyWarning is one part of a strategy that has no effect.
type StrategyWarning struct {
	Kind    string `json:"kind"`    // stable name, such as limit_never_binds
	Pointer string `json:"pointer"` // of the block: into the canonical JSON, below "/strategy"
	Detail  string `json:"detail"`  // the rest of a sentence about it
}
