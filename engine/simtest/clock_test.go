package simtest

import (
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// TestClockSetBack: ids stay unique and keep growing when the clock is set back, over a restart too, and although all
// earlier submissions have ended and were checkpointed and trimmed.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	last := queue.SubmissionID(0)
	insert := func(when string) {
		sub := mustInsert(t, b, prefixed(1))
		if sub.ID <= last {
			t.Errorf("%s: the id %s is not above %s", when, sub.ID, last)
		}
		last = sub.ID
		if _, err := b.shard.Submissions.Cancel(ctx, sub.ID); err != nil {
			t.Fatal(err)
		}
	}
	insert("at first")
	b.clock.pass(-time.Hour)
	insert("an hour back")
	if err := b.shard.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	b.close()
	b.clock.pass(-time.Hour)
	b.open()
	insert("after a restart, two hours back")
	if list, _, err := b.shard.Submissions.List(ctx, everything, 0, 10); err != nil || len(list) != 3 {
		t.Errorf("list: got %d submissions, %v, want 3", len(list), err)
	}
}
