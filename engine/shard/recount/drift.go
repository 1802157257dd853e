package recount

import "github.com/quern-queue/quern/engine/queue"

// Scope is the owner of a counter: the queue, a value or a submission.
type Scope uint8

// The scopes.
const (
	OfSubmission Scope = iota
	OfValue            // of a meta key
	OfQueue
	Scopes
)

// String is the scope's name in answers, logs and metrics.
func (s Scope) String() string {
	return [Scopes]string{"submission", "value", "queue"}[s]
}

// Skip is the reason why a comparison was not made in a round.
type Skip uint8

// The reasons.
const (
	// a submission's done: a late completion is on its way, so that the number of done chunks does not follow from the
	// rest
	SkipLate Skip = iota
	SkipMany      // a total of parts that cannot be walked in slices, and are too many for one
	Skips
)

// String is the reason's name in answers and metrics.
func (r Skip) String() string { return [Skips]string{"late_completion", "too_many"}[r] }

// Counter is a kept counter that recounts check.
type Counter uint8

// The counters, by scope. Books are those of engine/backlog/ruled.go.
const (
	OwnWaiting Counter = iota
	OwnDead
	OwnSkipped
	OwnShelved
	OwnLent
	OwnLentReady
	OwnReserved
	OwnInFlight
	OwnAvailable
	OwnDone

	ValueAvailable // chunks available, whatever rules say
	ValuePaused
	ValueBlocked
	ValueInFlight
	ValueSubmissions

	QueueAvailable // likewise
	QueueReady
	QueuePaused
	QueueBlocked
	QueueWaiting
	QueueRunAt
	QueueDead
	QueueDone
	QueueSkipped
	QueueOperations
	QueueCovered     // operations that rules about values and submissions cover, in the first book
	QueueCoveredNext // in the second
	QueueReserved
	QueueSweeping     // reservations of ended submissions
	QueueEndedLetters // dead letters of ended submissions
	QueueShelved
	QueueLent
	QueueLentReady
	Counters

	firstOfQueue  = QueueAvailable
	queueCounters = Counters - firstOfQueue
)

// String is the counter's name in answers, logs and metrics.
func (c Counter) String() string {
	return [Counters]string{
		"waiting", "dead", "skipped", "shelved", "lent", "lent_ready", "reserved", "in_flight", "available", "done",
		"available", "paused", "blocked", "in_flight", "submissions",
		"available", "ready", "paused", "blocked", "waiting", "run_at", "dead", "done", "skipped", "operations",
		"covered_operations", "covered_operations_next",
		"reserved", "sweeping", "dead_letters", "shelved", "lent", "lent_ready",
	}[c]
}

// Scope is the owner of the counter.
func (c Counter) Scope() Scope {
	switch {
	case c < ValueAvailable:
		return OfSubmission
	case c < firstOfQueue:
		return OfValue
	}
	return OfQueue
}

// Drift is a wrong counter that a recount found.
type Drift struct {
	Counter     Counter
	Submission  queue.SubmissionID // OfSubmission
	Entry       queue.MetaEntry    // OfValue
	Kept, Found uint64
	Corrected   bool // false: it could not be corrected, as other state is damaged with it
	At          queue.Time
}
