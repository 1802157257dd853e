package inspect

// diagnose: one sentence why work moves or not. Each open chunk that it meets is in flight or
// counts for exactly one cause. So the numbers add up, and "fix the largest cause" is good advice.
//
// It judges by the plans that consumers used in the last hour. A filter that no consumer asks for
// shows as its own cause, which no question about a single strategy would find.
//
//	open chunk ─┬ in flight
//	            ├ dead
//	            ├ waiting for a retry
//	            └ available ─► run_at ─► rule ─► operator's limit ─► plans ─► can be handed out
//	                           └── the first that applies is its cause

import (
	"cmp"
	"context"
	"slices"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// Diagnosis counts, by cause, the open chunks of a value or of a submission that are not handed out. Every open chunk
// that was met is in flight or counts for exactly one cause, unless its submission is just ending.
type Diagnosis struct {
	At           queue.Time
	Causes       []Cause         // those with most chunks first, at most topMost
	Others       api.Amount      // of further causes
	InFlight     uint64          // chunks
	Oldest       queue.HeldChunk // HoldsMet 0: there is none
	Holders      int             // consumers that hold at least one of the reservations met
	HoldsMet     uint64          // reservations that were looked at for Oldest and Holders
	Met, Present int             // submissions that were looked at, and how many there are

	FirstReserved queue.Time // of one submission: when its first chunk was reserved; 0: none was, or it is not known
}

// Cause is one reason for which chunks are not handed out. Its obstacle is one of NoObstacle (they
// can be, by Plan), ObstacleDead, ObstacleWaiting, ObstacleNotDue, ObstaclePaused, ObstacleBlocked,
// ObstacleFilter (no plan asks for them), ObstacleGrace, ObstacleLimit and ObstacleRate (by Plan)
// and ObstacleValueLimit. Until of ObstacleWaiting and ObstacleNotDue is the earliest known; 0: none is.
type Cause struct {
	BranchWhy
	Held api.Amount // submissions, and the chunks of them that this cause is about
	Plan int        // the first of the given plans for which this is the cause
}

// The budget is in looks (a submission or a reservation each), not in time, so that a test finds the same part
// every time.
const (
	// holds of the mutex that a diagnosis takes at most: beyond that it covers only a part
	maxDiagnosis  = 400
	diagnosisMost = machine.LookMost / 2  // looks after which a hold of the mutex begins with no other submission
	mostHolds     = machine.LookMost / 4  // reservations of one submission that are looked at
	mostDelays    = machine.LookMost / 10 // chunks of one submission whose next try is looked at
)

// Asked is the data by which a diagnosis judges.
type Asked struct {
	Plans []*strategy.Plan // those by which consumers reserve, the last used one first

	// Full says that a value has been at its operator's limit lately. A value with short chunks is below its limit for
	// a moment whenever one ends, and its work is held back all the same. nil: only the chunks in flight now count.
	Full func(queue.MetaEntry) bool
}

// Diagnose tells why the chunks of a value move or do not. It makes two walks: by value over submissions with
// available, held or waiting chunks, then by id over those that wait for their run_at, as no list of the value has
// these.
func (ins *Inspector) Diagnose(ctx context.Context, entry queue.MetaEntry, asked Asked) (Diagnosis, error) {
	d := newDiagnosing(asked)
	budget := maxDiagnosis
	err := ins.SlicesWithin(ctx, &budget, -1, func(m *machine.Machine, from int) (next int, n machine.Looks) {
		if d.m = m; d.At == 0 {
			d.At, d.Present = ins.Now(), d.m.Backlog.Values.Of(entry.Key, entry.Value).Submissions
		}
		for next = from; n < diagnosisMost && next != 0; {
			next = d.m.Backlog.Values.EachShown(entry, next, 1,
				func(x *backlog.Submission) { n += d.count(x.Data.(*machine.Record)) })
		}
		return next, n
	})
	if err != nil || d.Met >= d.Present {
		return d.result(), err
	}
	before := ^queue.SubmissionID(0) // those that wait for their run_at are in no list of the value
	err = ins.SlicesWithin(ctx, &budget, -1, func(m *machine.Machine, _ int) (next int, n machine.Looks) {
		d.m, n = m, diagnosisMost/2
		before = d.m.Order.Before(before, diagnosisMost/2, func(r *machine.Record) bool {
			if r.Sub != nil && r.Parked {
				if value, has := r.Sub.Find(entry.Key); has && value == entry.Value {
					n += d.count(r)
				}
			}
			return n < diagnosisMost && d.Met < d.Present
		})
		if before == 0 || d.Met >= d.Present {
			return 0, n
		}
		return 1, n
	})
	return d.result(), err
}

// DiagnoseSubmission is Diagnose for one submission; there is false if it is not open.
func (ins *Inspector) DiagnoseSubmission(id queue.SubmissionID, asked Asked) (d Diagnosis, there bool, err error) {
	by := newDiagnosing(asked)
	err = ins.Ask(func(m *machine.Machine) (n machine.Looks, _ error) {
		by.m, by.At = m, ins.Now()
		r := by.m.Live(id)
		if there = r != nil; there {
			by.Present, by.FirstReserved = 1, r.Begun.Since(r.ID.Time())
			n = by.count(r)
		}
		return n, nil
	})
	return by.result(), there, err
}

// diagnosing counts submissions by cause.
type diagnosing struct {
	Diagnosis
	m      *machine.Machine // the shard's, which a reload replaces
	leaves []askedLeaf
	full   func(queue.MetaEntry) bool // of Asked
	by     map[causeKey]*Cause
	names  map[string]struct{}
	meta   queue.Meta // of the submission that is looked at
}

// askedLeaf is a leaf of a plan by which consumers reserve.
type askedLeaf struct {
	*strategy.Branch
	plan int
}

// causeKey identifies a cause.
type causeKey struct {
	obstacle queue.Obstacle
	rule     queue.RuleID
	entry    queue.MetaEntry
	limit    strategy.Limit // without the key
}

func newDiagnosing(asked Asked) *diagnosing {
	d := &diagnosing{full: asked.Full, by: map[causeKey]*Cause{}, names: map[string]struct{}{}}
	for i, plan := range asked.Plans {
		for _, leaf := range plan.Unscored().Leaves() {
			d.leaves = append(d.leaves, askedLeaf{leaf.Branch, i})
		}
	}
	return d
}

// count adds the chunks of an open submission.
func (d *diagnosing) count(r *machine.Record) (n machine.Looks) {
	d.Met++
	if r.Ending {
		return 1
	}
	n = d.held(r) + d.delayed(r) + machine.Looks(len(d.leaves)) + 1
	d.add(BranchWhy{Obstacle: queue.ObstacleDead}, 0, uint64(r.Dead))
	if available := uint64(r.Sub.Available()); available > 0 {
		why, plan := d.why(r)
		d.add(why, plan, available)
	}
	return n
}

// why is the first obstacle to the available chunks of a submission. Of several plans the first that hands the chunk
// out decides. If none does, it names a limit rather than a filter, because an operator can raise a limit.
func (d *diagnosing) why(r *machine.Record) (why BranchWhy, plan int) {
	if waits := r.Details().Waits; waits.Some() {
		return BranchWhy{Obstacle: queue.ObstacleAfter, Awaits: waits.Left}, 0
	}
	if r.Parked {
		return BranchWhy{Obstacle: queue.ObstacleNotDue, Until: r.Details().RunAt}, 0
	}
	if rule, covered := d.m.Joined.Rules.Covering(r.ID, r.Meta()); covered {
		return whyRule(&rule), 0
	}
	d.meta = r.Sub.AppendMeta(d.meta[:0])
	grace := d.m.ValueLimits.Until()
	if why = whyLeaf(&strategy.Branch{}, d.meta, d.valueNow, grace); why.Obstacle != queue.NoObstacle {
		return why, 0
	}
	why = BranchWhy{Obstacle: queue.ObstacleFilter}
	for _, leaf := range d.leaves {
		switch at := whyLeaf(leaf.Branch, d.meta, d.valueNow, grace); {
		case at.Obstacle == queue.NoObstacle:
			return at, leaf.plan
		case at.Obstacle != queue.ObstacleFilter && why.Obstacle == queue.ObstacleFilter:
			why, plan = at, leaf.plan
		}
	}
	return why, plan
}

// valueNow is the state of a value, now and lately.
func (d *diagnosing) valueNow(entry queue.MetaEntry) valueState {
	at := questions{d.m}.valueNow(entry)
	at.full = d.full != nil && at.limit != queue.NoLimit && d.full(entry)
	return at
}

// held adds the chunks in flight.
func (d *diagnosing) held(r *machine.Record) (n machine.Looks) {
	d.InFlight += uint64(r.Holds.Len())
	d.m.Holds.Each(&r.Holds, func(_ uint32, h *reserver.Hold) bool {
		n++
		d.HoldsMet++
		d.names[d.m.Holds.Consumer(h)] = struct{}{}
		if d.HoldsMet == 1 || h.Reserved < d.Oldest.Reserved {
			d.Oldest = machine.HeldChunk(d.m, r, h, d.At)
		}
		return n < mostHolds
	})
	return n
}

// delayed adds the chunks that wait for their next try. It names the earliest retry only if it looked at all waiting
// chunks: the earliest of a part could be an hour late.
func (d *diagnosing) delayed(r *machine.Record) machine.Looks {
	if r.Waiting == 0 {
		return 0
	}
	why := BranchWhy{Obstacle: queue.ObstacleWaiting}
	list := r.Delays.From(0, mostDelays, nil)
	for _, index := range list {
		if t := r.Tries[index]; t != nil && t.Suspect != machine.Shelved && uint32(len(list)) == r.Waiting {
			why.Until = earlier(why.Until, t.NotBefore)
		}
	}
	d.add(why, 0, uint64(r.Waiting))
	return machine.Looks(len(list))
}

// add counts chunks of one submission for a cause. Causes differ if an operator would change different things: two
// values at their limits are two causes, two filters of one plan are one.
func (d *diagnosing) add(why BranchWhy, plan int, chunks uint64) {
	if chunks == 0 {
		return
	}
	key := causeKey{obstacle: why.Obstacle, rule: why.Rule.ID, limit: why.Limit}
	if key.limit.Key = ""; why.Limit.Key != "" {
		key.entry = queue.MetaEntry{Key: why.Limit.Key, Value: why.Value}
	}
	c := d.by[key]
	switch {
	case c != nil:
		c.Plan = min(c.Plan, plan)
		if why.Obstacle == queue.ObstacleWaiting || why.Obstacle == queue.ObstacleNotDue {
			c.Until = earlier(c.Until, why.Until)
		}
	case len(d.by) >= machine.MostValues:
		d.Others.Submissions++
		d.Others.Chunks += chunks
		return
	default:
		c = &Cause{BranchWhy: why, Plan: plan}
		d.by[key] = c
	}
	c.Held.Submissions++
	c.Held.Chunks += chunks
}

// earlier is the earlier of two times; 0: not known.
func earlier(a, b queue.Time) queue.Time {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

func (d *diagnosing) result() Diagnosis {
	for _, c := range d.by {
		d.Causes = append(d.Causes, *c)
	}
	slices.SortFunc(d.Causes, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Held.Chunks, a.Held.Chunks), cmp.Compare(a.Obstacle, b.Obstacle),
			cmp.Compare(a.Rule.ID, b.Rule.ID),
			cmp.Compare(a.Limit.Key, b.Limit.Key), cmp.Compare(a.Value.Quoted(), b.Value.Quoted()))
	})
	for len(d.Causes) > machine.TopMost {
		last := len(d.Causes) - 1
		d.Others.Submissions += d.Causes[last].Held.Submissions
		d.Others.Chunks += d.Causes[last].Held.Chunks
		d.Causes = d.Causes[:last]
	}
	d.Holders = len(d.names)
	return d.Diagnosis
}
