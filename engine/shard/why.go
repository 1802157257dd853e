package shard

import (
	"context"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// Obstacle is what keeps a chunk from being handed out by a branch.
type Obstacle uint8

// The obstacles, in the order in which they are looked for. NoObstacle: a reserve that begins now may be given the chunk.
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
	NotItsTurn  // under Fair: other tenants come before
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
	InFlight uint32          // IsLimited
	HiddenBy int             // IsHidden: index of the branch
	Tenant   *backlog.Tenant // of a fair branch, if nothing before IsLimited is in the way: whose the chunk is
	Before   int             // NotItsTurn: how many tenants come before; at least 1
}

// Standing is about where an available chunk stands that one of the branches would hand out some day.
type Standing struct {
	Branch int    // the first that admits it now
	Ahead  uint64 // chunks that would come before it if nothing changed; of those that Random draws among half
	Among  uint64 // not 0: the order is Random, and draws among so many chunks, this one among them
	Whole  bool   // everything was looked at; otherwise there are more before it
}

// Why is where a chunk stands.
type Why struct {
	State    queue.ChunkState
	Branches []BranchWhy // of the plan
	Standing *Standing   // nil if the chunk is not available, or no branch admits it now
}

// Why tells the first obstacle between a chunk and each branch of the plan, and about where the chunk stands.
func (s *Shard) Why(ctx context.Context, id queue.SubmissionID, index uint32, plan *strategy.Plan) (Why, error) {
	chunk, err := s.Chunk(ctx, id, index)
	if err != nil {
		return Why{}, err
	}
	why := Why{State: chunk.State, Branches: make([]BranchWhy, len(plan.Branches))}
	there := false
	err = s.withViews(ctx, []*strategy.Plan{plan}, func(views [][]*backlog.View) looks {
		r := s.m.live(id)
		if there = r != nil; !there {
			return 0
		}
		return s.m.why(r, index, plan, views[0], &why)
	})
	if err != nil {
		return Why{}, err
	}
	if !there { // it has ended
		if chunk, err = s.Chunk(ctx, id, index); err != nil {
			return Why{}, err
		}
		why.State = chunk.State
		for i := range why.Branches {
			why.Branches[i] = whyChunk(&chunk, false)
		}
	}
	if err := s.turns(ctx, plan, why.Branches); err != nil {
		return Why{}, err
	}
	why.Standing, err = s.standing(ctx, id, index, plan, why.Branches)
	return why, err
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

// why finds the obstacles in one hold of the mutex, but for whose turn it is.
func (m *machine) why(r *record, index uint32, plan *strategy.Plan, views []*backlog.View, why *Why) (n looks) {
	chunk := m.chunk(r, index)
	why.State = chunk.State
	own := whyChunk(&chunk, r.parked && r.sub.IsAvailable(index))
	meta := r.sub.Meta()
	giving := -1 // the first branch that has something to give
	for i := range plan.Branches {
		n++
		w := &why.Branches[i]
		if *w = own; w.Obstacle != NoObstacle {
			continue
		}
		*w = whyBranch(&plan.Branches[i], meta, m.backlog.InFlight)
		if w.Obstacle != NotAdmitted {
			if tenant, ok := views[i].TenantOf(r.sub); ok {
				w.Tenant = &tenant
			}
		}
		if w.Obstacle == NoObstacle && giving >= 0 {
			w.Obstacle, w.HiddenBy = IsHidden, giving
		}
		if giving < 0 {
			if n += 2; m.backlog.Gives(views[i]) {
				giving = i
			}
		}
	}
	return n
}

// whyBranch is the obstacle that the branch's filters and limits are, seen how many chunks of each value are in flight.
func whyBranch(br *strategy.Branch, meta queue.Meta, inFlight func(queue.MetaKey, queue.MetaValue) uint32) BranchWhy {
	for _, f := range br.Filters {
		if value, there := meta.Find(f.Key); !there || value != f.Value {
			return BranchWhy{Obstacle: NotAdmitted, Filter: f, Value: value, HasValue: there}
		}
	}
	for _, l := range br.Limits {
		if value, there := meta.Find(l.Key); there {
			if n := inFlight(l.Key, value); n >= l.Max {
				return BranchWhy{Obstacle: IsLimited, Limit: l, Value: value, HasValue: true, InFlight: n}
			}
		}
	}
	return BranchWhy{}
}
