package shard

import (
	"cmp"
	"context"
	"slices"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// Explained is how a strategy stands: the blocks of its tree, the branches of its plan, and what it would hand out. Met of
// the Shown submissions were looked at: all of them, unless there are very many.
type Explained struct {
	Nodes      []NodeState   // as Plan.Nodes
	Branches   []BranchState // of the plan
	Picks      []ExplainedPick
	Met, Shown int
}

// NodeState is what reaches a block of the tree, in submissions that have available chunks. What does not pass a filter or a
// limit is in Refused; what PreferDistinct puts last is in Refused and passes all the same.
type NodeState struct {
	Entered, Passed, Refused Amount
	Values                   int            // that do not pass, up to 10,000: at the limit, or of SelectOnly other ones
	Top                      []RefusedValue // of them, those that hold back most chunks, at most topMost
}

// Amount is a number of submissions and of their available chunks.
type Amount struct {
	Submissions int
	Chunks      uint64
}

func (a *Amount) add(x *backlog.Submission) {
	a.Submissions++
	a.Chunks += uint64(x.Available())
}

// RefusedValue is a value of the block's key that does not pass; under SelectOnly without HasValue it is no value at all.
type RefusedValue struct {
	Value    queue.MetaValue
	HasValue bool
	InFlight uint32
	Refused  Amount
}

// BranchState is how a branch stands.
type BranchState struct {
	Built  bool             // its view was standing before it was asked for this
	Shares *backlog.Shares  // of a fair branch
	Owed   []backlog.Tenant // of a fair branch: those that wait for most, at most topMost
}

// ExplainedPick is a chunk that would be handed out, and what kept each branch before its own from it. The chunks before it
// in this preview count as in flight.
type ExplainedPick struct {
	Previewed
	Skipped []BranchWhy
	Tenant  *backlog.Tenant // of a fair branch: whose it is, as it stands before all picks
}

// topMost is how many values and tenants are named, mostValues how many values of one block are told apart.
const (
	topMost    = 10
	mostValues = 10_000
)

// Explain tells how a strategy stands, with a preview of up to `most` chunks (1 to MaxPreview) by this seed.
func (s *Shard) Explain(ctx context.Context, plan *strategy.Plan, most int, seed uint64) (Explained, error) {
	x := Explained{Branches: make([]BranchState, len(plan.Branches))}
	err := s.hold(func() (looks, error) {
		if err := s.m.backlog.Admit(plan); err != nil {
			return 0, err
		}
		for i := range plan.Branches {
			x.Branches[i].Built = s.m.backlog.View(&plan.Branches[i]).Built()
		}
		return looks(len(plan.Branches)), nil
	})
	if err != nil {
		return Explained{}, err
	}
	inFlight := map[queue.MetaEntry]uint32{} // before the picks
	err = s.withViews(ctx, []*strategy.Plan{plan}, func(views [][]*backlog.View) looks {
		return s.m.explain(&x, views[0], most, seed, inFlight)
	})
	if err != nil {
		return Explained{}, err
	}
	explainPicks(plan, x.Picks, inFlight)
	for i := range x.Branches {
		if b := &x.Branches[i]; b.Shares != nil {
			if err := s.eachTenant(ctx, &plan.Branches[i], b.owed); err != nil {
				return Explained{}, err
			}
		}
	}
	t := newTree(plan.Nodes())
	if x.Met, x.Shown, err = s.walk(ctx, len(t.nodes), t.count); err != nil {
		return Explained{}, err
	}
	x.Nodes = t.states()
	return x, nil
}

// explain takes what must be of one moment: the picks, what is in flight of their values, and whose turn it is.
func (m *machine) explain(x *Explained, views []*backlog.View, most int, seed uint64, inFlight map[queue.MetaEntry]uint32) looks {
	for i, v := range views {
		if shares, ok := v.Shares(); ok {
			x.Branches[i].Shares = &shares
		}
	}
	for _, p := range m.preview(views, most, seed) {
		pick := ExplainedPick{Previewed: p}
		if tenant, ok := views[p.Branch].TenantOf(m.backlog.ByID(p.Submission)); ok {
			pick.Tenant = &tenant
		}
		for _, entry := range p.Meta {
			inFlight[entry] = m.backlog.InFlight(entry.Key, entry.Value)
		}
		x.Picks = append(x.Picks, pick)
	}
	return looks(len(views) + 3*len(x.Picks))
}

// explainPicks says of every pick why the branches before its own did not give it.
func explainPicks(plan *strategy.Plan, picks []ExplainedPick, inFlight map[queue.MetaEntry]uint32) {
	count := func(key queue.MetaKey, value queue.MetaValue) uint32 {
		return inFlight[queue.MetaEntry{Key: key, Value: value}]
	}
	for i := range picks {
		p := &picks[i]
		for j := range plan.Branches[:p.Branch] {
			p.Skipped = append(p.Skipped, whyBranch(&plan.Branches[j], p.Meta, count))
		}
		for _, entry := range p.Meta {
			inFlight[entry]++
		}
	}
}

// owed keeps the tenants that compete and are owed most.
func (b *BranchState) owed(t backlog.Tenant) {
	if !t.Competes() {
		return
	}
	at, _ := slices.BinarySearchFunc(b.Owed, t, func(x, y backlog.Tenant) int {
		return cmp.Or(cmp.Compare(y.Lag, x.Lag), cmp.Compare(x.Info.Tenant, y.Info.Tenant))
	})
	if at < topMost {
		b.Owed = slices.Insert(b.Owed, at, t)
		b.Owed = b.Owed[:min(topMost, len(b.Owed))]
	}
}

// tree counts what reaches the blocks of a strategy's tree.
type tree struct {
	nodes  []strategy.Node
	counts []NodeState
	values []map[queue.MetaValue]*RefusedValue // per block: those that it refuses
	none   []RefusedValue                      // per SelectOnly: submissions without the key
}

func newTree(nodes []strategy.Node) *tree {
	t := &tree{nodes: nodes, counts: make([]NodeState, len(nodes)), values: make([]map[queue.MetaValue]*RefusedValue, len(nodes)), none: make([]RefusedValue, len(nodes))}
	for i := range t.values {
		t.values[i] = map[queue.MetaValue]*RefusedValue{}
	}
	return t
}

// count sends a submission through the tree.
func (t *tree) count(x *backlog.Submission) {
	if x.Available() > 0 && len(t.nodes) > 0 {
		t.enter(0, x)
	}
}

// enter sends a submission into a block, and says whether some order inside of it has it.
func (t *tree) enter(number int, x *backlog.Submission) (passed bool) {
	n, c := &t.nodes[number], &t.counts[number]
	c.Entered.add(x)
	switch {
	case n.Filter.Key != "":
		if value, inFlight, has := x.Find(n.Filter.Key); !has || value != n.Filter.Value {
			t.refuse(number, x, value, inFlight, has)
			return false
		}
	case n.Limit.Max > 0:
		if value, inFlight, has := x.Find(n.Limit.Key); has && inFlight >= n.Limit.Max {
			t.refuse(number, x, value, inFlight, has)
			if !n.Soft {
				return false
			}
		}
	}
	passed = n.After == number+1 // an order
	for inner := number + 1; inner < n.After; inner = t.nodes[inner].After {
		if t.enter(inner, x) {
			passed = true
		}
	}
	if passed {
		c.Passed.add(x)
	}
	return passed
}

func (t *tree) refuse(number int, x *backlog.Submission, value queue.MetaValue, inFlight uint32, has bool) {
	t.counts[number].Refused.add(x)
	if !has {
		t.none[number].Refused.add(x)
		return
	}
	r := t.values[number][value]
	if r == nil {
		if len(t.values[number]) == mostValues {
			return
		}
		r = &RefusedValue{Value: value, HasValue: true}
		t.values[number][value] = r
	}
	r.InFlight = inFlight
	r.Refused.add(x)
}

// states are the counts, with the values that hold back most.
func (t *tree) states() []NodeState {
	for i := range t.counts {
		c := &t.counts[i]
		for _, r := range t.values[i] {
			c.Top = append(c.Top, *r)
		}
		if t.none[i].Refused.Submissions > 0 {
			c.Top = append(c.Top, t.none[i])
		}
		slices.SortFunc(c.Top, func(a, b RefusedValue) int {
			return cmp.Or(cmp.Compare(b.Refused.Chunks, a.Refused.Chunks), cmp.Compare(b.InFlight, a.InFlight), a.Value.Compare(b.Value))
		})
		c.Values = len(c.Top)
		c.Top = c.Top[:min(topMost, len(c.Top))]
	}
	return t.counts
}
