package simtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// withLetters has dead letters: of each submission all of its five chunks. Every second submission has ended.
func withLetters(t *testing.T, submissions int) *box {
	t.Helper()
	b := openBox(t, deadLetters())
	for i := range submissions {
		mustInsert(t, b, prefixed(5, number("n", i%3)))
		b.clock.pass(time.Millisecond)
		held := mustReserve(t, b, "NewestFirst", 5)
		b.mustFail(held[:4+i%2], func(f *queue.FailItem) { f.Fatal = true })
	}
	b.clock.pass(time.Second)
	return b
}

func (b *box) startBulk(t *testing.T, r queue.BulkRequest) queue.BulkID {
	t.Helper()
	op, err := b.shard.Bulks.Start(r)
	if err != nil {
		t.Fatal(err)
	}
	return op.ID
}

// finishBulk takes the operation to its end, `most` at a time, and returns its result.
func (b *box) finishBulk(t *testing.T, id queue.BulkID, most int) queue.Bulk {
	t.Helper()
	for more := true; more; {
		var err error
		if _, more, err = b.shard.Bulks.Step(ctx, id, most); err != nil {
			t.Fatal(err)
		}
	}
	op, there := b.shard.Bulks.Get(id)
	if !there {
		t.Fatalf("operation %s is not known any more", id)
	}
	return op
}

// An operation goes on exactly where it was when the process is killed: its counts are exact, nothing is done twice, and nothing is left
// out, in every state of the files at the kill.
func TestBulkGoesOnAfterKills(t *testing.T) {
	t.Parallel()
	for _, action := range []queue.BulkAction{queue.BulkRedrive, queue.BulkDelete, queue.BulkForward} {
		for kind := range killMoments {
			t.Run(fmt.Sprint(action, kind), func(t *testing.T) {
				t.Parallel()
				b := withLetters(t, 30) // 135 letters
				id := b.startBulk(t, queue.BulkRequest{Action: action, To: "there", Filter: queue.BulkFilter{Meta: queue.Meta{number("n", 1)}}})
				for range 3 {
					for range 2 {
						if _, _, err := b.shard.Bulks.Step(ctx, id, 7); err != nil {
							t.Fatal(err)
						}
						if kind != allFolded {
							continue
						}
						if err := b.shard.Checkpoint(); err != nil {
							t.Fatal(err)
						}
					}
					before, _ := b.shard.Bulks.Get(id)
					b.kill(t, kind)
					if now, there := b.shard.Bulks.Get(id); !there || now.Counts != before.Counts || now.State != before.State || !sameRequest(now, before) {
						t.Fatalf("after the kill: got %+v %v, want %+v", now, there, before)
					}
				}
				op := b.finishBulk(t, id, 7)
				if want := (queue.BulkCounts{Matched: 45, Done: 45}); op.Counts != want || op.State != queue.BulkCompleted {
					t.Errorf("at the end: got %s %+v, want completed, %+v", op.State, op.Counts, want)
				}
				if got := len(b.letters()); got != 90 {
					t.Errorf("%d dead letters are left, want 90", got)
				}
				if got, want := len(b.shard.Forwarding.Outgoing(0, 1000)), map[queue.BulkAction]int{queue.BulkForward: 45}[action]; got != want {
					t.Errorf("%d letters are on their way, want %d", got, want)
				}
				if got, want := b.shard.Stats().Ready, 15+map[queue.BulkAction]uint64{queue.BulkRedrive: 45}[action]; got != want { // 15 were held
					t.Errorf("%d chunks are ready, want %d", got, want)
				}
			})
		}
	}
}

func sameRequest(a, b queue.Bulk) bool {
	return a.Action == b.Action && a.To == b.To && fmt.Sprint(a.Filter) == fmt.Sprint(b.Filter)
}

// A dry run foresees the result, and an operation on the same state has just that result.
func TestDryRunTellsWhatComes(t *testing.T) {
	t.Parallel()
	b := withLetters(t, 6)
	late := prefixed(2)
	late.DeadDeadline = b.clock.now().Add(time.Minute)
	mustInsert(t, b, late)
	b.mustFail(mustReserve(t, b, "NewestFirst", 2), func(f *queue.FailItem) { f.Fatal = true })
	b.clock.pass(time.Hour)
	b.shard.Worker.Tick()
	for _, r := range []queue.BulkRequest{
		{Action: queue.BulkRedrive}, {Action: queue.BulkReprioritize, Priority: 4}, {Action: queue.BulkReprioritize, Priority: 4},
		{Action: queue.BulkForward, To: "there"}, {Action: queue.BulkDelete}, {Action: queue.BulkCancel}, {Action: queue.BulkCancel},
	} {
		dry := r
		dry.DryRun = true
		stats := b.shard.Stats()
		foreseen := b.finishBulk(t, b.startBulk(t, dry), 3)
		if now := b.shard.Stats(); now.Ready != stats.Ready || now.DeadLetters != stats.DeadLetters || now.SubmissionsOpen != stats.SubmissionsOpen || now.BulkTotal != stats.BulkTotal {
			t.Errorf("a dry run of %s changed something: got %+v, want %+v", r.Action, now, stats)
		}
		if came := b.finishBulk(t, b.startBulk(t, r), 3); came.Counts != foreseen.Counts || foreseen.Counts.Matched != foreseen.Counts.Done+foreseen.Counts.Unchanged+foreseen.Counts.Refused {
			t.Errorf("%s: the dry run told %+v, then came %+v", r.Action, foreseen.Counts, came.Counts)
		}
	}
}

// An operation leaves submissions alone that are inserted after its start, also when their letters die within the millisecond of the start.
// The shard and the model agree on that.
func TestBulkLeavesLaterSubmissionsAlone(t *testing.T) {
	t.Parallel()
	for _, action := range []queue.BulkAction{queue.BulkRedrive, queue.BulkDelete, queue.BulkForward} {
		b, m := openBox(t, deadLetters()), newModel(deadLetters())
		insertDead := func() queue.SubmissionID {
			n := prefixed(2)
			sub := mustInsert(t, b, n)
			b.mustFail(mustReserve(t, b, "NewestFirst", 2), func(f *queue.FailItem) { f.Fatal = true })
			for _, c := range m.insert(n, sub.ID, b.clock.now()).chunks {
				c.state, c.past = queue.ChunkDead, []queue.Attempt{{Ended: b.clock.now()}}
			}
			return sub.ID
		}
		earlier := insertDead()
		request := queue.BulkRequest{Action: action, To: "third"}
		id := b.startBulk(t, request)
		later := insertDead()
		groups, n := m.page(&modelBulk{Bulk: queue.Bulk{BulkRequest: request, ID: id}}, 10, b.clock.now())
		if n != 2 || len(groups) != 1 || groups[0].x.id != earlier {
			t.Errorf("%s: the model means %d letters of %d submissions, want the 2 of %s", action, n, len(groups), earlier)
		}
		op := b.finishBulk(t, id, 10)
		if want := (queue.BulkCounts{Matched: 2, Done: 2}); op.Counts != want || b.sub(earlier).Dead != 0 || b.sub(later).Dead != 2 {
			t.Errorf("%s: got %+v, %d dead of before and %d of after the start, want %+v, 0 and 2", action, op.Counts, b.sub(earlier).Dead, b.sub(later).Dead, want)
		}
	}
}

// Retries that wait become ready at once, with their tries counted on, and stay so over a kill.
func TestBulkRetry(t *testing.T) {
	t.Parallel()
	for kind := range killMoments {
		b := openBox(t, relaxed())
		mustInsert(t, b, prefixed(600, number("n", 1)))
		mustInsert(t, b, prefixed(3, number("n", 2)))
		held := mustReserve(t, b, "Random", 603)
		b.mustFail(held, func(f *queue.FailItem) { f.HasRetry, f.RetryAfter = true, queue.Time(time.Hour/time.Millisecond) })
		b.clock.pass(time.Second)
		if err := b.shard.Checkpoint(); err != nil { // the rows say that the chunks wait
			t.Fatal(err)
		}
		op := b.finishBulk(t, b.startBulk(t, queue.BulkRequest{Action: queue.BulkRetry, Filter: queue.BulkFilter{Meta: queue.Meta{number("n", 1)}}}), 256)
		if want := (queue.BulkCounts{Matched: 600, Done: 600}); op.Counts != want {
			t.Errorf("retry: got %+v, want %+v", op.Counts, want)
		}
		b.kill(t, kind)
		if got := b.shard.Stats(); got.Ready != 600 || got.Waiting != 3 {
			t.Errorf("files %d: got %d ready and %d waiting, want 600 and 3", kind, got.Ready, got.Waiting)
		}
		for _, r := range mustReserve(t, b, "Random", 1000) {
			if r.Attempt != 2 {
				t.Fatalf("attempt of %d: got %d, want 2", r.Token.Index, r.Attempt)
			}
		}
	}
}

// A chunk that waits after a failed try gets no other one, also over a kill: on_exhausted decides about it. Where that fails the
// submission, the first chunk takes the others along. A limit is exact. A chunk that was released for a while had no failed try.
func TestBulkGiveUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy        queue.OnExhausted
		limit         uint32
		done          uint64
		dead, skipped uint32
	}{{queue.DeadLetter, 0, 6, 6, 0}, {queue.DeadLetter, 3, 3, 3, 0}, {queue.Skip, 0, 6, 0, 6}, {queue.FailSubmission, 0, 1, 1, 7}} {
		for kind := range killMoments {
			b := openBox(t, relaxed())
			n := prefixed(8)
			n.OnExhausted = c.policy
			id := mustInsert(t, b, n).ID
			held := mustReserve(t, b, "OldestFirst", 7)
			b.mustFail(held[:6], func(f *queue.FailItem) { f.HasRetry, f.RetryAfter = true, queue.Time(time.Hour/time.Millisecond) })
			if results, err := b.shard.Release(ctx, []queue.ReleaseItem{{Token: held[6].Token, Delay: queue.Time(time.Hour / time.Millisecond)}}, nil); err != nil || results[0].Outcome != queue.OutcomeOK {
				t.Fatal(results, err)
			}
			b.clock.pass(time.Second)
			op := b.finishBulk(t, b.startBulk(t, queue.BulkRequest{Action: queue.BulkGiveUp, Limit: c.limit}), 2)
			matched := uint64(7)
			if c.limit > 0 {
				matched = uint64(c.limit)
			} else if c.policy == queue.FailSubmission {
				matched = 2
			}
			if want := (queue.BulkCounts{Matched: matched, Done: c.done, Unchanged: matched - c.done}); op.Counts != want || op.State != queue.BulkCompleted {
				t.Errorf("%s, limit %d: got %s %+v, want completed %+v", c.policy, c.limit, op.State, op.Counts, want)
			}
			b.kill(t, kind)
			got, err := b.shard.Submissions.Get(ctx, id)
			if err != nil || got.Dead != c.dead || got.Skipped != c.skipped {
				t.Errorf("%s, limit %d, files %d: %d dead and %d skipped, %v; want %d and %d", c.policy, c.limit, kind, got.Dead, got.Skipped, err, c.dead, c.skipped)
			}
		}
	}
}

// Ended operations are forgotten beyond a bound, the oldest first; running ones are not, and more of them than a bound are refused.
func TestBulksAreBounded(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	first := b.startBulk(t, queue.BulkRequest{})
	var ids []queue.BulkID
	for range queue.MaxBulkKept + 5 {
		id := b.startBulk(t, queue.BulkRequest{})
		b.finishBulk(t, id, 10)
		ids = append(ids, id)
	}
	b.kill(t, allFolded)
	list := b.shard.Bulks.List()
	if len(list) != queue.MaxBulkKept+1 || list[0].ID != first || list[1].ID != ids[5] {
		t.Errorf("got %d operations, the first %s and %s; want %d, %s and %s", len(list), list[0].ID, list[1].ID, queue.MaxBulkKept+1, first, ids[5])
	}
	last := first
	for range queue.MaxBulkRunning - 1 {
		last = b.startBulk(t, queue.BulkRequest{})
	}
	if _, err := b.shard.Bulks.Start(queue.BulkRequest{}); queue.CodeOf(err) != queue.CodeOverloaded {
		t.Errorf("one too many: got %v, want %s", err, queue.CodeOverloaded)
	}
	if err := b.shard.Bulks.End(last, queue.BulkCancelled, "", ""); err != nil {
		t.Fatal(err)
	}
	if op := b.finishBulk(t, last, 10); op.State != queue.BulkCancelled || op.Finished == 0 {
		t.Errorf("the cancelled one: got %+v", op)
	}
}
