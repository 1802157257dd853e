package api

import "encoding/json"

// NamedStrategy is one version of a strategy that a queue keeps under a name; the answer of GET and PUT
// /v1/queues/{queue}/strategies/{name}, whose header ETag names the version for If-Match.
type NamedStrategy struct {
	Name      string `json:"name"`       // Name: 1 to 64 letters, digits, '.', '_' and '-'
	Version   uint32 `json:"version"`    // From 1; each change makes the next. The last 100 are kept
	Strategy  string `json:"strategy"`   // The canonical text
	ETag      string `json:"etag"`       // Names the version; for If-Match
	CreatedAt Time   `json:"created_at"` // When the version was put
}

// StrategiesInUse is the answer of GET /v1/queues/{queue}/strategies/in-use: the strategies that consumers reserved by in the last hour,
// those that handed out most chunks first. At most 256 are told apart: the one that was unused for longest makes room.
type StrategiesInUse struct {
	Items []StrategyUse `json:"items"`          // Those that handed out most chunks first; at most 256
	Since Time          `json:"since"`          // What was used before is not known: an hour ago, or later if the server started since
	Next  string        `json:"next,omitempty"` // The cursor of the next page; absent on the last
}

// StrategyUse is a strategy in use. The rates are over the last one to two minutes, empty reserves included. Consumers is how many names
// reserved by it in the last half hour to hour: an estimate, rarely wrong up to 20 and by a few percent beyond.
type StrategyUse struct {
	Strategy          string  `json:"strategy"`            // The canonical text
	Consumers         int     `json:"consumers"`           // About how many names reserved by it in the last half hour to hour
	ReservesPerSecond float64 `json:"reserves_per_second"` // Over the last one to two minutes, empty ones included
	ChunksPerSecond   float64 `json:"chunks_per_second"`   // Handed out, over the last one to two minutes
	LastUsed          Time    `json:"last_used"`           // The end of the last reserve by it, to the second
}

// StrategyRequest is the body of PUT /v1/queues/{queue}/strategies/{name} and of POST .../strategies/validate. Strategy is one
// JSON value: the text form in a string, or a tree; to validate also {"name":"..."}.
type StrategyRequest struct {
	Strategy json.RawMessage `json:"strategy" schema:"Strategy"` // What to name or to validate; only to validate it may be a name
}

// ValidStrategy is the answer of POST /v1/queues/{queue}/strategies/validate: what a valid strategy means.
type ValidStrategy struct {
	Strategy string            `json:"strategy"`               // The canonical text
	Tree     json.RawMessage   `json:"tree" schema:"Strategy"` // The canonical JSON
	Branches []string          `json:"branches"`               // What it compiles to, in the order in which it is asked
	Warnings []StrategyWarning `json:"warnings"`               // What in it has no effect
}

// StrategyWarning is one part of a strategy that has no effect.
type StrategyWarning struct {
	Kind    string `json:"kind" names:"warnings"` // What is the matter
	Pointer string `json:"pointer"`               // The block: a JSON pointer into the canonical JSON, below /strategy
	Detail  string `json:"detail"`                // The rest of a sentence about it
}
