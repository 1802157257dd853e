package shard

import (
	"context"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// Obstacle is what keeps a chunk from being handed out by a branch.
type Obstacle uint8

// The obstacles, in the order in which they are looked for. NoObstacle: the branch may hand it out.
const (
	NoObstacle Obstacle = iota
	IsDone
	IsDead
	IsSkipped
	IsWaiting   // for another try
	IsReserved  // somebody holds it
	NotYetDue   // the submission waits for its run_at
	NotAdmitted // a filter does not match
	IsLimited   // a value of the submission has as many chunks in flight as the limit allows
	IsHidden    // an earlier branch has something to give
)

// BranchWhy is how a chunk stands with one branch. Which fields count depends on the obstacle.
type BranchWhy struct {
	Obstacle Obstacle
	Until    queue.Time      // IsWaiting, IsReserved (the deadline), NotYetDue
	Consumer string          // IsReserved
	Filter   strategy.Filter // NotAdmitted
	Limit    strategy.Limit  // IsLimited
	Value    queue.MetaValue // NotAdmitted: the submission's own, if it has one; IsLimited
	HasValue bool
	InFlight uint32 // IsLimited
	HiddenBy int    // IsHidden: index of the branch
	Counted  bool   // NoObstacle: Standing is known
	Standing uint64 // chunks before it; under Random: chunks to choose from
}

// whySlice is how many submissions and gates a branch's standing may look at.
const whySlice = 1000

// Why tells the first obstacle between a chunk and each branch of the plan.
func (s *Shard) Why(ctx context.Context, id queue.SubmissionID, index uint32, plan *strategy.Plan) (queue.ChunkState, []BranchWhy, error) {
	chunk, err := s.Chunk(ctx, id, index)
	if err != nil {
		return 0, nil, err
	}
	state := chunk.State
	list := make([]BranchWhy, len(plan.Branches))
	var there bool
	err = s.look(ctx, []*strategy.Plan{plan}, func(views [][]*backlog.View) {
		r := s.m.live(id)
		if there = r != nil && r.sub != nil; there {
			state = s.m.why(r, index, plan, views[0], list)
		}
	})
	if err == nil && !there { // it has ended
		if chunk, err = s.Chunk(ctx, id, index); err == nil {
			state = chunk.State
			for i := range list {
				list[i] = whyChunk(&chunk, false)
			}
		}
	}
	return state, list, err
}

// whyChunk is the obstacle that the chunk itself is to every branch.
func whyChunk(c *queue.Chunk, parked bool) (w BranchWhy) {
	switch c.State {
	case queue.ChunkDone:
		w.Obstacle = IsDone
	case queue.ChunkDead:
		w.Obstacle = IsDead
	case queue.ChunkSkipped:
		w.Obstacle = IsSkipped
	case queue.ChunkReserved:
		w.Obstacle, w.Until, w.Consumer = IsReserved, c.Deadline, c.Consumer
	case queue.ChunkWaiting:
		w.Obstacle, w.Until = IsWaiting, c.NotBefore
		if parked {
			w.Obstacle = NotYetDue
		}
	}
	return w
}

func (m *machine) why(r *record, index uint32, plan *strategy.Plan, views []*backlog.View, list []BranchWhy) queue.ChunkState {
	chunk := m.chunk(r, index)
	own, meta := whyChunk(&chunk, r.parked && r.sub.IsAvailable(index)), r.sub.Meta()
	giving := -1 // the first branch that has something to give
	var budget = whySlice
	for i := range plan.Branches {
		switch w := own; {
		case w.Obstacle != NoObstacle:
			list[i] = w
		default:
			list[i] = m.whyBranch(&plan.Branches[i], meta, nil)
		}
		if list[i].Obstacle == NoObstacle && giving >= 0 {
			list[i] = BranchWhy{Obstacle: IsHidden, HiddenBy: giving}
		}
		if list[i].Obstacle == NoObstacle {
			list[i].Standing, list[i].Counted = m.backlog.Standing(views[i], r.sub, index, budget)
			budget = 0 // at most one slice in all; every later branch is hidden by this one
		}
		if giving < 0 && own.Obstacle == NoObstacle && len(m.backlog.Preview(views[i:i+1], 1, draws(0), nil)) > 0 {
			giving = i
		}
	}
	return chunk.State
}

// whyBranch is the obstacle that the branch's filters and limits are; more counts as in flight too.
func (m *machine) whyBranch(br *strategy.Branch, meta queue.Meta, more map[queue.MetaEntry]uint32) (w BranchWhy) {
	for _, f := range br.Filters {
		if value, there := meta.Find(f.Key); !there || value != f.Value {
			return BranchWhy{Obstacle: NotAdmitted, Filter: f, Value: value, HasValue: there}
		}
	}
	for _, l := range br.Limits {
		if value, there := meta.Find(l.Key); there {
			if n := m.backlog.InFlight(l.Key, value) + more[queue.MetaEntry{Key: l.Key, Value: value}]; n >= l.Max {
				return BranchWhy{Obstacle: IsLimited, Limit: l, Value: value, HasValue: true, InFlight: n}
			}
		}
	}
	return w
}
