package api

// Views is the answer of GET /v1/queues/{queue}/views. The sums are of all queues of the server, in bytes.
type Views struct {
	Bytes             uint64 `json:"bytes"`
	BytesMost         uint64 `json:"bytes_most"` // the server's option view-memory
	QuestionBytes     uint64 `json:"question_bytes"`
	QuestionBytesMost uint64 `json:"question_bytes_most"`
	Items             []View `json:"items"` // the largest first
}

// View is the index of one branch of a strategy: it is made on first use, and goes when it is not used for long or room is needed.
type View struct {
	Branch   string `json:"branch"`
	Bytes    uint64 `json:"bytes"`    // about how much memory it takes
	Question bool   `json:"question"` // no consumer reserves by it
	Built    bool   `json:"built"`
}
