package simtest

import (
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// retain has the history forget submissions that ended long ago, except those with letters that other queues still have to get.
func (s *sim) retain() {
	before := s.now.Add(-pickOf(s, 0, time.Minute, time.Hour, 10*time.Hour))
	if len(s.m.subs) > 0 && s.chance(40) {
		before = s.m.subs[s.r.IntN(len(s.m.subs))].finished
	}
	s.over = max(s.over, before)
	s.retainUntil(before)
}

// retainAgain forgets submissions once more that a rebuilt store has: retention is no op of the journal, and comes again by itself.
func (s *sim) retainAgain() {
	if s.remade && s.over > 0 {
		s.retainUntil(s.over)
	}
	s.remade = false
}

func (s *sim) retainUntil(before queue.Time) {
	pinned := map[queue.SubmissionID]bool{}
	for _, id := range s.m.outbox {
		pinned[id.Submission] = true
	}
	n := len(s.m.subs)
	s.m.subs = slices.DeleteFunc(s.m.subs, func(x *modelSub) bool {
		letters := x.state == queue.CompletedWithDead && x.count(queue.ChunkDead) > 0 // those are kept
		over := x.state != queue.Open && x.finished < before && !pinned[x.id] && !letters
		if over {
			s.m.forgotten[x.id] = true
		}
		return over
	})
	s.log.add("the retention of %d submissions is over, of those that ended before %d", n-len(s.m.subs), before)
	s.disarm()
	s.must("retain", onlyError(s.shard.Retention.Retain(ctx, before, 10_000)))
	if s.copies != "" { // it may have begun one behind a checkpoint, whose op must not share a batch, and its time, with what comes next
		s.must("checkpoint", s.shard.Checkpoint())
	}
	_, err := s.store.Keys.Expire(ctx, s.now.Add(-queue.IdempotencyWindow), 1+n%3) // as the engine's cleaner does
	s.must("expire keys", err)
	s.tally.add("retention over", n-len(s.m.subs))
}

// A submission that the history has forgotten does not come back, also if the process is killed after a checkpoint that was cut off, with
// rows that are younger than the position that the replay begins at.
func TestForgottenStaysForgotten(t *testing.T) {
	t.Parallel()
	for moment := range killMoments {
		b := openBox(t, relaxed())
		sub := mustInsert(t, b, prefixed(2))
		if _, err := b.shard.Submissions.Cancel(ctx, sub.ID); err != nil {
			t.Fatal(err)
		}
		b.kill(t, moment)
		b.clock.pass(time.Hour)
		if _, err := b.shard.Retention.Retain(ctx, b.clock.now(), 10); err != nil {
			t.Fatal(err)
		}
		if _, err := b.shard.Submissions.Get(ctx, sub.ID); queue.CodeOf(err) != queue.CodeUnknownSubmission {
			t.Fatalf("moment %d, after its retention: %v, want %s", moment, err, queue.CodeUnknownSubmission)
		}
		b.kill(t, asTheyAre)
		if got, err := b.shard.Submissions.Get(ctx, sub.ID); queue.CodeOf(err) != queue.CodeUnknownSubmission {
			t.Errorf("moment %d, after the restart: got %+v %v, want %s", moment, got, err, queue.CodeUnknownSubmission)
		}
	}
}

// A forgotten submission leaves no outputs that could seem to be a later submission's: numbers in the store are not given out twice, also
// when the process starts again and nothing else has these numbers any more.
func TestForgottenOutputsAreNobodys(t *testing.T) {
	t.Parallel()
	for moment := range killMoments {
		b := openBox(t, relaxed())
		first := mustInsert(t, b, prefixed(2))
		items := completions(mustReserve(t, b, "OldestFirst", 1))
		items[0].Output = []byte("of the first")
		if _, err := b.shard.Complete(ctx, items, nil); err != nil {
			t.Fatal(err)
		}
		b.kill(t, moment) // from here on no one knows in memory that there is an output
		if _, err := b.shard.Submissions.Cancel(ctx, first.ID); err != nil {
			t.Fatal(err)
		}
		b.clock.pass(time.Hour)
		if _, err := b.shard.Retention.Retain(ctx, b.clock.now(), 10); err != nil {
			t.Fatal(err)
		}
		b.kill(t, allFolded)
		second := mustInsert(t, b, prefixed(2))
		b.kill(t, moment)
		held := completions(mustReserve(t, b, "OldestFirst", 2))
		for i := range held {
			if held[i].Token.Index != items[0].Token.Index {
				held[i].Output = []byte("of the second")
			}
		}
		if _, err := b.shard.Complete(ctx, held, nil); err != nil {
			t.Fatal(err)
		}
		if got, err := b.shard.Submissions.Chunk(ctx, second.ID, items[0].Token.Index); err != nil || got.State != queue.ChunkDone || got.Output != nil {
			t.Errorf("moment %d: a chunk that was completed without an output has %q, %v", moment, got.Output, err)
		}
	}
}
