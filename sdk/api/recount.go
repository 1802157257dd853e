package api

// Recount is how far a queue's recounts have come: what is kept as counters is counted again, a little at a time, while work goes on.
// Totals count from the server's start.
type Recount struct {
	EveryMS     int64   `json:"every_ms"`                  // How often everything is recounted; 0: never
	Rounds      uint64  `json:"rounds_total"`              // How often everything was, since the server's start
	LastRoundAt *Time   `json:"last_round_at,omitempty"`   // When that was last; absent before the first
	Progress    float64 `json:"progress"`                  // How much of the round under way is done, from 0 to 1
	Submissions uint64  `json:"submissions_checked_total"` // Submissions whose own counters were compared with their chunks
	// Values of meta keys whose counters were compared with their submissions
	Values      uint64 `json:"values_checked_total"`
	QueueTotals uint64 `json:"queue_counters_checked_total"` // Totals of the queue that were compared with its submissions
	// Comparisons that could not be made in a round: the next one tries again
	Skipped uint64 `json:"skipped_total"`
	// Totals that differed in one round; those that do so in the next one too are drifts
	Suspected uint64 `json:"suspected_total"`
	// Counters that were wrong; anything but 0 is a mistake of the server
	Drifts    uint64         `json:"drifts_total"`
	ByCounter []RecountDrift `json:"drifts_by_counter"`      // Which counters those were
	Newest    *CounterDrift  `json:"newest_drift,omitempty"` // The last one; absent if there was none
	// Whether a recount broke off with a mistake of the server's: none is made until the next start
	Stopped bool `json:"stopped"`
}

// RecountDrift is how often a counter was found to be wrong.
type RecountDrift struct {
	Scope   string `json:"scope" names:"scopes of counters"` // What the counter is kept for
	Counter string `json:"counter"`                          // Which one
	Drifts  uint64 `json:"drifts_total"`                     // How often it was found to be wrong
}

// CounterDrift is a counter that was found to be wrong.
type CounterDrift struct {
	Scope      string     `json:"scope" names:"scopes of counters"` // What the counter is kept for
	Counter    string     `json:"counter"`                          // Which one
	Submission string     `json:"submission,omitempty"`             // Whose it is, if a submission's
	Key        string     `json:"meta_key,omitempty"`               // The meta key, if it is a value's
	Value      *MetaValue `json:"value,omitempty"`                  // The value, if it is one's
	Kept       uint64     `json:"kept"`                             // What it said
	Recounted  uint64     `json:"recounted"`                        // What is there, and what it says now if it was corrected
	// Whether it was corrected; if not, something else is damaged too, and a restart recounts everything
	Corrected bool `json:"corrected"`
	At        Time `json:"at"` // When it was found
}
