package engine

import (
	"context"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// The oldest dead letters are those that died first, in whichever submission. Of letters that died at the same time, as many are taken as
// were asked for. The choice stays fixed whatever happens to letters meanwhile.
func TestBulkOldest(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e, clock := bulkEngine(t, 0)
	var ids []queue.SubmissionID
	died := func() {
		clock.Add(1000)
		id := insert(t, e, 5)
		failSome(t, e, id, func(index uint32) bool { return index > 0 })
		ids = append(ids, id)
	}
	for range 10 {
		died()
	}
	clock.Add(1000)
	request := queue.BulkRequest{Action: queue.BulkRedrive, Filter: queue.BulkFilter{Dead: queue.DeadFilter{Oldest: 6}}, DryRun: true}
	dry := startBulk(t, e, request)
	request.DryRun = false
	id := startBulk(t, e, request)
	died() // too late to be meant
	e.bulks.step(ctx)
	wantBulk(t, "a dry run of the oldest six", e, dry, queue.BulkCompleted, 6, 0, 0)
	wantBulk(t, "the oldest six", e, id, queue.BulkCompleted, 6, 0, 0)
	for i, want := range []int{0, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4} { // of four each
		f := queue.BulkFilter{Dead: queue.DeadFilter{Submission: ids[i]}}
		page, err := queueAt(e, DefaultQueue).DeadLetters.List(ctx, DeadRequest{Filter: f})
		if err != nil || len(page.Items) != want {
			t.Errorf("submission %d has %d dead letters, want %d: %v", i, len(page.Items), want, err)
		}
	}
	request.Filter.Dead = queue.DeadFilter{Oldest: 1000, Fingerprint: queue.Fingerprint("kind b no 7")}
	wantBulkDone := startBulk(t, e, request)
	e.bulks.step(ctx)
	wantBulk(t, "fewer than were asked for", e, wantBulkDone, queue.BulkCompleted, 2*9+1, 0, 0)
	for _, r := range []queue.BulkRequest{
		{Action: queue.BulkCancel, Filter: queue.BulkFilter{Dead: queue.DeadFilter{Oldest: 1}}},
		{Action: queue.BulkDelete, Filter: queue.BulkFilter{Dead: queue.DeadFilter{Oldest: queue.MaxOldest + 1}}},
	} {
		if _, err := queueAt(e, DefaultQueue).Bulks.Start(ctx, r); queue.CodeOf(err) != queue.CodeInvalid {
			t.Errorf("%s of the oldest %d: got %v, want invalid", r.Action, r.Filter.Dead.Oldest, err)
		}
	}
}
