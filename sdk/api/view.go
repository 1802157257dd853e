package api

// Views is the answer of GET /v1/queues/{queue}/views. The sums are of all queues of the server, in bytes.
type Views struct {
	// What the views of all queues take together, by strategies that are reserved by
	Bytes             uint64 `json:"bytes"`
	BytesMost         uint64 `json:"bytes_most"`          // What they may take: the server's option view-memory
	QuestionBytes     uint64 `json:"question_bytes"`      // What those take that only questions made
	QuestionBytesMost uint64 `json:"question_bytes_most"` // What those may take: a quarter as much
	Items             []View `json:"items"`               // The views, the largest first
	Next              string `json:"next,omitempty"`      // The cursor of the next page; absent on the last
}

// View is the index of one branch of a strategy: it is made on first use, and goes when it is not used for long or room is needed.
type View struct {
	Branch string `json:"branch"` // Text of the branch
	// About how much memory it takes, an equal part of what it shares with views of another number; while it is being built, how much it
	// may come to
	Bytes    uint64 `json:"bytes"`
	Question bool   `json:"question"` // Only questions (preview, explain, why, compare) are about it: no consumer reserves by it
	Built    bool   `json:"built"`    // false: it is being built, and nothing is reserved by it yet
}
