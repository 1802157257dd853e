package api

// MetaKey is a meta key of a queue, as GET /v1/queues/{queue}/meta-keys lists it.
type MetaKey struct {
	Key       string `json:"key"`
	Values    uint64 `json:"values"`     // that open submissions have or that something is set for
	ValuesSet uint64 `json:"values_set"` // of them, that something is set for
}

// ValueCount is one value of a meta key: what is ready and in flight of it, and what is set for it. It is the answer of GET and
// PUT /v1/queues/{queue}/meta-keys/{key}/values/{value}.
type ValueCount struct {
	Value       MetaValue `json:"value"`
	Ready       uint64    `json:"ready"`
	Paused      uint64    `json:"paused,omitempty"`  // would be ready, but for a pause
	Blocked     uint64    `json:"blocked,omitempty"` // would be ready, but for a block
	InFlight    uint64    `json:"in_flight"`
	Submissions uint64    `json:"submissions"`
	Limit       *uint32   `json:"limit"`     // nil: none is set
	Weight      *float64  `json:"weight"`    // nil: none is set, which counts as 1
	Saturated   bool      `json:"saturated"` // in flight is at the limit, or above it
	// SaturatedSince is from when on it has been so whenever the server looked, once a second, but for moments under five seconds.
	// nil: it is not, or is one of more than 10,000 values and was not looked at.
	SaturatedSince *Time  `json:"saturated_since"`
	ETag           string `json:"etag,omitempty"`      // of what is set, quotes included; "" when nothing is
	ChangedAt      Time   `json:"changed_at,omitzero"` // when it was set
}

// ValueSettings is the body of PUT /v1/queues/{queue}/meta-keys/{key}/values/{value}. It replaces both: nil is not set.
type ValueSettings struct {
	Limit  *uint32  `json:"limit,omitempty"`  // most chunks in flight, with any strategy: 0 to 2,147,483,647
	Weight *float64 `json:"weight,omitempty"` // share under Fair: 0.001 to 1000, with at most three decimals
}

// Saturated is a value that is at its limit, in an empty answer with ReasonAllLimited.
type Saturated struct {
	Key      string    `json:"key"`
	Value    MetaValue `json:"value"`
	InFlight uint32    `json:"in_flight"`
	Limit    uint32    `json:"limit"` // below it, the strategy would be given chunks of the value
}
