package engine

import (
	"context"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/strategy"
)

// PreviewRequest asks what a reserve of up to Max chunks (1 to MaxPreview; 0: 10) would hand out. The same seed on
// the same state gives the same; nil: any.
type PreviewRequest struct {
	Plan *strategy.Plan
	Max  int
	Seed *uint64
}

// Previewed is one chunk that a reserve would hand out now.
type Previewed = shard.Previewed

// MaxPreview is how many chunks one preview foresees at most.
const MaxPreview = shard.MaxPreview

// BranchWhy is how a chunk stands with one branch, Obstacle what keeps the branch from handing it out.
type (
	BranchWhy = shard.BranchWhy
	Obstacle  = shard.Obstacle
)

// The obstacles; package shard says what each means.
const (
	NoObstacle  = shard.NoObstacle
	IsDone      = shard.IsDone
	IsDead      = shard.IsDead
	IsSkipped   = shard.IsSkipped
	IsWaiting   = shard.IsWaiting
	IsReserved  = shard.IsReserved
	NotYetDue   = shard.NotYetDue
	NotAdmitted = shard.NotAdmitted
	IsLimited   = shard.IsLimited
	IsHidden    = shard.IsHidden
)

// maxSeed keeps seeds exact in every JSON implementation.
const maxSeed = 1<<53 - 1

const defaultPreview = 10

// Preview tells what a reserve would hand out now, and by which seed. Nothing is reserved and nothing changes.
func (e *Engine) Preview(ctx context.Context, queueName string, r PreviewRequest) (picks []Previewed, seed uint64, err error) {
	all, seed, err := e.previews(ctx, queueName, []*strategy.Plan{r.Plan}, r.Max, r.Seed)
	if err != nil {
		return nil, 0, err
	}
	return all[0], seed, nil
}

func (e *Engine) previews(ctx context.Context, queueName string, plans []*strategy.Plan, most int, seed *uint64) ([][]Previewed, uint64, error) {
	q, err := e.queue(queueName)
	if err != nil {
		return nil, 0, err
	}
	if most == 0 {
		most = defaultPreview
	}
	if most < 1 || most > MaxPreview {
		return nil, 0, queue.Invalid("/max", "is %d; 1 to %d are allowed", most, MaxPreview)
	}
	if seed == nil {
		drawn := e.options.Seed() & maxSeed
		seed = &drawn
	}
	if *seed > maxSeed {
		return nil, 0, queue.Invalid("/seed", "is %d; 0 to %d are allowed", *seed, uint64(maxSeed))
	}
	all, err := q.shard.Preview(ctx, plans, most, *seed)
	return all, *seed, err
}

// Why tells where a chunk stands, and the first obstacle between it and each branch of the plan.
func (e *Engine) Why(ctx context.Context, id queue.SubmissionID, index uint32, plan *strategy.Plan) (queue.ChunkState, []BranchWhy, error) {
	q, err := e.route(id)
	if err != nil {
		return 0, nil, err
	}
	return q.shard.Why(ctx, id, index, plan)
}
