package inspect

// explain: the tree of a strategy with the work that reaches each block. It counts submissions, slice by slice, with
// other calls in between, so its numbers are of slightly different moments under load. The number of submissions that
// it looks at is bounded, and the answer has it (Met of Shown).

import (
	"cmp"
	"context"
	"slices"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/scoring"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// Explained is how a strategy stands: the blocks of its tree, the leaves of its plan, and the chunks that it would hand
// out. Met of the Shown submissions were looked at: all of them, unless there are very many. Withheld is the work that
// limits of operators keep from every strategy: it does not enter the tree.
type Explained struct {
	Tree       []api.ExplainBlock  // as Plan.Nodes
	Branches   []api.ExplainBranch // as Leaves of Plan.Unscored
	Picks      []ExplainedPick
	Faults     []error // as in Foreseen
	Met, Shown int
	Withheld   api.Withheld
	// the end of the restart grace, until which all work that a limit counts is left out; 0: there is none
	Grace queue.Time
	// by rule, those that keep most first, at most topMost; they do not enter the tree either
	Ruled []api.RuledAmount
}

// fairState is how a Fair block stands. Its numbers are sums over all its places: an inner block has a place inside of
// every tenant around it. next and owed are of the place inside the tenant that comes next in the block around it.
type fairState struct {
	backlog.Totals
	next    backlog.Tenant
	hasNext bool
	owed    []backlog.Tenant // those that wait for most, at most topMost
	share   backlog.Share
	there   bool // share is
}

// api is the state as JSON carries it, of the Fair block of this branch.
func (f *fairState) api(br *strategy.Branch) api.ExplainFair {
	out := api.ExplainFair{
		Key: br.Fair, Cost: br.Cost.String(), Ledgers: f.Shares, Active: f.Active, Owing: f.Owing,
		Blocked: f.Blocked, Owed: make([]api.Tenant, len(f.owed)),
	}
	if f.hasNext {
		out.Next = new(f.next.API(br.Fair))
	}
	for i := range f.owed {
		out.Owed[i] = f.owed[i].API(br.Fair)
	}
	return out
}

// ExplainedPick is a chunk that would be handed out, and the reason why each leaf before its own did not give it. The
// chunks before it in this preview count as in flight.
type ExplainedPick struct {
	Previewed
	Skipped []BranchWhy
	Tenants []backlog.Tenant // under Fair: whose it is, the outermost first, as they stand before all picks
}

// Inspector answers questions about what a shard would do and why: it changes nothing.
type Inspector struct {
	*shell.Questions
	scoring     *scoring.Scoring
	views       scoring.Views
	submissions Submissions
}

// Submissions are those of the shard, with those that are in the history only.
type Submissions interface {
	Chunk(ctx context.Context, id queue.SubmissionID, index uint32) (queue.Chunk, error)
	EndedRow(ctx context.Context, id queue.SubmissionID) (*checkpoint.Ended, error)
}

// New is the inspector of a shard. It foresees the picks of scoring, so it has the part itself.
func New(q *shell.Questions, s *scoring.Scoring, views scoring.Views, submissions Submissions) *Inspector {
	return &Inspector{Questions: q, scoring: s, views: views, submissions: submissions}
}

// followed gives the plans as they may be followed now, and until when they are restricted; 0: they are not. During the
// restart grace a reserve follows another plan than it was asked for, and so does the question about it. The answer
// says until when.
func (ins *Inspector) followed(plans []*strategy.Plan) (list []*strategy.Plan, until queue.Time) {
	list = plans
	ins.Look(func(m *machine.Machine) {
		if g := m.ValueLimits.Grace; g != nil {
			list, until = make([]*strategy.Plan, len(plans)), g.Until
			for i, plan := range plans {
				list[i] = g.Plan(plan)
			}
		}
	})
	return list, until
}

// Explain tells how a strategy stands, with a preview. Its blocks and leaves are those of
// plan.Unscored: scores refuse nothing that a limit or filter lets pass.
func (ins *Inspector) Explain(ctx context.Context, plan *strategy.Plan, q *Question) (Explained, error) {
	followed, grace := ins.followed([]*strategy.Plan{plan})
	f := foresee(ins.scoring, followed[0])
	scored := scoredBranches(plan)
	plan = plan.Unscored()
	leaves := plan.Leaves()
	x := Explained{Branches: branchesOf(plan, leaves), Grace: grace}
	fairs := make([][]fairState, len(leaves)) // around each leaf, the outermost first
	err := ins.Ask(func(m *machine.Machine) (machine.Looks, error) {
		if err := m.Backlog.Views.AdmitQuestion(plan); err != nil {
			return 0, err
		}
		for i := range leaves {
			x.Branches[i].Built = m.Backlog.Views.Ask(&plan.Branches[leaves[i].Of]).Built()
		}
		return machine.Looks(len(leaves)), nil
	})
	if err != nil {
		return Explained{}, err
	}
	before, unscored := map[queue.MetaEntry]valueState{}, followed[0].Unscored()
	plans := append([]*strategy.Plan{plan}, followed...)
	err = ins.foreseeAll(ctx, plans, []*foresight{f}, q,
		func(m *machine.Machine, views [][]*backlog.View) machine.Looks {
			for i := range leaves {
				fairs[i] = fairStates(views[0][leaves[i].Of], &leaves[i])
			}
			return questions{m}.explain(&x, f.picks, unscored.Leaves(), views[1], before) + machine.Looks(len(leaves))
		})
	if err != nil {
		return Explained{}, err
	}
	x.Faults = f.faults
	if whole := unscored.LeavesIn(plan); unscored != plan {
		for i := range x.Picks {
			x.Picks[i].Leaf = whole[x.Picks[i].Leaf]
		}
	}
	explainPicks(leaves, scored, x.Picks, before, grace)
	if err := ins.explainFair(ctx, plan, leaves, fairs); err != nil {
		return Explained{}, err
	}
	for i := range leaves {
		for level, br := range leaves[i].Around {
			x.Branches[i].Fair[level] = fairs[i][level].api(br)
		}
	}
	t := newTree(plan.Nodes(), grace != 0)
	var ruled ruleTally
	if x.Met, x.Shown, err = ins.walk(ctx, len(t.blocks)+1, func(m *machine.Machine, sub *backlog.Submission) {
		if !ruled.count(m, sub) {
			t.count(m, sub)
		}
	}); err != nil {
		return Explained{}, err
	}
	x.Tree, x.Withheld = t.result()
	x.Ruled = ruled.most()
	return x, nil
}

// branchesOf names the branches of a strategy.
func branchesOf(plan *strategy.Plan, leaves []strategy.Leaf) []api.ExplainBranch {
	list := make([]api.ExplainBranch, len(leaves))
	for i := range leaves {
		l := &leaves[i]
		list[i] = api.ExplainBranch{Branch: i + 1, BranchText: l.Text(), Path: plan.PathText(l),
			Fair: make([]api.ExplainFair, len(l.Around))}
	}
	return list
}

// questions answers questions about a machine, and changes nothing.
type questions struct{ m *machine.Machine }

// explain takes the states of values that must be of the same moment as the picks. Picks and the states of their values
// are taken under one lock. explainPicks then works on copies, and counts each pick in them, so that the second pick
// sees the first as in flight.
func (qs questions) explain(x *Explained, picks []Previewed, leaves []strategy.Leaf, views []*backlog.View,
	before map[queue.MetaEntry]valueState) machine.Looks {
	for _, p := range picks {
		pick, leaf := ExplainedPick{Previewed: p}, &leaves[p.Leaf]
		for _, seat := range views[leaf.Of].Seats(qs.m.Backlog.ByID(p.Submission), leaf.Number) {
			pick.Tenants = append(pick.Tenants, seat.Tenant())
		}
		for _, entry := range countedFor(p.Meta, leaves) {
			before[entry] = qs.valueNow(entry)
		}
		x.Picks = append(x.Picks, pick)
	}
	return machine.Looks(len(views) + len(x.Picks))
}

// scoredBranches is for each branch of plan.Unscored which scored branch of the plan it is
// inside of, from 1; 0: none.
func scoredBranches(plan *strategy.Plan) (of []int) {
	for i := range plan.Branches {
		switch br := &plan.Branches[i]; {
		case br.OnFault:
		case br.Scored == nil:
			of = append(of, 0)
		default:
			for range br.Inner {
				of = append(of, i+1)
			}
		}
	}
	return of
}

// explainPicks says of every pick why the leaves before its own did not give it.
// The reason is judged in the order of the picks: a limit that the first pick filled is why the second comes from a
// later leaf.
func explainPicks(leaves []strategy.Leaf, scored []int, picks []ExplainedPick, values map[queue.MetaEntry]valueState,
	grace queue.Time) {
	now := func(entry queue.MetaEntry) valueState { return values[entry] }
	for i := range picks {
		p := &picks[i]
		for j := range leaves[:p.Leaf] {
			why := whyLeaf(leaves[j].Branch, p.Meta, now, grace)
			if inside := scored[leaves[j].Of]; why.Obstacle == queue.NoObstacle && inside != 0 &&
				inside != scored[leaves[p.Leaf].Of] {
				why.Obstacle = queue.ObstacleScore
			}
			p.Skipped = append(p.Skipped, why)
		}
		for _, entry := range countedFor(p.Meta, leaves) {
			at := values[entry]
			at.counts.Take()
			at.taken++
			values[entry] = at
		}
	}
}

// countedFor is the values for which a submission counts in the leaves: its own, the one of rates without a key, and,
// where limits count all submissions without some key together, and this one lacks it, the value for that.
func countedFor(meta queue.Meta, leaves []strategy.Leaf) []queue.MetaEntry {
	list := append(slices.Clip(meta), queue.MetaEntry{})
	for i := range leaves {
		for _, l := range leaves[i].Limits {
			entry := queue.MetaEntry{Key: l.Key}
			of, lack := queue.LackedBy(l.Key)
			if _, has := meta.Find(of); lack && !has && !slices.Contains(list, entry) {
				list = append(list, entry)
			}
		}
	}
	return list
}

// fairStates are the Fair blocks around a leaf, with whose turn it is.
func fairStates(v *backlog.View, leaf *strategy.Leaf) []fairState {
	states := make([]fairState, len(leaf.Around))
	for level, share := range v.NextShares(leaf.Number) {
		f := &states[level]
		f.share, f.there = share, true
		f.next, f.hasNext = share.Next()
	}
	return states
}

// explainFair counts the tenants of the Fair blocks around leaves. It looks at each block once. Leaves of one branch
// have their outer blocks in common, and come one after another, so a leaf uses its neighbour's result.
func (ins *Inspector) explainFair(ctx context.Context, plan *strategy.Plan, leaves []strategy.Leaf,
	states [][]fairState) error {
	for i := range leaves {
		leaf := &leaves[i]
		for level := range leaf.Around {
			f := &states[i][level]
			if i > 0 && leaf.Number > 0 && level < len(leaves[i-1].Around) &&
				leaves[i-1].Around[level] == leaf.Around[level] {
				known := &states[i-1][level]
				f.Totals, f.owed = known.Totals, known.owed
				continue
			}
			err := ins.Slices(ctx, func(m *machine.Machine, from int) (next int, n machine.Looks) {
				v := m.Backlog.Views.Ask(&plan.Branches[leaf.Of])
				if v == nil { // dropped meanwhile, and no room for another
					return 0, 0
				}
				shares := f.Shares
				next = v.Totals(leaf.Number, level, from, machine.LookMost, &f.Totals)
				return next, machine.Looks(f.Shares - shares)
			})
			if err == nil && f.there {
				err = ins.eachTenant(ctx, f.share, f.owes)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// owes keeps the tenants that compete and are owed most.
func (f *fairState) owes(t backlog.Tenant) {
	if !t.Competes() {
		return
	}
	at, _ := slices.BinarySearchFunc(f.owed, t, func(x, y backlog.Tenant) int {
		return cmp.Or(cmp.Compare(y.Lag, x.Lag), cmp.Compare(x.Info.Tenant, y.Info.Tenant))
	})
	if at < machine.TopMost {
		f.owed = slices.Insert(f.owed, at, t)
		f.owed = f.owed[:min(machine.TopMost, len(f.owed))]
	}
}

// NodeWork is the work of reserves for one kind of block since the shard was opened or reloaded.
type NodeWork struct {
	Node     string // the block's name in the language of strategies
	Examined uint64 // submissions, combinations of values, and candidates for scorers, that were looked at
	Limited  uint64 // of them, those that a limit held back, and that were put where it lets them out again
	Redrawn  uint64 // draws of Random that found nothing, and were made again
	Unwanted uint64 // candidates that the scorer rejected
}

// Blocks is the work of reserves by kind of block, always the same kinds in the same order.
func (ins *Inspector) Blocks() []NodeWork {
	list := make([]NodeWork, 0, backlog.Kinds)
	ins.Look(func(m *machine.Machine) {
		for kind := range backlog.Kinds {
			w := m.Backlog.Work(kind)
			list = append(list, NodeWork{Node: backlog.KindName(kind), Examined: w.Examined, Limited: w.Limited,
				Redrawn: w.Redrawn})
		}
	})
	for _, w := range ins.scoring.Work() {
		list = append(list, NodeWork{Node: w.Block, Examined: w.Examined, Unwanted: w.Unwanted})
	}
	return list
}

// mostSummed is how many tenants one hold of the mutex adds up the lags of: that cannot be
// done in parts, as each lag is of the moment.
const mostSummed = 10_000

// LedgerSums is how the fair ledgers stand together. It looks for the largest lag in slices, between which all others
// have a turn.
func (ins *Inspector) LedgerSums() (sums backlog.LedgerSums) {
	var shares []backlog.Share
	ins.Look(func(m *machine.Machine) { sums, shares = m.Backlog.Ledgers.Sums(mostSummed, nil) })
	for _, share := range shares {
		for from, more := 0, true; more; more = from != 0 {
			ins.Look(func(*machine.Machine) {
				var lag float64
				lag, from = share.MostLag(from, machine.LookMost)
				sums.Most = max(sums.Most, lag)
			})
		}
	}
	return sums
}
