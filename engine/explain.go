package engine

import (
	"context"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/engine/strategy"
)

// BranchWhy is how a chunk stands with one leaf of a plan, Obstacle what keeps the leaf from handing it out.
type BranchWhy = inspect.BranchWhy

// Explained is how a strategy stands and what it would hand out.
type Explained = inspect.Explained

// ExplainedPick is one chunk that would be handed out, and why no branch before its own gave it.
type ExplainedPick = inspect.ExplainedPick

// Seat is how the tenant that a chunk belongs to stands in one Fair block.
type Seat = inspect.Seat

// Explain tells what reaches each block of a strategy, how its leaves stand, and for each pick of a preview what kept the
// earlier leaves from it.
func (p Questions) Explain(ctx context.Context, r PreviewRequest) (Explained, uint64, error) {
	asked, err := p.question(r.Max, r.Seed, r.Context)
	if err != nil {
		return Explained{}, 0, err
	}
	x, err := p.q.shard.Inspect.Explain(ctx, r.Plan, asked)
	return x, asked.Seed, err
}

// longestWait bounds the expected wait that is reported: a longer one says nothing.
const longestWait = 365 * 24 * time.Hour

// Why tells where a chunk stands, and the first obstacle between it and each leaf of the plan. What comes before it is
// rounded to two digits, as it has changed by the time it is read. The rate is how many chunks of the queue were reserved a second over
// the last minute.
func (p Questions) Why(ctx context.Context, id queue.SubmissionID, index uint32, plan *strategy.Plan) (inspect.Why, error) {
	why, err := p.q.shard.Inspect.Why(ctx, id, index, plan)
	rate := p.q.pace.perSecond(queue.At(p.q.e.options.Now()), p.q.shard.Stats().ReservedTotal)
	if at := why.Standing; err == nil && at != nil {
		at.Ahead, at.Among, at.PerSecond = coarse(at.Ahead), coarse(at.Among), rate
		if seconds := float64(at.Ahead) / rate; rate > 0 {
			wait := time.Duration(min(seconds, longestWait.Seconds()) * float64(time.Second))
			at.WaitMs = new(wait.Round(time.Millisecond).Milliseconds())
		}
	}
	return why, err
}

// coarse keeps the first two digits of a number.
func coarse(n uint64) uint64 {
	digit := uint64(1)
	for n/digit >= 100 {
		digit *= 10
	}
	return n / digit * digit
}
