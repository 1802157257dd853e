package engine

import (
	"context"

	"github.com/quern-queue/quern/engine/queue"
)

// CatchUp does at once what Run does as time goes by, up to everything that is due at the time that Options.Now tells, and returns when
// that is committed. It may run beside Run. Call it after setting the clock forward by hand; a server need not. It fails when a
// commit does, or when ctx ends.
func (e *Engine) CatchUp(ctx context.Context) error {
	for _, q := range e.all() {
		if err := q.shard.CatchUp(ctx); err != nil {
			return err
		}
	}
	e.bulks.step(ctx)
	e.forwards.carry(ctx)
	e.house(ctx)
	for e.cleaner.round(ctx) {
	}
	e.sample()
	readLedgers(ctx, e.all(), queue.At(e.options.Now()))
	return ctx.Err()
}
