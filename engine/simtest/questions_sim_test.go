package simtest

import (
	"slices"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
)

// ask asks every question in the middle of the others' work.
func (c *crowd) ask() {
	list, _, err := c.shard.Submissions.List(ctx, everything, 0, 1)
	if err != nil {
		c.t.Error(err)
	}
	seed := uint64(c.since())
	for i := range list {
		if err := askAll(c.shard, c.plans[seed%uint64(len(c.plans))], list[i].ID, seed); err != nil {
			c.t.Error(err)
		}
	}
}

// ask asks about a strategy and a chunk, and compares the answers with the model. All later steps would show a change by it.
func (s *sim) ask() {
	if s.m.grace != 0 {
		return // questions are about what is offered when the grace is over
	}
	rates := s.rates
	s.rates = nil // TestRateSaysWhenTheNextComes asks about them
	text := s.drawValid(s.r.IntN(4))
	s.rates = rates
	if s.chance(40) {
		text = s.drawNested()
	}
	s.log.add("ask about %s", text)
	most := 1 + s.r.IntN(20)
	p := s.numbered(text, most)
	x, err := s.shard.Inspect.Explain(ctx, p, &inspect.Question{Max: most, Seed: s.r.Uint64()})
	if s.refused(p, err) {
		return
	}
	s.must("explain", err)
	s.checkPicks(p, x.Picks, most)
	if len(s.m.subs) == 0 {
		return
	}
	sub := s.m.subs[s.r.IntN(len(s.m.subs))]
	index := s.r.Uint32N(sub.asked.Chunks.Count)
	why, err := s.shard.Inspect.Why(ctx, sub.id, index, p)
	s.must("why", err)
	s.checkWhy(p, sub, int(index), &why)
}

// drawNested makes up alternatives in Fair and Fair in Fair: of few kinds, as each has a ledger.
func (s *sim) drawNested() string {
	text := pickOf(s,
		`Fair("a", OrElse(MaxSimultaneous("a", 1, OldestFirst), NewestFirst))`,
		`Fair("a", OrElse(SelectOnly("b", 1, CustomPriority), Fair("b", PreferDistinct("c", 1, OldestFirst))))`,
		`Fair("b", time, OrElse(Fair("a", MaxSimultaneous("c", 2, MaxSimultaneous("b", 2, Random))), Fair("$submission", OldestFirst)))`,
		`Fair("c", Fair("a", OrElse(MaxSimultaneous("b", 1, NewestFirst), Random)))`,
	)
	return pickOf(s, text, text, `PreferDistinct("b", 2, `+text+`)`, `OrElse(SelectOnly("a", 1, OldestFirst), `+text+`)`)
}

// checkPicks plays the picks in the model as if they were reserved. The first branch that has something must be allowed to give each,
// by that leaf, and there must be as many as possible.
func (s *sim) checkPicks(p *strategy.Plan, picks []inspect.ExplainedPick, most int) {
	var taken []*modelChunk
	defer func() {
		for _, c := range taken {
			c.state = queue.ChunkReady
		}
	}()
	giving := func() int {
		return slices.IndexFunc(p.Branches, func(br strategy.Branch) bool { return s.m.first(&br) != nil })
	}
	leaves := p.Leaves()
	for i := range picks {
		pick := &picks[i]
		leaf := &leaves[pick.Leaf]
		branch, x := giving(), s.m.sub(pick.Submission)
		if branch != leaf.Of || x == nil || x.chunks[pick.Index].state != queue.ChunkReady || !s.m.admits(leaf.Branch, x) {
			s.fail("pick %d of %s/%d by leaf %d, want one that branch %d admits; plan\n%s", i, pick.Submission, pick.Index, pick.Leaf, branch, p)
		}
		if first, by := s.m.firstBeside(&p.Branches[branch], x, s.m.subs); first != x || by != leaf.Branch {
			s.fail("pick %d of %s by %s, want one of %s by %s", i, x.id, leaf.Text(), first.id, by.Key())
		}
		if len(pick.Skipped) != pick.Leaf || len(leaf.Around) != len(pick.Tenants) {
			s.fail("pick %d by leaf %d tells of %d leaves before, tenants %v", i, pick.Leaf, len(pick.Skipped), pick.Tenants)
		}
		s.checkTenants(x, leaf, pick.Tenants)
		for j := range pick.Skipped {
			if got, want := pick.Skipped[j].Obstacle, s.obstacle(leaves[j].Branch, x); got != want || got == queue.NoObstacle {
				s.fail("pick %d: leaf %s has the obstacle %d, want %d and not none", i, leaves[j].Text(), got, want)
			}
		}
		x.chunks[pick.Index].state = queue.ChunkReserved
		taken = append(taken, x.chunks[pick.Index])
	}
	if branch := giving(); len(picks) > most || len(picks) < most && branch >= 0 {
		s.fail("%d picks of %d, branch %d has something left", len(picks), most, branch)
	}
}

// checkTenants compares the tenants that a submission is said to belong to with its meta.
func (s *sim) checkTenants(x *modelSub, leaf *strategy.Leaf, tenants []backlog.Tenant) {
	for level := range tenants {
		key := leaf.Around[level].Fair
		want, has := x.asked.Meta.Find(key)
		if key == strategy.SubmissionKey {
			want, has = queue.StringValue(x.id.String()), true
		}
		if got := &tenants[level]; got.Value != want || got.HasValue != has {
			s.fail("under %s the tenant of %s at level %d is %+v, want %v", leaf.Text(), x.id, level, got, want)
		}
	}
}

// obstacle is the reason why the leaf, or an operator, holds the submission back, if there is one.
func (s *sim) obstacle(leaf *strategy.Branch, x *modelSub) queue.Obstacle {
	if !x.matches(leaf) {
		return queue.ObstacleFilter
	}
	for _, l := range leaf.Limits {
		if v, there := x.find(l.Key); there && s.m.inFlight(l.Key, v) >= l.Max {
			return queue.ObstacleLimit
		}
	}
	if s.m.withheld(x) {
		return queue.ObstacleValueLimit
	}
	return queue.NoObstacle
}

// overtaken says whether an earlier alternative has something for the tenants of the submission.
func (s *sim) overtaken(leaf *strategy.Leaf, x *modelSub) bool {
	among := s.m.subs
	for level, k := range leaf.Arms {
		around := leaf.Around[level]
		among = slices.DeleteFunc(slices.Clone(among), func(y *modelSub) bool { return !sameTenant(around.Fair, x, y) })
		for i := range around.Inner[:k] {
			if slices.ContainsFunc(among, func(y *modelSub) bool { return s.m.admits(&around.Inner[i], y) }) {
				return true
			}
		}
	}
	return false
}

// ofChunk is the obstacle for every leaf that the state of a chunk makes.
func ofChunk(x *modelSub, index int, state queue.ChunkState) queue.Obstacle {
	if state == queue.ChunkWaiting && x.chunks[index].state == queue.ChunkReady {
		return queue.ObstacleNotDue
	}
	return map[queue.ChunkState]queue.Obstacle{
		queue.ChunkDone: queue.ObstacleDone, queue.ChunkDead: queue.ObstacleDead, queue.ChunkSkipped: queue.ObstacleSkipped, queue.ChunkForwarded: queue.ObstacleForwarded,
		queue.ChunkReserved: queue.ObstacleReserved, queue.ChunkWaiting: queue.ObstacleWaiting,
	}[state]
}

// checkWhy compares every obstacle with the model, and checks that a chunk has a standing if and only if a leaf admits it.
func (s *sim) checkWhy(p *strategy.Plan, x *modelSub, index int, why *inspect.Why) {
	chunk, leaves := x.chunk(index), p.Leaves()
	if why.State != chunk.State || len(why.Leaves) != len(leaves) {
		s.fail("why %s/%d: state %s and %d leaves, want %s and %d", x.id, index, why.State, len(why.Leaves), chunk.State, len(leaves))
	}
	giving := slices.IndexFunc(p.Branches, func(br strategy.Branch) bool { return s.m.first(&br) != nil })
	stands := -1
	for i := range leaves {
		leaf, w := &leaves[i], &why.Leaves[i]
		want := ofChunk(x, index, chunk.State)
		if ruling := s.m.ruling(x); want == queue.NoObstacle && ruling != queue.Unruled {
			if want = queue.ObstaclePaused; ruling == queue.BlockedByRule {
				want = queue.ObstacleBlocked
			}
			if w.Rule.Ruling() != ruling || !under(w.Rule.Match, x.id, x.asked.Meta) {
				s.fail("why %s/%d: it names the rule %+v", x.id, index, w.Rule)
			}
		}
		if want == queue.NoObstacle {
			if want = s.obstacle(leaf.Branch, x); want == queue.NoObstacle && stands < 0 {
				stands = i
			}
			if want != queue.ObstacleFilter && len(w.Seats) != len(leaf.Around) {
				s.fail("why %s/%d: it has %d seats in %s, want %d", x.id, index, len(w.Seats), leaf.Text(), len(leaf.Around))
			}
		}
		switch {
		case want != queue.NoObstacle:
		case giving < leaf.Of:
			want = queue.ObstacleHidden
		case s.overtaken(leaf, x):
			want = queue.ObstacleAlternative
		}
		before := 0
		var tenants []backlog.Tenant
		for _, seat := range w.Seats {
			before += seat.Before
			tenants = append(tenants, seat.Tenant)
		}
		s.checkTenants(x, leaf, tenants)
		if turn := before > 0 && want == queue.NoObstacle; turn && w.Obstacle != queue.ObstacleTurn || !turn && w.Obstacle != want {
			s.fail("why %s/%d (%s): leaf %s has the obstacle %d, with %d tenants before, want %d", x.id, index, chunk.State, leaf.Text(), w.Obstacle, before, want)
		}
		by := &leaves[w.HiddenBy]
		if want == queue.ObstacleHidden && by.Of != giving || want == queue.ObstacleAlternative && (by.Of != leaf.Of || w.HiddenBy >= i) || want >= queue.ObstacleHidden && s.m.first(by.Branch) == nil {
			s.fail("why %s/%d: leaf %s is said to be hidden by %s, which is not so; branch %d gives", x.id, index, leaf.Text(), by.Text(), giving)
		}
	}
	if at := why.Standing; (at != nil) != (stands >= 0) || at != nil && at.Branch != stands+1 {
		s.fail("why %s/%d: it stands at %+v, want with leaf %d", x.id, index, at, stands)
	}
	if at := why.Standing; at != nil {
		s.checkStanding(p, x, index, at, &leaves[at.Branch-1])
	}
}

// turnsBefore gives the other values chunk after chunk until so many more of the submission's own are in flight, and counts them.
func (s *sim) turnsBefore(p *strategy.Plan, leaf *strategy.Leaf, x *modelSub, more int) (given int) {
	if leaf.Fewest == "" {
		return 0
	}
	until, ties := 0, 0
	if _, keyed := x.asked.Meta.Find(leaf.Fewest); keyed || leaf.FewestOne { // otherwise nothing counts in flight
		until = int(s.m.flight(leaf.Branch, x)) + more
	}
	type value struct { // 1 and "1" are two
		has bool
		of  queue.MetaValue
	}
	others := map[value][]*modelSub{}
	for _, y := range s.m.subs {
		first := slices.IndexFunc(p.Branches, func(b strategy.Branch) bool { return s.m.admits(&b, y) })
		if v, has := y.asked.Meta.Find(leaf.Fewest); first == leaf.Of && !sameTenant(leaf.Fewest, x, y) {
			others[value{has, v}] = append(others[value{has, v}], y)
		}
	}
	for _, list := range others {
		_, has := list[0].asked.Meta.Find(leaf.Fewest)
		left, flight, before := 0, int(s.m.flight(leaf.Branch, list[0])), false
		for _, y := range list {
			left += int(y.count(queue.ChunkReady))
			before = before || precedes(leaf.Order, y, x)
		}
		for ; left > 0 && (flight < until || !has && !leaf.FewestOne && until > 0); left-- {
			flight++
			given++
		}
		if left > 0 && flight == until {
			if leaf.Order == strategy.Random {
				ties++
			} else if before {
				given++
			}
		}
	}
	return given + ties/2
}

// checkStanding counts the chunks that the model has before this one. Under Fair only those before all tenants are certain.
func (s *sim) checkStanding(p *strategy.Plan, x *modelSub, index int, at *api.WhyStanding, leaf *strategy.Leaf) {
	earlier, same, all := 0, 0, 0
	br := leaf.Branch
	for _, y := range s.m.subs {
		ready := 0
		for i, c := range y.chunks {
			if c.state == queue.ChunkReady && (y != x || br.Order == strategy.Random || i < index) {
				ready++
			}
		}
		first := slices.IndexFunc(p.Branches, func(b strategy.Branch) bool { return s.m.admits(&b, y) })
		if first >= 0 && first <= leaf.Of {
			all += int(y.count(queue.ChunkReady))
		}
		switch {
		case first < 0 || first > leaf.Of:
		case first < leaf.Of:
			earlier += int(y.count(queue.ChunkReady))
		case br.Fewest != "" && !sameTenant(br.Fewest, x, y): // takes turns
		case y == x || br.Order == strategy.Random || precedes(br.Order, y, x):
			same += ready
		}
	}
	turns := func(ahead int) int { return ahead + s.turnsBefore(p, leaf, x, ahead) }
	switch off := len(x.chunks); {
	case len(leaf.Around) > 0:
		if int(at.Ahead) < earlier || int(at.Ahead) >= all {
			s.fail("%s/%d stands at %+v, want %d to %d before it", x.id, index, at, earlier, all-1)
		}
	case br.Order == strategy.Random:
		if at.Among != uint64(same) || at.Ahead != uint64(earlier+turns((same-1)/2)) {
			s.fail("%s/%d stands at %+v, want %d before it and %d to draw among", x.id, index, at, earlier+turns((same-1)/2), same)
		}
	// Within the submission, chunks that were put back come before those that never were taken, and the model does not tell them apart.
	case int(at.Ahead) < earlier+turns(max(0, same-off)) || int(at.Ahead) > earlier+turns(same+off):
		s.fail("%s/%d stands at %+v, want about %d", x.id, index, at, earlier+turns(same))
	}
}
