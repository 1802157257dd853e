package inspect

// why: for one chunk and one strategy, the first obstacle in each branch. It asks the same views and limits as a
// reserve, under the same mutex, so it sees the same. The place in the order is an estimate: under Random, half of the
// candidates.

import (
	"context"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

//	obstacles in the order in which they are looked for; the first one found is named
//
//	  chunk     done, dead, skipped, forwarded, reserved, waiting, not_due, after
//	  rule      blocked, paused
//	  leaf      filter ─► grace or limit of the strategy ─► limit of an operator
//	  branch    hidden: an earlier branch has something to give
//	            alternative: so has an earlier leaf, for the same tenant
//	  turn      other tenants of a Fair block come first
//
// BranchWhy is how a chunk stands with one leaf of a plan. Which fields count depends on the obstacle: the comment of a
// field names its obstacles without their prefix.
type BranchWhy struct {
	Obstacle queue.Obstacle
	Until    queue.Time      // Waiting, Reserved (the deadline), NotDue, Grace, Rate; Paused, Blocked: 0 for ever
	Wait     time.Duration   // Rate: until then
	Consumer string          // Reserved
	Rule     queue.Rule      // Paused, Blocked
	Filter   strategy.Filter // Filter
	Limit    strategy.Limit  // Grace, Limit, Rate, ValueLimit: there Max may be 0
	Value    queue.MetaValue // Filter: the submission's own, if it has one; Grace, Limit, ValueLimit
	HasValue bool
	InFlight uint32               // Limit, ValueLimit; with Meta: of the value by which the branch ranks the chunk
	Meta     queue.Meta           // NoObstacle, under a PreferDistinct without a number
	Awaits   []queue.SubmissionID // After
	HiddenBy int                  // Hidden, Alternative: index of that leaf
	// under Fair, if the chunk is available and the filters admit it: whose it is, the outermost first
	Seats []Seat
}

// Seat is how the tenant that a chunk belongs to stands in one Fair block. Before is how many tenants come before it
// there, set only if no other obstacle is in the way.
type Seat struct {
	backlog.Tenant
	Before int
	share  backlog.Share
}

// Why is where a chunk stands.
type Why struct {
	State  queue.ChunkState
	Leaves []BranchWhy // as Plan.Leaves
	// not rounded, without a rate; nil if the chunk is not available, or no leaf admits it now
	Standing *api.WhyStanding
	Grace    queue.Time // when the restart grace ends; 0: there is none
}

// Why tells the first obstacle between a chunk and each leaf of the plan, and about where the chunk stands.
// The chunk is read first without the lock, from the history if need be. The state that counts is the one under the
// lock; if the submission has ended in between, it is read once more.
func (ins *Inspector) Why(ctx context.Context, id queue.SubmissionID, index uint32, plan *strategy.Plan) (Why, error) {
	chunk, err := ins.submissions.Chunk(ctx, id, index)
	if err != nil {
		return Why{}, err
	}
	leaves := plan.Leaves()
	why := Why{State: chunk.State, Leaves: make([]BranchWhy, len(leaves))}
	there := false
	followed, grace := ins.followed([]*strategy.Plan{plan})
	why.Grace = grace
	err = ins.withViews(ctx, append([]*strategy.Plan{plan}, followed...),
		func(m *machine.Machine, views [][]*backlog.View) machine.Looks {
			r := m.Live(id)
			if there = r != nil; !there {
				return 0
			}
			giving, n := questions{m}.giving(views[1], followed[0], plan)
			return n + questions{m}.why(r, index, leaves, views[0], giving, &why)
		})
	if err != nil {
		return Why{}, err
	}
	if !there { // it has ended
		if chunk, err = ins.submissions.Chunk(ctx, id, index); err != nil {
			return Why{}, err
		}
		why.State = chunk.State
		for i := range why.Leaves {
			why.Leaves[i] = whyChunk(&chunk, false)
		}
	}
	if err := ins.turns(ctx, why.Leaves); err != nil {
		return Why{}, err
	}
	why.Standing, err = ins.standing(ctx, id, index, plan, leaves, why.Leaves)
	return why, err
}

// whyChunk is the obstacle that the chunk itself is to every branch.
func whyChunk(c *queue.Chunk, parked bool) (w BranchWhy) {
	switch c.State {
	case queue.ChunkDone:
		w.Obstacle = queue.ObstacleDone
	case queue.ChunkDead:
		w.Obstacle = queue.ObstacleDead
	case queue.ChunkSkipped:
		w.Obstacle = queue.ObstacleSkipped
	case queue.ChunkForwarded:
		w.Obstacle = queue.ObstacleForwarded
	case queue.ChunkReserved:
		w.Obstacle, w.Until, w.Consumer = queue.ObstacleReserved, c.Deadline, c.Consumer
	case queue.ChunkWaiting:
		w.Obstacle, w.Until = queue.ObstacleWaiting, c.NotBefore
		if parked {
			w.Obstacle = queue.ObstacleNotDue
		}
	}
	return w
}

// whyRule is the obstacle that a rule is to every branch.
func whyRule(rule *queue.Rule) BranchWhy {
	if rule.Action == queue.Block {
		return BranchWhy{Obstacle: queue.ObstacleBlocked, Rule: *rule, Until: rule.Until}
	}
	return BranchWhy{Obstacle: queue.ObstaclePaused, Rule: *rule, Until: rule.Until}
}

// giving is the first leaf of a plan that has something to give now, in the first branch that has; -1: none has. The
// views are those of `followed`, the plan as it may be followed now. A reserve asks a later branch only when the
// earlier ones gave too little, so a branch that has something hides those behind it.
func (qs questions) giving(views []*backlog.View, followed, plan *strategy.Plan) (leaf int, n machine.Looks) {
	first := firstLeaves(followed)
	for i, view := range views {
		n += 2
		if by, ok := qs.m.Backlog.Gives(view); ok {
			return followed.LeavesIn(plan)[first[i]+by], n
		}
	}
	return -1, n
}

// why finds the obstacles in one hold of the mutex, but for whose turn it is.
func (qs questions) why(r *machine.Record, index uint32, leaves []strategy.Leaf, views []*backlog.View, giving int,
	why *Why) (n machine.Looks) {
	m := qs.m
	chunk := m.Chunk(r, index)
	why.State = chunk.State
	own := whyChunk(&chunk, r.Parked && r.Sub.IsAvailable(index))
	if waits := r.Details().Waits; own.Obstacle == queue.ObstacleNotDue && waits.Some() {
		own = BranchWhy{Obstacle: queue.ObstacleAfter, Awaits: waits.Left}
	}
	if rule, covered := m.Joined.Rules.Covering(r.ID, r.Meta()); covered && own.Obstacle == queue.NoObstacle {
		own = whyRule(&rule)
	}
	meta := r.Sub.Meta()
	for i := range leaves {
		leaf, w := &leaves[i], &why.Leaves[i]
		n++
		if *w = own; w.Obstacle != queue.NoObstacle {
			continue
		}
		view := views[leaf.Of]
		*w = whyLeaf(leaf.Branch, meta, qs.valueNow, m.ValueLimits.Until())
		if w.Obstacle != queue.ObstacleFilter {
			for _, seat := range view.Seats(r.Sub, leaf.Number) {
				w.Seats = append(w.Seats, Seat{Tenant: seat.Tenant(), share: seat.Share})
			}
		}
		if w.Obstacle == queue.NoObstacle && giving >= 0 && leaves[giving].Of < leaf.Of {
			w.Obstacle, w.HiddenBy = queue.ObstacleHidden, giving
		}
		if w.Obstacle == queue.NoObstacle {
			n += machine.Looks(2 * len(leaf.Arms))
			if by, ok := m.Backlog.Overtaken(view, r.Sub, leaf.Number); ok {
				w.Obstacle, w.HiddenBy = queue.ObstacleAlternative, i-leaf.Number+by
			}
		}
		if w.Obstacle == queue.NoObstacle && leaf.Fewest != "" {
			w.InFlight = flightOf(leaf.Branch, r.Sub)
			w.Meta = meta
		}
	}
	return n
}

// valueState is the state of a value at a moment: its counts, and how many chunks in flight an operator allows.
type valueState struct {
	counts backlog.Counts
	limit  uint32
	full   bool // at the limit lately, but for moments
	rates  []backlog.RateState
	taken  uint32 // chunks that are taken at this very moment
}

// behind is the obstacle of a rate, if the value has to wait.
func (s *valueState) behind(l strategy.Limit, value queue.MetaValue, has bool) (why BranchWhy, waits bool) {
	for _, r := range s.rates {
		if r.Limit() != l {
			continue
		}
		if at, waits := r.Opens(s.taken); waits {
			now := queue.Time(r.Now() / int64(time.Millisecond))
			until := queue.Time((at + int64(time.Millisecond) - 1) / int64(time.Millisecond))
			return BranchWhy{Obstacle: queue.ObstacleRate, Limit: r.Holds(), Value: value, HasValue: has, Until: until,
				Wait: max(until.Sub(now), time.Millisecond)}, true
		}
	}
	return BranchWhy{}, false
}

func (qs questions) valueNow(entry queue.MetaEntry) valueState {
	return valueState{counts: qs.m.Backlog.Values.Counts(entry.Key, entry.Value),
		limit: qs.m.ValueLimits.Settings(entry).Limit, rates: qs.m.Backlog.Values.OfRates(entry)}
}

// whyLeaf is the obstacle in the leaf's filters and limits, in the limits of an operator, or, until grace, in the
// restart grace because of either. Filters come first: a chunk that the filters do not admit is not held by a limit of
// that leaf.
func whyLeaf(leaf *strategy.Branch, meta queue.Meta, now func(queue.MetaEntry) valueState, grace queue.Time) BranchWhy {
	for _, f := range leaf.Filters {
		if value, there := meta.Find(f.Key); !f.Admits(value, there) {
			return BranchWhy{Obstacle: queue.ObstacleFilter, Filter: f, Value: value, HasValue: there}
		}
	}
	for _, l := range leaf.Limits {
		value, there := meta.Find(l.Key)
		of, lack := queue.LackedBy(l.Key)
		if lack {
			_, has := meta.Find(of)
			there = !has
		}
		if l.Of == strategy.Rate {
			at := now(queue.MetaEntry{Key: l.Key, Value: value})
			if why, waits := at.behind(l, value, there && !lack); waits && (there || l.Key == "") {
				return why
			}
		} else if there {
			if grace != 0 {
				return BranchWhy{Obstacle: queue.ObstacleGrace, Until: grace, Limit: l, Value: value, HasValue: !lack}
			}
			if n := now(queue.MetaEntry{Key: l.Key, Value: value}).counts[l.Of]; l.Reached(n) {
				return BranchWhy{Obstacle: queue.ObstacleLimit, Limit: l, Value: value, HasValue: !lack, InFlight: n}
			}
		}
	}
	for _, entry := range meta {
		at := now(entry)
		limit := strategy.Limit{Key: entry.Key, Max: at.limit}
		if grace != 0 && at.limit != queue.NoLimit {
			return BranchWhy{Obstacle: queue.ObstacleGrace, Until: grace, Limit: limit, Value: entry.Value,
				HasValue: true}
		}
		if n := at.counts[limit.Of]; at.full || limit.Reached(n) {
			return BranchWhy{Obstacle: queue.ObstacleValueLimit, Limit: limit, Value: entry.Value, HasValue: true,
				InFlight: n}
		}
	}
	return BranchWhy{}
}
