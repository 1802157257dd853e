package simtest

import (
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// modelBulk is a bulk operation as the model knows it.
type modelBulk struct {
	queue.Bulk
	after  queue.ChunkID  // the last chunk that was looked at
	walk   queue.BulkWalk // its last answer
	walked bool           // there was an answer
}

// checkWalk checks the progress that an operation reports: it never goes back, also across a restart, never exceeds the whole, includes all
// that was met, and equals the whole exactly when the operation has completed.
func (s *sim) checkWalk(b *modelBulk, got queue.Bulk) {
	was, w := b.walk, got.Walk
	switch {
	case w.Examined > w.ToExamine || w.Examined < was.Examined || b.walked && w.ToExamine > was.ToExamine || w.Examined < got.Counts.Matched && w.Examined < w.ToExamine:
		s.fail("bulk operation %s: walked %+v, before %+v, matched %d", b.ID, w, was, got.Counts.Matched)
	case got.State == queue.BulkCompleted && (w.Examined != w.ToExamine || w.Percent(got.State) != 100), got.State != queue.BulkCompleted && w.Percent(got.State) > 99:
		s.fail("bulk operation %s is %s at %d %%: %+v", b.ID, got.State, w.Percent(got.State), w)
	}
	if b.walked && w.ToExamine < was.ToExamine && got.State == queue.BulkRunning {
		s.tally.add("bulk has less to walk over than at its start", 1)
	}
	b.walk, b.walked = w, true
}

// bulkGroup is a page's work on one submission, or, where it takes whole submissions, on all of them.
type bulkGroup struct {
	x       *modelSub
	chunks  []*modelChunk
	subs    []*modelSub
	last    queue.ChunkID
	matched int
	counts  queue.BulkCounts
}

// behind says that a chunk comes after a cursor in the order in which everything is gone through: the newest submission first.
func behind(id, after queue.ChunkID) bool {
	return after.Submission == 0 || id.Submission < after.Submission || id.Submission == after.Submission && id.Index > after.Index
}

// filterOf is the filter, as of the start of the operation.
func (b *modelBulk) filterOf() queue.BulkFilter {
	f := b.Filter
	if started := b.ID.Created() + 1; f.Dead.DiedBefore == 0 || f.Dead.DiedBefore > started {
		f.Dead.DiedBefore = started
	}
	return f
}

// page is the work of an operation's next step, and its number of chunks.
func (m *model) page(b *modelBulk, most int, now queue.Time) (groups []bulkGroup, n int) {
	if !b.Action.OnChunks() {
		return m.pageOfSubmissions(b, most)
	}
	f := b.filterOf()
	for _, x := range slices.Backward(m.subs) {
		var g bulkGroup
		for i, c := range x.chunks {
			id := queue.ChunkID{Submission: x.id, Index: uint32(i)}
			meant := x.state == queue.Open && c.state == queue.ChunkWaiting
			if b.Action.OnLetters() {
				meant = c.state == queue.ChunkDead && (x.state == queue.Open || x.state == queue.CompletedWithDead)
			}
			if n == most || !meant || x.id >= queue.SubmissionID(b.ID) || !behind(id, b.after) || !f.Matches(x.id, x.state, x.asked.Meta) {
				continue
			}
			d := queue.DeadChunk{Chunk: id, Fingerprint: queue.Fingerprint(c.err)}
			if tries := len(c.past); tries > 0 { // a released chunk may wait without a try
				d.Died = c.past[tries-1].Ended
			}
			if !f.Dead.Matches(&d) {
				continue
			}
			n++
			g.x, g.chunks, g.last, g.matched = x, append(g.chunks, c), id, g.matched+1
		}
		if g.matched == 0 {
			continue
		}
		g.counts = queue.BulkCounts{Matched: uint64(g.matched), Done: uint64(g.matched)}
		if b.Action == queue.BulkRedrive && x.state != queue.Open && x.tooLate(now) && m.settings.OnDeadline == queue.SkipThem {
			g.counts.Done, g.counts.Refused, g.chunks = 0, g.counts.Done, nil
		}
		if b.Action == queue.BulkGiveUp {
			g.giveUp(m, b.DryRun)
		}
		groups = append(groups, g)
	}
	return groups, n
}

// giveUp keeps only the chunks of a group that can be given up: they had a try, and none before them ends the submission.
func (g *bulkGroup) giveUp(m *model, dry bool) {
	var dying []*modelChunk
	for _, c := range g.chunks {
		ended := !dry && len(dying) > 0 && m.endsSubmission(g.x, uint32(len(dying)-1))
		if c.attempts > 0 && !ended {
			dying = append(dying, c)
		}
	}
	g.chunks, g.counts.Done = dying, uint64(len(dying))
	g.counts.Unchanged = g.counts.Matched - g.counts.Done
}

// pageOfSubmissions is page for operations on whole submissions.
func (m *model) pageOfSubmissions(b *modelBulk, most int) (groups []bulkGroup, n int) {
	var g bulkGroup
	for _, x := range slices.Backward(m.subs) {
		if g.matched == most || x.state != queue.Open || x.id >= queue.SubmissionID(b.ID) || b.after.Submission != 0 && x.id >= b.after.Submission ||
			b.Filter.Dead.Submission != 0 && b.Filter.Dead.Submission != x.id || !b.Filter.Matches(x.id, x.state, x.asked.Meta) {
			continue
		}
		g.matched++
		g.last = queue.ChunkID{Submission: x.id}
		g.counts.Matched++
		if b.Action == queue.BulkReprioritize && x.asked.Priority == b.Priority {
			g.counts.Unchanged++
			continue
		}
		g.counts.Done++
		g.subs = append(g.subs, x)
	}
	if g.matched == 0 {
		return nil, 0
	}
	return []bulkGroup{g}, g.matched
}

// offeredBefore takes up to most chunks out of a group, counts them as unchanged, and says how many. The shard took them off the shelf by
// itself: the page's changes to one submission are in effect while it goes on with the next, so there may be room for suspects then.
func (s *sim) offeredBefore(g *bulkGroup, b *modelBulk, most int) (n int) {
	if b.Action != queue.BulkRetry && b.Action != queue.BulkGiveUp || b.DryRun {
		return 0
	}
	g.chunks = slices.DeleteFunc(g.chunks, func(c *modelChunk) bool {
		before := c.shelved && n < most && (b.Action == queue.BulkRetry || s.isReady(g.x, c))
		if before {
			n++
		}
		return before
	})
	g.counts.Done -= uint64(n)
	g.counts.Unchanged += uint64(n)
	return n
}

// isReady says that the shard offers a chunk.
func (s *sim) isReady(x *modelSub, c *modelChunk) bool {
	got, err := s.shard.Submissions.Chunk(ctx, x.id, uint32(slices.Index(x.chunks, c)))
	s.must("chunk", err)
	return got.State == queue.ChunkReady
}

// bulkDoes repeats a page's work in the model.
func (s *sim) bulkDoes(b *modelBulk, g *bulkGroup) {
	b.after = g.last
	b.Counts.Add(g.counts, queue.BulkCounts{})
	s.tally.add("bulk unchanged", int(g.counts.Unchanged))
	s.tally.add("bulk refused", int(g.counts.Refused))
	if b.DryRun {
		s.tally.add("bulk dry run", int(g.counts.Done))
		return
	}
	s.m.totals.bulk.Add(g.counts, queue.BulkCounts{})
	s.tally.add("bulk "+b.Action.String(), int(g.counts.Done))
	for _, c := range g.chunks {
		switch b.Action {
		case queue.BulkRedrive:
			g.x.redrive(c, s.now)
		case queue.BulkDelete:
			c.state = queue.ChunkSkipped
		case queue.BulkForward:
			s.m.forward(g.x, c, b.To)
		case queue.BulkRetry:
			c.state, c.notBefore, c.shelved = queue.ChunkReady, 0, false
		case queue.BulkGiveUp:
			s.m.totals.failed++
			c.notBefore, c.shelved = 0, false
			s.m.kill(g.x, c, c.err, s.now)
		}
	}
	for _, x := range g.subs {
		if b.Action == queue.BulkCancel {
			s.m.end(x, queue.Cancelled, "", s.now)
		} else {
			x.asked.Priority = b.Priority
		}
	}
}

func (s *sim) drawBulk() queue.BulkRequest {
	r := queue.BulkRequest{
		Action:   pickOf(s, queue.BulkRedrive, queue.BulkRedrive, queue.BulkDelete, queue.BulkDelete, queue.BulkForward, queue.BulkForward, queue.BulkRetry, queue.BulkRetry, queue.BulkRetry, queue.BulkGiveUp, queue.BulkCancel, queue.BulkReprioritize),
		DryRun:   s.chance(25),
		Limit:    pickOf[uint32](s, 0, 0, 0, 3),
		Rate:     pickOf[uint32](s, 0, 0, 1, 100),
		Priority: int64(s.r.IntN(5) - 2),
		To:       "third",
	}
	f := &r.Filter
	if s.chance(30) || r.Action == queue.BulkCancel { // not everything
		f.Meta = queue.Meta{{Key: pickOf(s, "a", "b", "c"), Value: queue.IntValue(int64(s.r.IntN(3)))}}
	}
	if s.chance(15) {
		f.States = []queue.SubmissionState{pickOf(s, queue.Open, queue.CompletedWithDead)}
	}
	if len(s.m.subs) > 0 {
		x := s.m.subs[s.r.IntN(len(s.m.subs))]
		switch s.r.IntN(12) {
		case 0:
			f.Dead.Submission = x.id
		case 1:
			f.CreatedBefore = x.id.Time()
		case 2:
			f.CreatedAfter = x.id.Time()
		case 3:
			f.Dead.Fingerprint = queue.Fingerprint(x.chunks[0].err)
		case 4:
			f.Dead.DiedBefore = s.now.Add(-time.Second)
		case 5:
			f.Dead.DiedAfter = s.now.Add(-time.Second)
		}
	}
	late := slices.IndexFunc(s.m.subs, func(x *modelSub) bool {
		return x.state == queue.CompletedWithDead && x.tooLate(s.now)
	})
	if late >= 0 && s.chance(90) { // letters that cannot be redriven any more are rare
		r = queue.BulkRequest{Action: queue.BulkRedrive, To: r.To}
		r.Filter.Dead.Submission = s.m.subs[late].id
	}
	return r
}

// bulkSome starts an operation, takes one further, or cancels one.
func (s *sim) bulkSome() {
	running := slices.DeleteFunc(slices.Clone(s.m.bulks), func(b *modelBulk) bool { return b.State != queue.BulkRunning })
	switch {
	case len(s.m.bulks) == 0 || s.chance(20) || len(running) == 0 && s.chance(90):
		s.startBulk(len(running))
	case len(running) == 0:
		s.stepBulk(s.m.bulks[s.r.IntN(len(s.m.bulks))])
	case s.chance(10):
		s.endBulk(running[s.r.IntN(len(running))])
	default:
		s.stepBulk(running[s.r.IntN(len(running))])
	}
}

func (s *sim) startBulk(running int) {
	r := s.drawBulk()
	s.log.add("start a bulk operation: %s %+v, dry run %v", r.Action, r.Filter, r.DryRun)
	op, err := s.shard.Bulks.Start(r)
	if running >= queue.MaxBulkRunning {
		if queue.CodeOf(err) != queue.CodeOverloaded {
			s.fail("start of a bulk operation beside %d: got %v", running, err)
		}
		return
	}
	failed, written := s.commitFailed("start of a bulk operation", err)
	s.takeEffect([]func(){func() {
		if failed { // no caller knows its id
			list := s.shard.Bulks.List()
			if len(list) != len(s.m.bulks)+1 {
				s.fail("%d bulk operations after one more, there were %d", len(list), len(s.m.bulks))
			}
			op = list[len(list)-1]
		}
		s.m.bulks = append(s.m.bulks, &modelBulk{Bulk: queue.Bulk{BulkRequest: r, ID: op.ID, Queue: queueName}})
		s.tally.add("bulk started", 1)
	}}, failed, written)
}

func (s *sim) endBulk(b *modelBulk) {
	s.log.add("cancel bulk operation %s after %+v", b.ID, b.Counts)
	failed, written := s.commitFailed("cancel of a bulk operation", s.shard.Bulks.End(b.ID, queue.BulkCancelled, "ana", ""))
	s.takeEffect([]func(){func() {
		b.State, b.Finished, b.EndedBy = queue.BulkCancelled, s.now, "ana"
		if b.Counts.Matched > 0 {
			s.tally.add("bulk cancelled in the middle", 1)
		}
	}}, failed, written)
}

// stepBulk takes an operation one page further. A page may take two commits; if one fails, those before it stay in effect.
func (s *sim) stepBulk(b *modelBulk) {
	asked := pickOf(s, 1, 2, 3, 7, 200)
	most := asked
	var groups []bulkGroup
	want := 0
	if b.Limit > 0 {
		most = min(most, int(b.Limit)-int(b.Counts.Matched))
	}
	if b.State == queue.BulkRunning && most > 0 {
		groups, want = s.m.page(b, most, s.now)
	}
	s.log.add("bulk operation %s (%s, %s) by %d: %d are meant", b.ID, b.Action, b.State, most, want)
	n, more, err := s.shard.Bulks.Step(ctx, b.ID, asked)
	failed, written := false, false
	if b.State != queue.BulkRunning {
		s.must("step of an operation that ended", err)
	} else {
		failed, written = s.commitFailed("step of a bulk operation", err)
	}
	if !failed && (n != want || more != (b.State == queue.BulkRunning && most > 0 && n == most)) {
		s.fail("a page of %d: got %d, more %v, want %d", most, n, more, want)
	}
	ends := b.State == queue.BulkRunning && (want < most || most == 0)
	s.takeEffect([]func(){func() {
		got, _ := s.shard.Bulks.Get(b.ID)
		earlier := int(got.Counts.Unchanged - b.Counts.Unchanged)
		for i := range groups {
			if failed && b.Counts.Matched == got.Counts.Matched {
				break
			}
			if i > 0 {
				earlier -= s.offeredBefore(&groups[i], b, earlier)
			}
			s.bulkDoes(b, &groups[i])
		}
		if ends && (!failed || got.State != queue.BulkRunning) {
			b.State, b.Finished = queue.BulkCompleted, s.now
			s.tally.add("bulk completed", 1)
		}
	}}, failed, written)
	s.adopt()
	s.checkBulks()
}

// checkBulks compares all answers about bulk operations.
func (s *sim) checkBulks() {
	list := s.shard.Bulks.List()
	if len(list) != len(s.m.bulks) {
		s.fail("%d bulk operations, want %d", len(list), len(s.m.bulks))
	}
	for i, b := range s.m.bulks {
		s.checkWalk(b, list[i])
		list[i].Walk = queue.BulkWalk{}
		s.equal("bulk operation", list[i], b.Bulk)
	}
}

// acrossRestart notes the operations that a restart finds in the middle.
func (s *sim) acrossRestart() {
	for _, b := range s.m.bulks {
		if b.State == queue.BulkRunning && b.Counts.Done > 0 {
			s.tally.add("restart in the middle of a bulk operation", 1)
		}
	}
}
