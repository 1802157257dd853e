package engine

import (
	"github.com/quern-queue/quern/engine/shard/submissions"
)

// resources are what a queue has beside inserting, reserving and finishing. Calls that need no more than the shard are in the shard's own
// resources.
type resources struct {
	Bulks        Bulks
	Consumers    Consumers
	DeadLetters  DeadLetters
	Questions    Questions
	Reservations Reservations
	Rules        Rules
	Schedules    Schedules
	Strategies   Strategies
	Submissions  Submissions
	Values       Values
}

type (
	// Bulks are the bulk operations of a queue. Those of all queues are listed, read and cancelled by Engine.
	Bulks struct{ q *Queue }
	// Consumers are the consumers that are attached to a queue, hold chunks of it or have an order.
	Consumers struct{ q *Queue }
	// DeadLetters are the dead chunks of a queue that can be redriven.
	DeadLetters struct{ q *Queue }
	// Questions are about what strategies would do, and why work does not move. They change nothing.
	Questions struct{ q *Queue }
	// Reservations say which consumer holds which chunk, for an operator.
	Reservations struct{ q *Queue }
	// Rules are the pauses and blocks of a queue.
	Rules struct{ q *Queue }
	// Schedules insert submissions into a queue when they are due.
	Schedules struct{ q *Queue }
	// Strategies are those that a queue keeps under a name.
	Strategies struct{ q *Queue }
	// Submissions are those of a queue, open or ended.
	Submissions struct {
		*submissions.Submissions
		q *Queue
	}
	// Values are the values of meta keys in a queue, and what is set for them.
	Values struct{ q *Queue }
)

// of joins them with their queue, which has its shard.
func (r *resources) of(q *Queue) {
	s := q.shard
	*r = resources{
		Bulks{q}, Consumers{q}, DeadLetters{q}, Questions{q}, Reservations{q}, Rules{q}, Schedules{q},
		Strategies{q}, Submissions{s.Submissions, q}, Values{q},
	}
}
