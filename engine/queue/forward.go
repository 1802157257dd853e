package queue

// Origin is where a submission came from that another queue forwarded: a dead letter of it.
type Origin struct {
	Source   uint64 // identifies the outbox it came out of, for ever
	Number   uint64 // in that outbox; they grow
	Queue    string
	Chunk    ChunkID
	First    uint32 // the index that the content of this submission's chunk 0 has in its prefix or template
	Attempts uint32 // that were made there
	Died     Time   // when the last of them ended; 0: not known
	Error    string // of the last of them
}

// Outgoing is a dead letter on its way to another queue.
type Outgoing struct {
	Number uint64
	Queue  string // where to
	Chunk  ChunkID
	Stuck  bool // it could not be read, and later ones may have overtaken it
}

// Delivery is a dead letter as it arrives: Submission.Origin is set, and there is one chunk.
type Delivery struct {
	Number     uint64
	Submission NewSubmission
}
