package api

// MetaKey is a meta key of a queue with the default of its values, as GET /v1/queues/{queue}/meta-keys lists it. It is the
// answer of GET and PUT /v1/queues/{queue}/meta-keys/{key}.
type MetaKey struct {
	Key string `json:"key"` // The key
	// Number of values that open submissions or settings have; a value counts once in each shard that has it
	Values    uint64 `json:"values"`
	ValuesSet uint64 `json:"values_set"` // Number of values with settings
	// Default limit of its values: most chunks in flight of each that has no limit of its own; null: none
	Limit *uint32 `json:"limit" limit:"0..MaxValueLimit" nullable:"true"`
	// Default weight of its values, for those without a weight of their own; null: not set, which counts as 1
	Weight *float64 `json:"weight" limit:"MinWeight..MaxWeight" nullable:"true"`
	// Default rate of its values, for those without a rate of their own; absent: not set
	Rate *Rate `json:"rate,omitempty"`
	// Default quota of its values, for those without a quota of their own; absent: not set
	Quota *GroupLimits `json:"quota,omitempty"`
	// Id of the default, for If-Match; absent if nothing is set
	ETag      string `json:"etag,omitempty"`
	ChangedAt Time   `json:"changed_at,omitzero"` // Time of the last setting of the default; absent if nothing is set
}

// ValueCount is one value of a meta key: its ready chunks, its chunks in flight, and its settings. It is the answer of
// GET and PUT /v1/queues/{queue}/meta-keys/{key}/values/{value}.
type ValueCount struct {
	Value MetaValue `json:"value"` // The value
	Ready uint64    `json:"ready"` // Ready chunks with the value
	// Chunks with the value that are ready except for a pause
	Paused uint64 `json:"paused,omitempty"`
	// Chunks with the value that are ready except for a block
	Blocked  uint64 `json:"blocked,omitempty"`
	InFlight uint64 `json:"in_flight"` // Chunks with the value in flight
	// Chunks with the value that wait for a retry or for run_at; absent: 0, or an event
	Waiting uint64 `json:"waiting,omitempty"`
	// Dead chunks of open submissions with the value; absent: 0, or an event
	Dead uint64 `json:"dead,omitempty"`
	// Completed chunks of open submissions with the value; absent: 0, or an event
	Done uint64 `json:"done,omitempty"`
	// Time at which the oldest submission with the value and a ready chunk was inserted; absent: there is none, or an event
	OldestReadyAt Time   `json:"oldest_ready_at,omitzero"`
	Submissions   uint64 `json:"submissions"` // Open submissions with the value
	// Most chunks in flight, for every reservation of the queue; null: no limit
	Limit *uint32 `json:"limit" limit:"0..MaxValueLimit" nullable:"true"`
	// Share under Fair, with up to three decimals; null: not set, which counts as 1
	Weight *float64 `json:"weight" limit:"MinWeight..MaxWeight" nullable:"true"`
	// Rate that replaces the number in every MaxRate of the key over the same time; absent: not set
	Rate *Rate `json:"rate,omitempty"`
	// Limits of its open submissions and waiting chunks; absent: not set
	Quota *GroupLimits `json:"quota,omitempty"`
	// Default limit of the key, which holds while limit is null; absent: none
	DefaultLimit *uint32 `json:"default_limit,omitempty" limit:"0..MaxValueLimit"`
	// Default weight of the key, which holds while weight is null; absent: not set
	DefaultWeight *float64 `json:"default_weight,omitempty" limit:"MinWeight..MaxWeight"`
	// Default rate of the key, which holds while rate is absent; absent: not set
	DefaultRate *Rate `json:"default_rate,omitempty"`
	// Default quota of the key, each number of which holds while quota has none; absent: not set
	DefaultQuota *GroupLimits `json:"default_quota,omitempty"`
	Saturated    bool         `json:"saturated"` // Whether in_flight has reached limit, or default_limit
	// Start of the time at its limit, ignoring gaps of under five seconds; the server looks once a second. null: it is
	// not at its limit, or it is one of more than 10,000 values and was not examined
	SaturatedSince *Time `json:"saturated_since" nullable:"true"`
	// Id of the settings, for If-Match; absent if nothing is set
	ETag      string `json:"etag,omitempty"`
	ChangedAt Time   `json:"changed_at,omitzero"` // Time of the last setting; absent if nothing is set
}

// ValueSettings is the body of PUT /v1/queues/{queue}/meta-keys/{key}/values/{value}, and for all values of a key of PUT
// /v1/queues/{queue}/meta-keys/{key}. It replaces all: nil is not set.
type ValueSettings struct {
	// Most chunks in flight, for every reservation of the queue; null: no limit
	Limit *uint32 `json:"limit,omitempty" limit:"0..MaxValueLimit" nullable:"true"`
	// Share under Fair, with up to three decimals; null: not set, which counts as 1
	Weight *float64 `json:"weight,omitempty" limit:"MinWeight..MaxWeight" nullable:"true"`
	// Replaces the number in every MaxRate of the key over the same time; absent: not set
	Rate *Rate `json:"rate,omitempty"`
	// Limits of its open submissions and waiting chunks; the server refuses an insert that would exceed one; absent: not set
	Quota *GroupLimits `json:"quota,omitempty"`
}

// Rate is a number of reservations in a time.
type Rate struct {
	Max   uint32 `json:"max" limit:"1..MaxValueRate"`       // Most reservations of the value in the time
	PerMS int64  `json:"per_ms" limit:"MinPerMS..MaxPerMS"` // The time; a MaxRate with another one keeps its number
}

// Saturated is a value that is at its limit, in an empty answer with ReasonAllLimited.
type Saturated struct {
	Key      string    `json:"key"`       // The meta key
	Value    MetaValue `json:"value"`     // The value
	InFlight uint32    `json:"in_flight"` // Chunks of submissions with the value in flight
	// The limit that is reached: the smaller of the strategy's and the value's; of several branches, the largest
	Limit uint32 `json:"limit"`
	// Whether these are the submissions without the key, counted together for missing=one; value is then empty
	Missing bool `json:"missing,omitempty"`
}
