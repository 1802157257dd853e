package api

// Durations tell how long chunks took lately.
type Durations struct {
	// Start of the counted time: half an hour to an hour ago, or the start of the server or of the measurement
	Since Time           `json:"since"`
	Wait  DurationCounts `json:"wait"` // From the insert, or from run_at, to the first reservation
	Run   DurationCounts `json:"run"`  // From a reservation to its completion or failure
}

// DurationCounts are durations of one kind.
type DurationCounts struct {
	Count uint64 `json:"count"`  // Number of durations
	P50MS int64  `json:"p50_ms"` // Half of them were shorter, to within a tenth
	P95MS int64  `json:"p95_ms"` // 95 % of them were shorter, to within a tenth
	MaxMS int64  `json:"max_ms"` // The longest; of a value on a busy queue, the longest that was measured
	// Counts by duration, from the first bucket that is not empty to the last one
	Buckets []DurationBucket `json:"buckets" limit:"..MaxDurationBuckets"`
}

// DurationBucket counts durations from half of its bound up to its bound.
type DurationBucket struct {
	BelowMS int64  `json:"below_ms"` // Upper bound, a power of two; the first is 1
	Count   uint64 `json:"count"`    // Durations below it, and in no bucket before
}
