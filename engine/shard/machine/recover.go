package machine

import (
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
)

// history answers what the history knows, for the ops of a replay.
type history struct {
	Holds func(queue.SubmissionID) (bool, error)
	Past  func(seq uint32) (*Past, error) // nil: it does not hold it
}

// Past is what the history tells of an ended submission.
type Past struct {
	Row    *checkpoint.Ended
	Record *Record
	Sub    *backlog.Submission
}
