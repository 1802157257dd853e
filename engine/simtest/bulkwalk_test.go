package simtest

import (
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// An operation's progress, its whole and the name of its canceller are the same after a kill, whether they were in the journal, in
// rows, or in both. The whole falls when others take away so much that less is left, and never rises.
func TestBulkWalkSurvivesKills(t *testing.T) {
	t.Parallel()
	for kind := range killMoments {
		b := withLetters(t, 30) // 135 letters; the 10 submissions with n = 1 have 45
		id := b.startBulk(t, queue.BulkRequest{Action: queue.BulkDelete, Filter: queue.BulkFilter{Meta: queue.Meta{number("n", 1)}}})
		want := func(when string, was queue.Bulk) {
			t.Helper()
			if now, there := b.shard.Bulks.Get(id); !there || now.Walk != was.Walk || now.EndedBy != was.EndedBy || now.State != was.State {
				t.Errorf("files %d, %s: got %+v, %s by %q; want %+v, %s by %q", kind, when, now.Walk, now.State, now.EndedBy, was.Walk, was.State, was.EndedBy)
			}
		}
		step := func() queue.Bulk {
			t.Helper()
			if _, _, err := b.shard.Bulks.Step(ctx, id, 7); err != nil {
				t.Fatal(err)
			}
			if kind == allFolded {
				if err := b.shard.Checkpoint(); err != nil {
					t.Fatal(err)
				}
			}
			op, _ := b.shard.Bulks.Get(id)
			return op
		}
		op, _ := b.shard.Bulks.Get(id)
		if op.Walk != (queue.BulkWalk{ToExamine: 135}) {
			t.Fatalf("files %d: at the start: got %+v, want 0 of 135", kind, op.Walk)
		}
		b.kill(t, kind)
		want("at the start", op)
		op = step()
		if w := op.Walk; w.Examined < 7 || w.Examined > 7*4 || w.ToExamine != 135 { // of every third submission, newest first
			t.Errorf("files %d: after 7: got %+v, want 7 to 28 of 135", kind, w)
		}
		b.kill(t, kind)
		want("after 7", op)

		letters, err := b.shard.DeadLetters.List(ctx, queue.BulkFilter{}, queue.ChunkID{}, 1000)
		if err != nil || len(letters) != 135-7 {
			t.Fatalf("files %d: %d letters are left, %v; want 128", kind, len(letters), err)
		}
		for _, d := range letters[60:] { // those that lie behind, from the oldest
			if _, err := b.shard.DeadLetters.Delete(ctx, d.Chunk.Submission, []uint32{d.Chunk.Index}); err != nil {
				t.Fatal(err)
			}
		}
		before := op.Walk
		if op = step(); op.State != queue.BulkRunning || (op.Walk.ToExamine >= before.ToExamine || op.Walk.ToExamine > op.Walk.Examined+60) || op.Walk.Examined < before.Examined {
			t.Errorf("files %d: 68 were taken away: got %+v after %+v, want at most 60 left", kind, op.Walk, before)
		}
		b.kill(t, kind)
		want("when little was left", op)
		if err := b.shard.Bulks.End(id, queue.BulkCancelled, "bo", ""); err != nil {
			t.Fatal(err)
		}
		op, _ = b.shard.Bulks.Get(id)
		b.kill(t, kind)
		if op.EndedBy != "bo" || op.Walk.Percent(op.State) > 99 {
			t.Errorf("files %d: cancelled: got %+v by %q, want it by bo below 100 %%", kind, op.Walk, op.EndedBy)
		}
		want("cancelled", op)
	}
}
