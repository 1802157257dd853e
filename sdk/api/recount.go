package api

// Recount is how far a queue's recounts have come: what is kept as counters is counted again, a little at a time, while work goes on.
// Totals count from the server's start.
type Recount struct {
	EveryMS     int64   `json:"every_ms"`                // Time between two rounds; 0: never
	Rounds      uint64  `json:"rounds_total"`            // Rounds completed since the server's start
	LastRoundAt *Time   `json:"last_round_at,omitempty"` // Time of the last round; absent before the first
	Progress    float64 `json:"progress"`                // Progress of the current round, from 0 to 1
	// Submissions whose counters were compared with their chunks
	Submissions uint64 `json:"submissions_checked_total"`
	// Values of meta keys whose counters were compared with their submissions
	Values uint64 `json:"values_checked_total"`
	// Totals of the queue compared with its submissions
	QueueTotals uint64 `json:"queue_counters_checked_total"`
	// Comparisons that a round could not make; the next round tries again
	Skipped uint64 `json:"skipped_total"`
	// Totals that differed in one round; if they differ in the next one too, they are drifts
	Suspected uint64 `json:"suspected_total"`
	// Wrong counters; a number above 0 means a bug of the server
	Drifts    uint64         `json:"drifts_total"`
	ByCounter []RecountDrift `json:"drifts_by_counter"` // Wrong counters, by name
	// The latest wrong counter; absent if there was none
	Newest  *CounterDrift `json:"newest_drift,omitempty"`
	Stopped bool          `json:"stopped"` // Whether a bug of the server ended recounts until the next start
}

// RecountDrift is how often a counter was found to be wrong.
type RecountDrift struct {
	Scope   string `json:"scope" names:"scopes of counters"` // Object that the counter belongs to
	Counter string `json:"counter"`                          // Name of the counter
	Drifts  uint64 `json:"drifts_total"`                     // Number of times that it was wrong
}

// CounterDrift is a counter that was found to be wrong.
type CounterDrift struct {
	Scope      string     `json:"scope" names:"scopes of counters"` // Object that the counter belongs to
	Counter    string     `json:"counter"`                          // Name of the counter
	Submission string     `json:"submission,omitempty"`             // The submission, for the counter of a submission
	Key        string     `json:"meta_key,omitempty"`               // The meta key, for the counter of a value
	Value      *MetaValue `json:"value,omitempty"`                  // The value, for the counter of a value
	Kept       uint64     `json:"kept"`                             // Value of the counter
	// The true value, which the counter has now if the server corrected it
	Recounted uint64 `json:"recounted"`
	// Whether the server corrected it; if not, other data is damaged too, and a restart recounts everything
	Corrected bool `json:"corrected"`
	At        Time `json:"at"` // Time of the discovery
}
