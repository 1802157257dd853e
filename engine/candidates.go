package engine

import (
	"context"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// Candidates gives the first `rows` candidates (1 to strategy.MaxWindow) of a strategy in its text form, in its order and with
// these columns, for a reservation with this context: what a plugin would be asked to score. Nothing is reserved.
// Scores inside of the strategy are left out.
func (e *Engine) Candidates(ctx context.Context, queueName, text string, about queue.Meta, reads []strategy.Column,
	rows int) (*strategy.Window, error) {
	q, err := e.Queue(queueName)
	if err != nil {
		return nil, err
	}
	if rows < 1 || rows > strategy.MaxWindow {
		return nil, queue.Invalid("/rows", "is %d; 1 to %d are allowed", rows, strategy.MaxWindow)
	}
	s, err := strategy.Parse(text)
	if err != nil {
		return nil, err
	}
	return q.shard.Scoring.Candidates(ctx, s.Plan().Unscored(), about, reads, rows)
}
