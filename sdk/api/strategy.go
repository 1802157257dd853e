package api

import "encoding/json"

// NamedStrategy is one version of a strategy that a queue keeps under a name; the answer of GET and PUT
// /v1/queues/{queue}/strategies/{name}, whose header ETag names the version for If-Match.
type NamedStrategy struct {
	Name string `json:"name"` // Name: 1 to 64 letters, digits, '.', '_' and '-'
	// Version, from 1; each change makes the next. The server keeps the last 100
	Version   uint32 `json:"version"`
	Strategy  string `json:"strategy"`   // The canonical text
	ETag      string `json:"etag"`       // Id of the version, for If-Match
	CreatedAt Time   `json:"created_at"` // Time when the version was stored
}

// StrategiesInUse is the answer of GET /v1/queues/{queue}/strategies/in-use: the strategies that consumers reserved by in the last hour,
// those that handed out most chunks first. At most 256 are told apart: the one that was unused for longest makes room.
type StrategiesInUse struct {
	// Strategies, those that handed out the most chunks first; at most 256
	Items []StrategyUse `json:"items"`
	// Start of the covered time: an hour ago, or the server's start if that is later
	Since Time   `json:"since"`
	Next  string `json:"next,omitempty"` // The cursor of the next page; absent on the last
	// Shards that did not answer, if the queue has several
	MissingShards []MissingShard `json:"missing_shards,omitempty"`
}

// StrategyUse is a strategy in use. The rates are over the last one to two minutes, empty reserves included. Consumers
// estimates how many names reserved by it in the last half hour to hour: it is rarely wrong up to 20, and by a few
// percent above.
type StrategyUse struct {
	Strategy string `json:"strategy"` // The canonical text
	// Approximate number of consumers that reserved with it in the last half hour to hour
	Consumers int `json:"consumers"`
	// Reserves over the last one to two minutes, including empty ones
	ReservesPerSecond float64 `json:"reserves_per_second"`
	// Chunks handed out, over the last one to two minutes
	ChunksPerSecond float64 `json:"chunks_per_second"`
	LastUsed        Time    `json:"last_used"` // End of the last reserve with it, to the second
}

// StrategyRequest is the body of PUT /v1/queues/{queue}/strategies/{name} and of POST .../strategies/validate. Strategy is one
// JSON value: the text form in a string, or a tree; to validate also {"name":"..."}.
type StrategyRequest struct {
	// Strategy to store or validate; only for validation, it may be a name
	Strategy json.RawMessage `json:"strategy" schema:"Strategy"`
}

// ValidStrategy is the answer of POST /v1/queues/{queue}/strategies/validate: the meaning of a valid strategy.
type ValidStrategy struct {
	Strategy string          `json:"strategy"`               // The canonical text
	Tree     json.RawMessage `json:"tree" schema:"Strategy"` // The canonical JSON
	// The compiled branches, in the order in which the server asks them
	Branches []string          `json:"branches"`
	Warnings []StrategyWarning `json:"warnings"` // Parts without effect
}

// StrategyWarning is one part of a strategy that has no effect.
type StrategyWarning struct {
	Kind    string `json:"kind" names:"warnings"` // Kind of problem
	Pointer string `json:"pointer"`               // The block: a JSON pointer into the canonical JSON, below /strategy
	Detail  string `json:"detail"`                // The rest of a sentence about it
}

// Views is the answer of GET /v1/queues/{queue}/views. The sums are of all queues of the server, in bytes.
type Views struct {
	// Memory of the views of all queues, by strategies of consumers
	Bytes             uint64 `json:"bytes"`
	BytesMost         uint64 `json:"bytes_most"`          // Limit of bytes: the server's option view-memory
	QuestionBytes     uint64 `json:"question_bytes"`      // Memory of the views that only questions use
	QuestionBytesMost uint64 `json:"question_bytes_most"` // Limit of question_bytes: a quarter of bytes_most
	Items             []View `json:"items"`               // The views, the largest first
	Next              string `json:"next,omitempty"`      // The cursor of the next page; absent on the last
	// Shards that did not answer, if the queue has several
	MissingShards []MissingShard `json:"missing_shards,omitempty"`
}

// View is the index of one branch of a strategy: it is made on first use, and goes when it is not used for long or room is needed.
type View struct {
	Branch string `json:"branch"` // Text of the branch
	// Approximate memory, including its part of shared data; while it is being built, the most that it may take
	Bytes uint64 `json:"bytes"`
	// Whether only questions (preview, explain, why, compare) use it, and no consumer
	Question bool `json:"question"`
	Built    bool `json:"built"`           // false: the server is building it, and no reserve uses it yet
	Shard    int  `json:"shard,omitempty"` // Number of the shard that has it, in a list of a queue of several shards
}
