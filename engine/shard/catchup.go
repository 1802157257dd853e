package shard

import (
	"context"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// CatchUp ticks until nothing is due any more and what followed from it is committed. What is
// due again because of a commit, like a chunk that expired and needs no back-off, is done too.
func (s *Shard) CatchUp(ctx context.Context) error {
	for {
		s.Worker.Tick()
		b, err := (*doors)(s).Begin(func(*machine.Machine, queue.Time) error { return nil })
		if err != nil || b == nil {
			return err
		}
		if err := b.Wait(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
