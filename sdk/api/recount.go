package api

// Recount is how far a queue's recounts have come: what is kept as counters is counted again, a little at a time, while work goes on.
// Totals count from the server's start.
type Recount struct {
	EveryMS     int64          `json:"every_ms"` // 0: never
	Rounds      uint64         `json:"rounds_total"`
	LastRoundAt *Time          `json:"last_round_at,omitempty"`
	Progress    float64        `json:"progress"` // of the round under way, 0 to 1
	Submissions uint64         `json:"submissions_checked_total"`
	Values      uint64         `json:"values_checked_total"`
	QueueTotals uint64         `json:"queue_counters_checked_total"`
	Skipped     uint64         `json:"skipped_total"`
	Suspected   uint64         `json:"suspected_total"` // totals that differed; a drift if they do so in the next round too
	Drifts      uint64         `json:"drifts_total"`
	ByCounter   []RecountDrift `json:"drifts_by_counter"`
	Newest      *CounterDrift  `json:"newest_drift,omitempty"`
	Stopped     bool           `json:"stopped"` // a recount broke off: none is made until the next start
}

// RecountDrift is how often a counter was found to be wrong.
type RecountDrift struct {
	Scope   string `json:"scope"` // submission, value or queue
	Counter string `json:"counter"`
	Drifts  uint64 `json:"drifts_total"`
}

// CounterDrift is a counter that was found to be wrong.
type CounterDrift struct {
	Scope      string     `json:"scope"`
	Counter    string     `json:"counter"`
	Submission string     `json:"submission,omitempty"` // scope submission
	Key        string     `json:"meta_key,omitempty"`   // scope value
	Value      *MetaValue `json:"value,omitempty"`
	Kept       uint64     `json:"kept"`
	Recounted  uint64     `json:"recounted"`
	Corrected  bool       `json:"corrected"`
	At         Time       `json:"at"`
}
