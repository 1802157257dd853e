package api

// MetaKey is a meta key of a queue, as GET /v1/queues/{queue}/meta-keys lists it.
type MetaKey struct {
	Key       string `json:"key"`        // The key
	Values    uint64 `json:"values"`     // Values that open submissions have or that something is set for
	ValuesSet uint64 `json:"values_set"` // Of them, those that something is set for
}

// ValueCount is one value of a meta key: what is ready and in flight of it, and what is set for it. It is the answer of GET and
// PUT /v1/queues/{queue}/meta-keys/{key}/values/{value}.
type ValueCount struct {
	Value       MetaValue `json:"value"`             // The value
	Ready       uint64    `json:"ready"`             // Ready chunks of submissions with the value
	Paused      uint64    `json:"paused,omitempty"`  // Such chunks that would be ready, but for a pause
	Blocked     uint64    `json:"blocked,omitempty"` // Such chunks that would be ready, but for a block
	InFlight    uint64    `json:"in_flight"`         // Chunks of such submissions that are held
	Submissions uint64    `json:"submissions"`       // Open submissions with the value
	// Most chunks in flight, for every reservation of the queue; null: no limit is set
	Limit *uint32 `json:"limit" limit:"0..MaxValueLimit" nullable:"true"`
	// Share under Fair, with up to three decimals; null: none is set, which counts as 1
	Weight    *float64 `json:"weight" limit:"MinWeight..MaxWeight" nullable:"true"`
	Saturated bool     `json:"saturated"` // Whether in_flight is at limit, or above it
	// From when on it has been at its limit whenever the server looked, once a second, but for moments shorter than five seconds. null: it
	// is not, or it is one of more than 10,000 values and was not looked at
	SaturatedSince *Time  `json:"saturated_since" nullable:"true"`
	ETag           string `json:"etag,omitempty"`      // Names what is set, for If-Match; absent when nothing is
	ChangedAt      Time   `json:"changed_at,omitzero"` // When it was set; absent when nothing is
}

// ValueSettings is the body of PUT /v1/queues/{queue}/meta-keys/{key}/values/{value}. It replaces both: nil is not set.
type ValueSettings struct {
	// Most chunks in flight, for every reservation of the queue; null: no limit is set
	Limit *uint32 `json:"limit,omitempty" limit:"0..MaxValueLimit" nullable:"true"`
	// Share under Fair, with up to three decimals; null: none is set, which counts as 1
	Weight *float64 `json:"weight,omitempty" limit:"MinWeight..MaxWeight" nullable:"true"`
}

// Saturated is a value that is at its limit, in an empty answer with ReasonAllLimited.
type Saturated struct {
	Key      string    `json:"key"`       // The meta key
	Value    MetaValue `json:"value"`     // The value
	InFlight uint32    `json:"in_flight"` // Chunks of submissions with the value that are held
	// The limit that is reached: of the strategy's own and the one set for the value the smaller; of several branches the widest
	Limit uint32 `json:"limit"`
}
