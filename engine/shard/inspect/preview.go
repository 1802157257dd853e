package inspect

import (
	"context"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
)

// Previewed is one chunk that a reserve would hand out now. Leaf is the index, in Plan.Leaves, of the branch that gave
// it. Head is that branch's candidate, for a preview over several shards.
type Previewed struct {
	Submission queue.SubmissionID
	Index      uint32
	Meta       queue.Meta
	Priority   int64
	Leaf       int
	Head       backlog.Head
}

// Foreseen has the chunks that a reserve by one plan would hand out. Faults are the errors of blocks that did not
// score, so that the preview went on with the branches behind them.
type Foreseen struct {
	Picks  []Previewed
	Faults []error
}

// Question is the reserve that is foreseen. The same seed on the same state gives the same picks, unless scores depend
// on the time.
type Question struct {
	Max     int        // 1 to MaxPreview
	Seed    uint64     // for the draws
	Context queue.Meta // data that the consumer would send about itself, for plugins and formulas
}

// MaxPreview is how many chunks one preview foresees at most. It is done in one hold of the mutex, because it takes the
// chunks and gives them back. Beside its picks a preview copies the ledger of every Fair block that it asks, once: 64
// bytes for each tenant, which MostLooks does not count.
const MaxPreview = queue.MaxPicks

// Preview says for each plan which chunks a reserve would hand out, all of them on the same state. Scorers do not count
// these scores, nothing is reserved and nothing changes. Previewed.Leaf is in Plan.Unscored. grace: until then the
// restart grace keeps back work that a limit counts, and the preview leaves it out; 0: there is none.
func (ins *Inspector) Preview(ctx context.Context, plans []*strategy.Plan,
	q *Question) (all []Foreseen, grace queue.Time, err error) {
	followed, grace := ins.followed(plans)
	foreseen := make([]*foresight, len(plans))
	for i := range plans {
		foreseen[i] = foresee(ins.scoring, followed[i])
	}
	nothing := func(*machine.Machine, [][]*backlog.View) machine.Looks { return 0 }
	if err := ins.foreseeAll(ctx, followed, foreseen, q, nothing); err != nil {
		return nil, grace, err
	}
	all = make([]Foreseen, len(plans))
	for i, f := range foreseen {
		if followed[i] != plans[i] {
			renumber(f.picks, followed[i].Unscored().LeavesIn(plans[i].Unscored()))
		}
		all[i] = Foreseen{f.picks, f.faults}
	}
	return all, grace, nil
}

// foreseeAll runs previews until none of them lacks a score, and calls fn in the hold of the
// mutex in which all are done. The views are those of plans; the previews are of the last ones.
func (ins *Inspector) foreseeAll(ctx context.Context, plans []*strategy.Plan, previews []*foresight, q *Question,
	fn func(*machine.Machine, [][]*backlog.View) machine.Looks) error {
	for {
		now := ins.Now()
		var lacks *foresight
		err := ins.withViews(ctx, plans, func(m *machine.Machine, views [][]*backlog.View) (n machine.Looks) {
			for i, f := range previews {
				n += f.run(m, views[len(views)-len(previews)+i], q, now)
				if f.wants != nil {
					lacks = f
					return n
				}
			}
			return n + fn(m, views)
		})
		if err != nil || lacks == nil {
			return err
		}
		if err := lacks.score(ctx); err != nil {
			return err
		}
	}
}

// renumber makes picks by a restrained plan name the leaves of the whole plan.
func renumber(list []Previewed, leaves []int) {
	for i := range list {
		list[i].Leaf = leaves[list[i].Leaf]
	}
}

// firstLeaves is, by branch, the number of its first leaf in the plan.
func firstLeaves(plan *strategy.Plan) []int {
	first := make([]int, len(plan.Branches))
	for i, leaf := range plan.Leaves() {
		if leaf.Number == 0 {
			first[leaf.Of] = i
		}
	}
	return first
}

// chunkStream keeps the draws of a preview within submissions apart from those that a reserve makes.
const chunkStream = 0xa0761d6478bd642f
