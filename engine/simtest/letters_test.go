package simtest

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/sdk/api"
)

// letters are the dead letters that the filter means, in the order of the list.
func (m *model) letters(f queue.BulkFilter) (list []queue.DeadChunk) {
	for _, x := range slices.Backward(m.subs) {
		if x.state != queue.Open && x.state != queue.CompletedWithDead {
			continue
		}
		for i, c := range x.chunks {
			if c.state != queue.ChunkDead {
				continue
			}
			last := c.past[len(c.past)-1]
			d := queue.DeadChunk{
				Chunk: queue.ChunkID{Submission: x.id, Index: uint32(i)}, State: x.state, Attempts: c.attempts, Expiries: c.expiries,
				Redrives: c.redrives, Died: last.Ended, Consumer: last.Consumer, Error: c.err, Fingerprint: queue.Fingerprint(c.err), Past: c.past,
			}
			if f.Matches(x.id, x.state, x.asked.Meta) && f.Dead.Matches(&d) {
				list = append(list, d)
			}
		}
	}
	return list
}

// tooLate says that the submission's dead_deadline has passed.
func (x *modelSub) tooLate(now queue.Time) bool {
	return x.asked.DeadDeadline != 0 && x.asked.DeadDeadline <= now
}

// redrive offers a dead chunk again.
func (x *modelSub) redrive(c *modelChunk, now queue.Time) {
	c.state, c.attempts, c.expiries, c.expired = queue.ChunkReady, 0, 0, false
	c.redrives++
	if x.state != queue.Open {
		x.reread()
		if x.tooLate(now) { // it has done its work
			x.asked.DeadDeadline = 0
		}
	}
	x.state, x.finished, x.failure = queue.Open, 0, ""
}

// drawDead picks a submission, one with dead chunks as a rule, and some of its chunks, not only dead ones.
func (s *sim) drawDead() (x *modelSub, indexes []uint32, dead []*modelChunk) {
	var with []*modelSub
	for _, x := range s.m.subs {
		if x.count(queue.ChunkDead) > 0 {
			with = append(with, x)
		}
	}
	if len(with) == 0 || s.chance(5) {
		with = s.m.subs
	}
	if len(with) == 0 {
		return nil, nil, nil
	}
	x = with[s.r.IntN(len(with))]
	for i, c := range x.chunks {
		if s.chance(70) {
			indexes = append(indexes, uint32(i))
			if c.state == queue.ChunkDead {
				dead = append(dead, c)
			}
		}
	}
	return x, indexes, dead
}

func (s *sim) redriveSome() {
	x, indexes, dead := s.drawDead()
	if x == nil {
		return
	}
	s.log.add("redrive %s %v, of which %d are dead", x.id, indexes, len(dead))
	n, err := s.shard.DeadLetters.Redrive(ctx, x.id, indexes)
	late := x.tooLate(s.now)
	if x.state != queue.Open && (x.state != queue.CompletedWithDead || late && s.m.settings.OnDeadline == queue.SkipThem) {
		if queue.CodeOf(err) != queue.CodeConflict {
			s.fail("redrive of the %s submission %s: got %d %v, want a conflict", x.state, x.id, n, err)
		}
		return
	}
	failed, written := s.commitFailed("redrive", err)
	s.takeEffect([]func(){func() {
		for _, c := range dead {
			if x.state != queue.Open {
				s.tally.add("redrive opens a submission", 1)
				if late {
					s.tally.add("redrive after the dead_deadline", 1)
				}
			}
			x.redrive(c, s.now)
			s.tally.add("redrive", 1)
		}
	}}, failed, written)
	if !failed && n != len(dead) {
		s.fail("redrive of %s: %d chunks were redriven, want %d", x.id, n, len(dead))
	}
}

func (s *sim) deleteSome() {
	x, indexes, dead := s.drawDead()
	if x == nil {
		return
	}
	s.log.add("delete dead %s %v, of which %d are dead", x.id, indexes, len(dead))
	n, err := s.shard.DeadLetters.Delete(ctx, x.id, indexes)
	if x.state != queue.Open && x.state != queue.CompletedWithDead {
		dead = nil
	}
	failed, written := s.commitFailed("delete dead", err)
	s.takeEffect([]func(){func() {
		for _, c := range dead {
			c.state = queue.ChunkSkipped
			s.tally.add("dead letter deleted", 1)
		}
	}}, failed, written)
	if !failed && n != len(dead) {
		s.fail("deletion of dead chunks of %s: %d were deleted, want %d", x.id, n, len(dead))
	}
}

func (s *sim) forwardSome() {
	x, indexes, dead := s.drawDead()
	if x == nil {
		return
	}
	s.log.add("forward %s %v, of which %d are dead", x.id, indexes, len(dead))
	n, err := s.shard.DeadLetters.Forward(ctx, x.id, indexes, "third")
	if x.state != queue.Open && x.state != queue.CompletedWithDead {
		dead = nil
	}
	failed, written := s.commitFailed("forward", err)
	s.takeEffect([]func(){func() {
		for _, c := range dead {
			s.m.forward(x, c, "third")
			s.tally.add("dead letter forwarded", 1)
		}
	}}, failed, written)
	if !failed && n != len(dead) {
		s.fail("forward of dead chunks of %s: %d were forwarded, want %d", x.id, n, len(dead))
	}
}

// age gives up the dead letters that are older than some time.
func (s *sim) age() {
	s.disarm() // Age makes several commits; deleteSome covers commits that fail
	var times []queue.Time
	for _, d := range s.m.letters(queue.BulkFilter{}) {
		times = append(times, d.Died)
	}
	if len(times) == 0 {
		return
	}
	s.aged++ // another time each, so that a round begins
	keep := max(s.now.Sub(times[s.r.IntN(len(times))]), 0) + time.Duration(s.aged)*time.Nanosecond
	s.log.add("dead letters of more than %s go", keep)
	want := s.shard.Stats().AgedTotal
	for _, x := range s.m.subs {
		for _, c := range x.chunks {
			if dead := x.state == queue.Open || x.state == queue.CompletedWithDead; dead && c.state == queue.ChunkDead && c.past[len(c.past)-1].Ended.Add(keep) <= s.now {
				c.state = queue.ChunkSkipped
				want++
			}
		}
	}
	s.must("age", onlyError(s.shard.Retention.Age(ctx, keep, 1<<20)))
	if got := s.shard.Stats().AgedTotal; got != want {
		s.fail("dead letters given up for their age: %d, want %d", got, want)
	}
}

// post reads the letters on their way to other queues, and takes some out as delivered.
func (s *sim) post() {
	list := s.outgoing()
	if len(list) == 0 {
		return
	}
	o := list[s.r.IntN(len(list))]
	x := s.m.sub(o.Chunk.Submission)
	c := x.chunks[o.Chunk.Index]
	n, err := s.shard.Forwarding.Parcel(ctx, o)
	s.must("parcel", err)
	want := x.asked
	want = queue.NewSubmission{
		Group: want.Group, Meta: want.Meta, Priority: want.Priority, OperationsPerChunk: x.operations(), Trace: want.Trace, Attachment: want.Attachment,
		Chunks: queue.Chunks{Count: 1, Prefix: want.Chunks.Prefix, Template: want.Chunks.Template},
		Origin: &queue.Origin{Source: 7, Number: o.Number, Queue: queueName, Chunk: o.Chunk, First: o.Chunk.Index, Attempts: uint32(c.attempts), Died: c.past[len(c.past)-1].Ended, Error: c.err},
	}
	if len(x.asked.Chunks.Inline) > 0 {
		want.Chunks.Inline = x.asked.Chunks.Inline[o.Chunk.Index : o.Chunk.Index+1]
	}
	if len(n.Attachment) == 0 && len(want.Attachment) == 0 {
		n.Attachment, want.Attachment = nil, nil
	}
	s.equal("parcel", n, want)
	var numbers []uint64
	var left []queue.ChunkID
	for _, o := range list {
		if s.chance(60) {
			numbers = append(numbers, o.Number)
		} else {
			left = append(left, o.Chunk)
		}
	}
	if len(numbers) == 0 {
		return
	}
	s.log.add("delivered %v", numbers)
	failed, written := s.commitFailed("delivered", s.shard.Forwarding.Delivered(numbers))
	s.takeEffect([]func(){func() { s.m.outbox = left; s.tally.add("delivered", len(numbers)) }}, failed, written)
}

// stick finds that a letter cannot be read, or that one that was stuck can be.
func (s *sim) stick() {
	list := s.outgoing()
	if len(list) == 0 {
		return
	}
	o := list[s.r.IntN(len(list))]
	var err error
	if o.Stuck {
		s.log.add("letter %+v can be read again", o)
		err = s.shard.Forwarding.Unstick(o)
	} else {
		s.log.add("letter %+v cannot be read", o)
		_, err = s.shard.Forwarding.Unread(o, store.ErrMissing)
	}
	failed, written := s.commitFailed("stick", err)
	s.takeEffect([]func(){func() { s.m.stuck[o.Chunk] = !o.Stuck }}, failed, written)
	s.shard.Worker.Retry() // so that it is listed
	if got := s.outgoing(); s.m.stuck[o.Chunk] != o.Stuck && o.Stuck && got[len(got)-1].Chunk != o.Chunk {
		s.fail("letter %+v can be read again, and is not the last of %+v", o, got)
	}
}

// outgoing are the letters on their way to other queues, compared with the model's.
func (s *sim) outgoing() []queue.Outgoing {
	list := s.shard.Forwarding.Outgoing(0, 1<<20)
	var got []queue.ChunkID
	for i, o := range list {
		got = append(got, o.Chunk)
		if o.Stuck != s.m.stuck[o.Chunk] {
			s.fail("on its way: %+v, want stuck %v", o, s.m.stuck[o.Chunk])
		}
		if x := s.m.sub(o.Chunk.Submission); o.Queue != x.chunks[o.Chunk.Index].to || i > 0 && o.Number <= list[i-1].Number {
			s.fail("on its way: %+v behind %+v, want to %q and numbers that grow", o, list[max(i-1, 0)], x.chunks[o.Chunk.Index].to)
		}
	}
	s.log.add("%d dead letters are on their way", len(list))
	sorted := func(list []queue.ChunkID) []queue.ChunkID {
		list = slices.Clone(list)
		slices.SortFunc(list, func(a, b queue.ChunkID) int {
			return cmp.Or(cmp.Compare(a.Submission, b.Submission), cmp.Compare(a.Index, b.Index))
		})
		return list
	}
	if !slices.Equal(sorted(got), sorted(s.m.outbox)) {
		s.fail("on their way: got %v, want %v", got, s.m.outbox)
	}
	return list
}

func (s *sim) readLetters() {
	var f queue.BulkFilter
	all := s.m.letters(f)
	if len(all) > 0 {
		like := all[s.r.IntN(len(all))]
		if meta := s.m.sub(like.Chunk.Submission).asked.Meta; len(meta) > 0 && s.r.IntN(3) == 0 {
			f.Meta = meta[:1+s.r.IntN(len(meta))]
		}
		switch s.r.IntN(5) {
		case 0:
			f.Dead.Submission = like.Chunk.Submission
		case 1:
			f.Dead.Fingerprint = like.Fingerprint
		case 2:
			f.Dead.DiedBefore = like.Died
		case 3:
			f.Dead.DiedAfter = like.Died
		}
	}
	s.checkLetters(f, pickOf(s, 1, 2, 7))
}

// checkLetters reads the dead letters page by page.
func (s *sim) checkLetters(f queue.BulkFilter, limit int) {
	var got []queue.DeadChunk
	for after, more := (queue.ChunkID{}), true; more; {
		page, err := s.shard.DeadLetters.List(ctx, f, after, limit)
		s.must("dead letters", err)
		if len(page) > limit {
			s.fail("a page of %d dead letters, at most %d are wanted", len(page), limit)
		}
		got = append(got, page...)
		if more = len(page) == limit; more {
			after = page[limit-1].Chunk
		}
	}
	want := s.m.letters(f)
	if len(got) != len(want) {
		s.fail("dead letters %+v by %d: got %d, want %d\n  %+v\n  %+v", f, limit, len(got), len(want), got, want)
	}
	for i := range got {
		s.equal("dead letter", got[i], want[i])
	}
	s.checkGroups(f, want)
}

// checkGroups compares the groups of dead letters with those that the model's letters make.
func (s *sim) checkGroups(f queue.BulkFilter, letters []queue.DeadChunk) {
	list, err := s.shard.DeadLetters.Groups(ctx, f)
	s.must("groups of dead letters", err)
	got, want := list.Items, map[string]api.DeadGroup{}
	last := map[string]queue.SubmissionID{}
	for _, d := range letters {
		g, known := want[d.Fingerprint]
		if !known {
			g = api.DeadGroup{Fingerprint: d.Fingerprint, Pattern: queue.Pattern(d.Error), FirstDiedAt: d.Died.API(), LastDiedAt: d.Died.API()}
		}
		if last[d.Fingerprint] != d.Chunk.Submission {
			last[d.Fingerprint] = d.Chunk.Submission
			g.Submissions++
		}
		g.Count++
		if died := d.Died.API(); died.Before(g.FirstDiedAt.Time) {
			g.FirstDiedAt = died
		} else if died.After(g.LastDiedAt.Time) {
			g.LastDiedAt = died
		}
		want[d.Fingerprint] = g
	}
	if len(got) != len(want) || list.Others != 0 {
		s.fail("groups of dead letters %+v: got %+v and %d others, want %+v", f, got, list.Others, want)
	}
	for _, g := range got {
		if queue.Fingerprint(g.Example) != g.Fingerprint {
			s.fail("group %+v: its example is of another one", g)
		}
		g.Example = ""
		s.equal("group of dead letters", g, want[g.Fingerprint])
	}
}

// A redrive takes effect once, also when the journal replays it after a crash between the steps of a checkpoint: the chunk died again
// since, and stays dead.
func TestRedriveOnceAcrossACrash(t *testing.T) {
	t.Parallel()
	for _, ends := range []bool{false, true} {
		b := openBox(t, deadLetters())
		sub := mustInsert(t, b, prefixed(2))
		die := func() {
			b.mustFail(mustReserve(t, b, "OldestFirst", 1), func(f *queue.FailItem) { f.Fatal = true })
		}
		die()
		if ends {
			die()
		}
		if n, err := b.shard.DeadLetters.Redrive(ctx, sub.ID, []uint32{0}); n != 1 || err != nil {
			t.Fatalf("redrive: got %d %v, want 1", n, err)
		}
		die()
		want := b.sub(sub.ID)
		checkpointed, err := b.store.Checkpointed(ctx)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		b.copyFiles("journal.db", dir)
		if err := b.shard.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		b.copyFiles("store.db", dir)
		b.close()
		b.dir = dir
		rewindFolded(t, dir, checkpointed)
		b.open()
		if got := b.sub(sub.ID); got.State != want.State || got.Dead != want.Dead || got.Ready != want.Ready {
			t.Errorf("ends=%v, after the crash: got %+v, want %+v", ends, got, want)
		}
		list := b.letters()
		if len(list) != int(want.Dead) || list[0].Redrives != 1 {
			t.Errorf("ends=%v, dead letters after the crash: got %+v, want %d, the first redriven once", ends, list, want.Dead)
		}
	}
}

func rewindFolded(t testing.TB, dir string, to journal.Position) {
	t.Helper()
	changeStore(t, dir, func(db *store.Store) error { return db.SetCheckpointed(ctx, to) })
}

// rewindAsides has a store hold these rows beside its submissions, and no others. The row of the rules stays: a checkpoint writes it
// before the submissions.
func rewindAsides(t testing.TB, dir string, rows []checkpoint.Aside) {
	t.Helper()
	changeStore(t, dir, func(db *store.Store) error {
		var all []checkpoint.Aside
		if err := db.Asides(ctx, func(a checkpoint.Aside) error {
			all = append(all, checkpoint.Aside{Kind: a.Kind, Key: a.Key})
			return nil
		}); err != nil {
			return err
		}
		all = append(all, rows...)
		return db.PutAside(ctx, slices.DeleteFunc(all, func(a checkpoint.Aside) bool { return a.Kind == machine.AsideRules }))
	})
}

func changeStore(t testing.TB, dir string, change func(*store.Store) error) {
	t.Helper()
	db, err := store.Open(ctx, filepath.Join(dir, "store.db"), store.Options{Durability: queue.Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(change(db), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// asides are the rows that the store has beside its submissions.
func (b *box) asides() (rows []checkpoint.Aside) {
	b.t.Helper()
	if err := b.store.Asides(ctx, func(a checkpoint.Aside) error { rows = append(rows, a); return nil }); err != nil {
		b.t.Fatal(err)
	}
	return rows
}
