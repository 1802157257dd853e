package api

// Views is the answer of GET /v1/queues/{queue}/views. The sums are of all queues of the server, in bytes.
type Views struct {
	// Memory of the views of all queues, by strategies of consumers
	Bytes             uint64 `json:"bytes"`
	BytesMost         uint64 `json:"bytes_most"`          // Limit of bytes: the server's option view-memory
	QuestionBytes     uint64 `json:"question_bytes"`      // Memory of the views that only questions use
	QuestionBytesMost uint64 `json:"question_bytes_most"` // Limit of question_bytes: a quarter of bytes_most
	Items             []View `json:"items"`               // The views, the largest first
	Next              string `json:"next,omitempty"`      // The cursor of the next page; absent on the last
}

// View is the index of one branch of a strategy: it is made on first use, and goes when it is not used for long or room is needed.
type View struct {
	Branch string `json:"branch"` // Text of the branch
	// Approximate memory, including its part of shared data; while it is being built, the most that it may take
	Bytes uint64 `json:"bytes"`
	// Whether only questions (preview, explain, why, compare) use it, and no consumer
	Question bool `json:"question"`
	Built    bool `json:"built"` // false: the server is building it, and no reserve uses it yet
}
