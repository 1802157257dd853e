package engine

import "github.com/quern-queue/quern/engine/queue"

// queueAt is a queue that serves.
func queueAt(e *Engine, name string) *Queue { return mustServe(e.Queue(name)) }

// queueOf is the queue of a submission.
func queueOf(e *Engine, id queue.SubmissionID) *Queue { return mustServe(e.QueueOf(id)) }

func mustServe(q *Queue, err error) *Queue {
	if err != nil {
		panic(err)
	}
	return q
}
