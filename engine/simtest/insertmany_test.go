package simtest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// countingLog counts the appends that hold an insert.
type countingLog struct {
	journal.Journal
	appends *atomic.Int64
}

func (l *countingLog) Append(ctx context.Context, expect journal.Position, batch []byte) (journal.Position, error) {
	l.appends.Add(1)
	return l.Journal.Append(ctx, expect, batch)
}

func insertion(key, content string) queue.Insertion {
	n := &queue.NewSubmission{IdempotencyKey: key, Chunks: queue.Chunks{Count: 1, Inline: [][]byte{[]byte(content)}}}
	copy(n.Fingerprint[:], content)
	return queue.Insertion{New: n}
}

func (b *box) submissions() int {
	b.t.Helper()
	list, _, err := b.shard.Submissions.List(ctx, machine.Filter{}, 0, 10_000)
	must(b.t, err)
	return len(list)
}

// TestInsertMany: submissions of one call are in one commit, with their contents, and each has its own result; after a kill they are
// there, or none is.
func TestInsertMany(t *testing.T) {
	t.Parallel()
	b := newBox(t, relaxed())
	var appends atomic.Int64
	b.wrap = func(inner journal.Journal) journal.Journal { return &countingLog{inner, &appends} }
	b.open()
	earlier := insertion("earlier", "e")
	must(t, b.shard.InsertMany(ctx, []queue.Insertion{earlier}, false))
	before := appends.Load()
	var list []queue.Insertion
	for i := range 500 {
		list = append(list, insertion(fmt.Sprint("k", i), fmt.Sprint("content ", i)))
	}
	list = append(list, insertion("k7", "content 7"), insertion("k8", "another"), insertion("earlier", "e"))
	must(t, b.shard.InsertMany(ctx, list, false))
	if n := appends.Load() - before; n != 1 {
		t.Errorf("%d appends, want one for all", n)
	}
	for i := range 500 {
		if in := &list[i]; in.Err != nil || in.Replayed || in.Submission.Chunks != 1 {
			t.Fatalf("submission %d: %+v", i, in)
		}
	}
	if again := &list[500]; again.Err != nil || !again.Replayed || again.Submission.ID != list[7].Submission.ID {
		t.Errorf("a key that came before in the call: %+v, want %s replayed", again, list[7].Submission.ID)
	}
	if other := &list[501]; queue.CodeOf(other.Err) != queue.CodeIdempotencyReuse {
		t.Errorf("a key of another request: %v, want %s", other.Err, queue.CodeIdempotencyReuse)
	}
	if !list[502].Replayed {
		t.Errorf("a key of an earlier call: %+v, want it replayed", list[502])
	}
	b.kill(t, asTheyAre)
	if n := b.submissions(); n != 501 {
		t.Errorf("after a kill there are %d submissions, want 501", n)
	}
	want := map[queue.SubmissionID]string{}
	for i := range 500 {
		want[list[i].Submission.ID] = fmt.Sprint("content ", i)
	}
	for _, r := range mustReserve(t, b, "NewestFirst", 500) {
		if got := string(r.Content.Bytes); got != want[r.Token.Submission] {
			t.Errorf("submission %s is handed out with %q, want %q", r.Token.Submission, got, want[r.Token.Submission])
		}
	}
}

// TestInsertManyAtomic: when one of an atomic call cannot be inserted, none is, and their keys are free again.
func TestInsertManyAtomic(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	must(t, b.shard.InsertMany(ctx, []queue.Insertion{insertion("taken", "first")}, true))
	list := []queue.Insertion{insertion("a", "a"), insertion("taken", "other"), insertion("", "c")}
	must(t, b.shard.InsertMany(ctx, list, true))
	for i, want := range []queue.Code{queue.CodeBatchRefused, queue.CodeIdempotencyReuse, queue.CodeBatchRefused} {
		if code := queue.CodeOf(list[i].Err); code != want {
			t.Errorf("submission %d: %v, want %s", i, list[i].Err, want)
		}
	}
	if n := b.submissions(); n != 1 {
		t.Fatalf("there are %d submissions, want the first alone", n)
	}
	list = []queue.Insertion{insertion("a", "a"), insertion("", "c"), insertion("a", "a")}
	must(t, b.shard.InsertMany(ctx, list, true))
	if list[0].Err != nil || list[0].Replayed || list[1].Err != nil || !list[2].Replayed || b.submissions() != 3 {
		t.Errorf("the second time: %+v, and %d submissions", list, b.submissions())
	}
}

// TestInsertManyLarge: contents that are too many for the batch go to the store first, and those that are not published are swept.
func TestInsertManyLarge(t *testing.T) {
	t.Parallel()
	b := newBox(t, relaxed())
	b.opBytes = 100
	b.open()
	large := string(filler('x', 1000))
	list := []queue.Insertion{insertion("", large), insertion("", "small"), insertion("", large)}
	must(t, b.shard.InsertMany(ctx, list, false))
	b.kill(t, asTheyAre)
	sizes := map[int]int{}
	for _, r := range mustReserve(t, b, "OldestFirst", 10) {
		sizes[len(r.Content.Bytes)]++
	}
	if sizes[1000] != 2 || sizes[5] != 1 {
		t.Errorf("contents of these sizes are handed out: %v", sizes)
	}
}
