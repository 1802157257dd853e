package inspect

// Where a chunk stands in the order: how many tenants and chunks come before it. It walks all
// tenants and submissions in slices, as there is no index by rank: keeping one would cost every
// pick, for a question that people ask now and then.

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// turns finds out for the leaves that could hand the chunk out how many tenants come before its own, in
// each Fair block. Leaves of one branch share the blocks around them, and are asked about them once. Tenants with the
// same next turn as the chunk's own do not count: their order is not decided yet.
func (ins *Inspector) turns(ctx context.Context, list []BranchWhy) error {
	known := map[backlog.Share]int{}
	for i := range list {
		w := &list[i]
		if w.Obstacle != queue.NoObstacle {
			continue
		}
		for level := range w.Seats {
			seat := &w.Seats[level]
			before, is := known[seat.share]
			if !is {
				err := ins.eachTenant(ctx, seat.share, func(t backlog.Tenant) {
					if t.Info.Tenant != seat.Info.Tenant && t.Competes() && t.Next < seat.Next {
						before++
					}
				})
				if err != nil {
					return err
				}
				known[seat.share] = before
			}
			if seat.Before = before; before > 0 {
				w.Obstacle = queue.ObstacleTurn
			}
		}
	}
	return nil
}

//	ahead = earlier branches
//	      + for each Fair block, from the innermost outwards:
//	          chunks of its own tenant before it  +  the chunks of other tenants until its tenant is due
//	      + chunks before it in its own order
//
// place counts the chunks that come before a chunk, submission by submission.
type place struct {
	plan   []strategy.Branch // up to that of the first leaf that admits the chunk
	leaf   *strategy.Leaf
	index  uint32
	before uint64 // available chunks that an earlier branch admits
	// chunks of the innermost tenant that the leaf is the first to admit: those before the chunk; under Random all
	same   uint64
	levels []placeLevel
	// where values with the fewest chunks in flight come first: chunks of other values before this one, by value
	turns map[tenantID]*turn
}

// turn is how many chunks another value has to hand out, and has in flight.
type turn struct {
	chunks   uint64
	inFlight uint32
	before   bool // its first submission comes before that of the chunk
}

// placeLevel counts the chunks before a chunk in one of the Fair blocks around its leaf: those of its own tenant, and
// so of all tenants around, that an earlier alternative admits; and those of other tenants that the block admits.
type placeLevel struct {
	overtaking uint64
	others     map[tenantID]uint64
}

// tenantID names a tenant of a Fair block.
type tenantID struct {
	value queue.MetaValue
	has   bool
}

func newPlace(plan *strategy.Plan, leaf *strategy.Leaf, index uint32) *place {
	p := &place{plan: plan.Branches[:leaf.Of+1], leaf: leaf, index: index, levels: make([]placeLevel, len(leaf.Around)),
		turns: map[tenantID]*turn{}}
	for i := range p.levels {
		p.levels[i].others = map[tenantID]uint64{}
	}
	return p
}

// standing tells about where the chunk stands with the first leaf that admits it. It does not foresee that limits are
// reached on the way, nor that chunks that limits hold back now may come before this one.
func (ins *Inspector) standing(ctx context.Context, id queue.SubmissionID, index uint32, plan *strategy.Plan,
	leaves []strategy.Leaf, list []BranchWhy) (*api.WhyStanding, error) {
	number := 0
	for ; number < len(list); number++ {
		if o := list[number].Obstacle; o == queue.NoObstacle || o >= queue.ObstacleHidden {
			break
		}
	}
	if number == len(list) {
		return nil, nil
	}
	leaf := &leaves[number]
	p := newPlace(plan, leaf, index)
	gone, keyed, inFlight := false, false, uint32(0)
	met, shown, err := ins.walk(ctx, (number+1)*(1+len(p.levels)), func(m *machine.Machine, x *backlog.Submission) {
		sub := m.Backlog.ByID(id)
		if gone = gone || sub == nil || !sub.IsAvailable(index); !gone {
			p.count(x, sub)
			_, keyed = sub.Find(leaf.Fewest)
			inFlight, keyed = flightOf(leaf.Branch, sub), keyed || leaf.FewestOne
		}
	})
	if err != nil || gone {
		return nil, err
	}
	at := &api.WhyStanding{Branch: number + 1, Ahead: p.same, AtLeast: met < shown}
	if leaf.Order == strategy.Random {
		at.Among = max(p.same, 1)
		at.Ahead = (at.Among - 1) / 2
	}
	due := uint64(0) // how much of its value is in flight when it is due: without the key always 0
	if keyed {
		due = uint64(inFlight) + at.Ahead
	}
	at.Ahead += p.turnsBefore(due)
	for level := len(p.levels) - 1; level >= 0; level-- {
		at.Ahead += p.levels[level].overtaking
		if level >= len(list[number].Seats) {
			continue // the tenant was not known a moment ago
		}
		others, err := ins.othersBefore(ctx, &list[number].Seats[level], at.Ahead, p.levels[level].others)
		if err != nil {
			return nil, err
		}
		at.Ahead += others
	}
	at.Ahead += p.before
	return at, nil
}

// othersBefore is about how many chunks the other tenants of a Fair block get before a chunk with `ahead` chunks of its
// own tenant before it. By the time that its own tenant is due those and half a chunk more, each of the others has got
// its due, or all it has. It assumes that all go on as now: the same weights, no new work, no limit reached on the way.
// "About" in the answer says so.
func (ins *Inspector) othersBefore(ctx context.Context, own *Seat, ahead uint64,
	others map[tenantID]uint64) (uint64, error) {
	due := ((float64(ahead)+0.5)*own.Each - own.Lag) / float64(own.Weight)
	got := 0.0
	err := ins.eachTenant(ctx, own.share, func(t backlog.Tenant) {
		if has := others[tenantID{t.Value, t.HasValue}]; has > 0 {
			got += min(float64(has), max(0, due*float64(t.Weight)+t.Lag)/t.Each)
		}
	})
	return uint64(math.Round(got)), err
}

// count adds the chunks of x that come before the chunk of sub. Each submission counts once, at the first branch that
// admits it, as a reserve would take it there.
func (p *place) count(x, sub *backlog.Submission) {
	if _, withheld := x.Withheld(); withheld || x.Available() == 0 || x.Ruling() != queue.Unruled {
		return
	}
	n := uint64(x.Available())
	br := &p.plan[len(p.plan)-1]
	for i := range p.plan[:len(p.plan)-1] {
		if admits(&p.plan[i], x) {
			p.before += n
			return
		}
	}
	if !admits(br, x) {
		return
	}
	for level, k := range p.leaf.Arms {
		at := &p.levels[level]
		if tenant := tenantOf(br.Fair, x); tenant != tenantOf(br.Fair, sub) {
			at.others[tenant] += n
			return
		}
		for i := range br.Inner[:k] {
			if admits(&br.Inner[i], x) {
				at.overtaking += n
				return
			}
		}
		if br = &br.Inner[k]; !admits(br, x) {
			return
		}
	}
	if br.Fewest != "" && tenantOf(br.Fewest, x) != tenantOf(br.Fewest, sub) {
		p.countTurn(x, x.Before(sub, br.Order))
		return
	}
	switch {
	case br.Order == strategy.Random || x.Before(sub, br.Order):
		p.same += n
	case x == sub:
		p.same += uint64(x.AvailableBefore(p.index))
	}
}

// countTurn adds the chunks of a submission of another value, which may have its turn before the chunk.
func (p *place) countTurn(x *backlog.Submission, before bool) {
	value, has := x.Find(p.leaf.Fewest)
	t := p.turns[tenantID{value, has}]
	if t == nil {
		t = &turn{inFlight: flightOf(p.leaf.Branch, x)}
		p.turns[tenantID{value, has}] = t
	}
	t.chunks += uint64(x.Available())
	t.before = t.before || before
}

// flightOf is how many chunks are in flight of the value by which a leaf makes the submission wait for its turn.
func flightOf(leaf *strategy.Branch, x *backlog.Submission) (n uint32) {
	_, n, has := x.Count(strategy.Limit{Key: leaf.Fewest})
	if !has && leaf.FewestOne {
		_, n, _ = x.Count(strategy.Limit{Key: queue.Without(leaf.Fewest)})
	}
	return n
}

// turnsBefore is about how many chunks other values get before it is the turn of a value with inFlight chunks in
// flight: each value as many as it has fewer, and one more if it comes first among equals. Under Random half of the
// equals do. It assumes that nothing in flight ends on the way. Work without the key never counts as in flight, so all
// of it comes first, unless it counts as one value.
func (p *place) turnsBefore(inFlight uint64) (chunks uint64) {
	ties := uint64(0)
	for of, t := range p.turns {
		gets := inFlight - min(inFlight, uint64(t.inFlight))
		switch equal := uint64(t.inFlight) <= inFlight && t.chunks > gets; {
		case !of.has && !p.leaf.FewestOne && inFlight > 0:
			gets = t.chunks
		case equal && p.leaf.Order == strategy.Random:
			ties++
		case equal && t.before:
			gets++
		}
		chunks += min(gets, t.chunks)
	}
	return chunks + ties/2
}

// admits says whether the filters and limits of some leaf of the branch let the submission through now.
func admits(br *strategy.Branch, x *backlog.Submission) bool {
	return !br.Leaves(func(leaf *strategy.Branch) bool { return !leafAdmits(leaf, x) })
}

func leafAdmits(leaf *strategy.Branch, x *backlog.Submission) bool {
	for _, f := range leaf.Filters {
		if !f.Admits(x.Find(f.Key)) {
			return false
		}
	}
	for _, l := range leaf.Limits {
		if _, count, has := x.Count(l); has && l.Reached(count) {
			return false
		}
	}
	return true
}

// tenantOf names the submission's tenant as backlog.Tenant does.
func tenantOf(key queue.MetaKey, x *backlog.Submission) tenantID {
	if key == strategy.SubmissionKey {
		return tenantID{queue.StringValue(x.ID().String()), true}
	}
	value, has := x.Find(key)
	return tenantID{value, has}
}

// ruleTally counts submissions by the rule that counts for them.
type ruleTally struct {
	of map[queue.RuleID]*ruled
}

// ruled is how much one rule keeps from every strategy.
type ruled struct {
	rule    queue.Rule
	refused api.Amount
}

// count counts a submission if a rule covers it, and says whether one does.
func (t *ruleTally) count(m *machine.Machine, x *backlog.Submission) bool {
	if x.Ruling() == queue.Unruled || x.Available() == 0 {
		return false
	}
	r := x.Data.(*machine.Record)
	rule, covered := m.Joined.Rules.Covering(r.ID, r.Meta())
	if !covered {
		return false
	}
	if t.of == nil {
		t.of = map[queue.RuleID]*ruled{}
	}
	if t.of[rule.ID] == nil {
		t.of[rule.ID] = &ruled{rule: rule}
	}
	add(&t.of[rule.ID].refused, x)
	return true
}

// most are the rules that keep most chunks.
func (t *ruleTally) most() []api.RuledAmount {
	sorted := slices.SortedFunc(maps.Values(t.of), func(a, b *ruled) int {
		return cmp.Or(cmp.Compare(b.refused.Chunks, a.refused.Chunks), cmp.Compare(a.rule.ID, b.rule.ID))
	})
	list := make([]api.RuledAmount, min(machine.TopMost, len(sorted)))
	for i := range list {
		list[i] = api.RuledAmount{Rule: sorted[i].rule.API(), Refused: sorted[i].refused}
	}
	return list
}
