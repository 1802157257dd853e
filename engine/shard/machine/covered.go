package machine

import (
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// The backlog knows the ruling on every submission, so that no covered chunk is handed out. This file has the machine's
// questions to the rules themselves, and its counts of covered work.

// Rules are an operator's pauses and blocks, as the machine asks about them.
type Rules interface {
	// Covering is the rule that counts for a submission with this meta, false if none
	// covers it. The id may be 0.
	Covering(id queue.SubmissionID, meta queue.Meta) (queue.Rule, bool)
	// Spares says that a passed dead_deadline does not end the submission now. The worker looks at it again when that
	// may have changed.
	Spares(r *Record, now queue.Time) bool
	// TakenBack is the answer for the token of a reservation that a rule took back, false if none did.
	TakenBack(r *Record) (queue.Result, bool)
	// Own is the ruling by the rules about this very submission and by those about several values.
	Own(r *Record) queue.Ruling
	// HoldsBack says whether rules keep chunks of the plan from being handed out.
	HoldsBack(plan *strategy.Plan) bool
}

// noRules are the rules of a machine without parts.
type noRules struct{}

func (noRules) Covering(queue.SubmissionID, queue.Meta) (r queue.Rule, is bool) { return r, false }
func (noRules) Spares(*Record, queue.Time) bool                                 { return false }
func (noRules) TakenBack(*Record) (is queue.Result, was bool)                   { return is, false }
func (noRules) Own(*Record) queue.Ruling                                        { return queue.Unruled }
func (noRules) HoldsBack(*strategy.Plan) bool                                   { return false }

// Ruled is called when, in a book, rules begin or cease to cover a shown submission.
func (c *Stats) Ruled(sub *backlog.Submission, book int, before, after queue.Ruling) {
	operations := uint64(sub.Available()) * uint64(sub.Data.(*Record).Details().Operations)
	if before != queue.Unruled {
		c.Covered[book] -= operations
	}
	if after != queue.Unruled {
		c.Covered[book] += operations
	}
}

// cover counts operations of a shown submission that rules cover.
func (c *Stats) cover(r *Record, by uint64) {
	for book := range c.Covered {
		if r.Sub.Counted(book) != queue.Unruled {
			c.Covered[book] += by
		}
	}
}

// OperationsReady is the sum of the operations of ready chunks.
func (c *Stats) OperationsReady(b *backlog.Backlog) uint64 {
	if b.Rules.Halted() {
		return 0
	}
	return c.Operations - c.Covered[b.Rules.Book()]
}
