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
	most, draw, err := e.validPreview(most, seed)
	if err != nil {
		return nil, 0, err
	}
	all, err := q.shard.Preview(ctx, plans, most, draw)
	return all, draw, err
}

// validPreview checks the numbers of a request and fills in what it leaves out.
func (e *Engine) validPreview(most int, seed *uint64) (int, uint64, error) {
	if most == 0 {
		most = defaultPreview
	}
	if most < 1 || most > MaxPreview {
		return 0, 0, queue.Invalid("/max", "is %d; 1 to %d are allowed", most, MaxPreview)
	}
	if seed == nil {
		return most, e.options.Seed() & maxSeed, nil
	}
	if *seed > maxSeed {
		return 0, 0, queue.Invalid("/seed", "is %d; 0 to %d are allowed", *seed, uint64(maxSeed))
	}
	return most, *seed, nil
}

// Why tells where a chunk stands, and the first obstacle between it and each branch of the plan.
func (e *Engine) Why(ctx context.Context, id queue.SubmissionID, index uint32, plan *strategy.Plan) (queue.ChunkState, []BranchWhy, error) {
	q, err := e.route(id)
	if err != nil {
		return 0, nil, err
	}
	return q.shard.Why(ctx, id, index, plan)
}

// Explained is how a strategy stands and what it would hand out.
type Explained = shard.Explained

// BranchState is how one of its branches stands.
type BranchState = shard.BranchState

// Explain tells how each branch of a plan stands, and for each pick of a preview what kept the earlier branches from it.
func (e *Engine) Explain(ctx context.Context, queueName string, r PreviewRequest) (Explained, uint64, error) {
	q, err := e.queue(queueName)
	if err != nil {
		return Explained{}, 0, err
	}
	most, seed, err := e.validPreview(r.Max, r.Seed)
	if err != nil {
		return Explained{}, 0, err
	}
	x, err := q.shard.Explain(ctx, r.Plan, most, seed)
	return x, seed, err
}

// StrategyText is the canonical text of a strategy given as for Plan.
func (e *Engine) StrategyText(raw []byte) (string, error) {
	if len(raw) == 0 {
		return "Random", nil
	}
	s, err := strategy.ParseJSON(raw)
	if err != nil {
		return "", err
	}
	return s.String(), nil
}
