package simtest

import (
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/strategy"
)

// ask asks every question in the middle of the others' work.
func (c *crowd) ask() {
	list, err := c.shard.List(ctx, everything, 0, 1)
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

// ask asks about a strategy and a chunk, and holds the answers against the model. That nothing changed is seen by all steps
// that follow.
func (s *sim) ask() {
	text := s.drawStrategy(s.r.IntN(4))
	parsed, err := strategy.Parse(text)
	s.must(text, err)
	p := parsed.Plan()
	s.log.add("ask about %s", text)
	most := 1 + s.r.IntN(20)
	x, err := s.shard.Explain(ctx, p, most, s.r.Uint64())
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
	why, err := s.shard.Why(ctx, sub.id, index, p)
	s.must("why", err)
	s.checkWhy(p, sub, int(index), &why)
}

// checkPicks plays the picks in the model as if they were reserved: each has to be one that the first branch with something to
// give may give, and there may not be fewer than there could be.
func (s *sim) checkPicks(p *strategy.Plan, picks []shard.ExplainedPick, most int) {
	var taken []*modelChunk
	defer func() {
		for _, c := range taken {
			c.state = queue.ChunkReady
		}
	}()
	giving := func() int {
		return slices.IndexFunc(p.Branches, func(br strategy.Branch) bool { return s.m.first(&br) != nil })
	}
	for i := range picks {
		pick := &picks[i]
		branch, x := giving(), s.m.sub(pick.Submission)
		if branch != pick.Branch || x == nil || x.chunks[pick.Index].state != queue.ChunkReady || !s.m.admits(&p.Branches[branch], x) {
			s.fail("pick %d of %s/%d by branch %d, want one that branch %d admits; plan\n%s", i, pick.Submission, pick.Index, pick.Branch, branch, p)
		}
		br := &p.Branches[branch]
		if first := s.m.firstBeside(br, x); br.Order != strategy.Random && first != x {
			s.fail("pick %d of %s by %s, want one of %s", i, x.id, br.Key(), first.id)
		}
		if len(pick.Skipped) != branch || (br.Fair != "") != (pick.Tenant != nil) {
			s.fail("pick %d by branch %d tells of %d branches before, tenant %v", i, branch, len(pick.Skipped), pick.Tenant)
		}
		for j := range pick.Skipped {
			if got, want := pick.Skipped[j].Obstacle, s.obstacle(&p.Branches[j], x); got != want || got == shard.NoObstacle {
				s.fail("pick %d: branch %s has the obstacle %d, want %d and not none", i, p.Branches[j].Key(), got, want)
			}
		}
		x.chunks[pick.Index].state = queue.ChunkReserved
		taken = append(taken, x.chunks[pick.Index])
	}
	if branch := giving(); len(picks) > most || len(picks) < most && branch >= 0 {
		s.fail("%d picks of %d, branch %d has something left", len(picks), most, branch)
	}
}

// obstacle is what the branch has against the submission, if any.
func (s *sim) obstacle(br *strategy.Branch, x *modelSub) shard.Obstacle {
	if !x.matches(br) {
		return shard.NotAdmitted
	}
	for _, l := range br.Limits {
		if v, there := x.asked.Meta.Find(l.Key); there && s.m.inFlight(l.Key, v) >= l.Max {
			return shard.IsLimited
		}
	}
	return shard.NoObstacle
}

// checkWhy holds every obstacle against the model, and that a chunk stands somewhere if and only if a branch admits it.
func (s *sim) checkWhy(p *strategy.Plan, x *modelSub, index int, why *shard.Why) {
	chunk := x.chunk(index)
	if why.State != chunk.State || len(why.Branches) != len(p.Branches) {
		s.fail("why %s/%d: state %s and %d branches, want %s and %d", x.id, index, why.State, len(why.Branches), chunk.State, len(p.Branches))
	}
	giving, stands := -1, -1
	for i := range p.Branches {
		br, got := &p.Branches[i], why.Branches[i].Obstacle
		want := map[queue.ChunkState]shard.Obstacle{
			queue.ChunkDone: shard.IsDone, queue.ChunkDead: shard.IsDead, queue.ChunkSkipped: shard.IsSkipped,
			queue.ChunkReserved: shard.IsReserved, queue.ChunkWaiting: shard.IsWaiting,
		}[chunk.State]
		switch {
		case chunk.State == queue.ChunkWaiting && x.chunks[index].state == queue.ChunkReady:
			want = shard.NotYetDue
		case chunk.State == queue.ChunkReady:
			if want = s.obstacle(br, x); want == shard.NoObstacle {
				if stands < 0 {
					stands = i
				}
				if giving >= 0 {
					want = shard.IsHidden
				}
			}
		}
		turn := got == shard.NotItsTurn && br.Fair != "" && why.Branches[i].Before > 0
		if got != want && !(turn && want == shard.NoObstacle) {
			s.fail("why %s/%d (%s): branch %s has the obstacle %d, want %d", x.id, index, chunk.State, br.Key(), got, want)
		}
		if giving < 0 && s.m.first(br) != nil {
			giving = i
		}
	}
	if at := why.Standing; (at != nil) != (stands >= 0) || at != nil && at.Branch != stands {
		s.fail("why %s/%d: it stands at %+v, want with branch %d", x.id, index, at, stands)
	}
	s.checkStanding(p, x, index, why.Standing)
}

// checkStanding counts what the model has before the chunk.
func (s *sim) checkStanding(p *strategy.Plan, x *modelSub, index int, at *shard.Standing) {
	if at == nil || p.Branches[at.Branch].Fair != "" {
		return
	}
	earlier, same := 0, 0
	br := &p.Branches[at.Branch]
	for _, y := range s.m.subs {
		ready := 0
		for i, c := range y.chunks {
			if c.state == queue.ChunkReady && (y != x || br.Order == strategy.Random || i < index) {
				ready++
			}
		}
		first := slices.IndexFunc(p.Branches, func(b strategy.Branch) bool { return s.m.admits(&b, y) })
		switch {
		case first < 0 || first > at.Branch:
		case first < at.Branch:
			earlier += int(y.count(queue.ChunkReady))
		case y == x || br.Order == strategy.Random || precedes(br.Order, y, x):
			same += ready
		}
	}
	if br.Order == strategy.Random {
		if at.Among != uint64(same) || at.Ahead != uint64(earlier+(same-1)/2) {
			s.fail("%s/%d stands at %+v, want %d before it and %d to draw among", x.id, index, at, earlier+(same-1)/2, same)
		}
		return
	}
	// Within the submission, chunks that were put back come before those that never were taken, and the model does not tell them apart.
	if off := len(x.chunks); int(at.Ahead) < earlier+same-off || int(at.Ahead) > earlier+same+off {
		s.fail("%s/%d stands at %+v, want about %d", x.id, index, at, earlier+same)
	}
}
