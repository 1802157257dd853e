package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// A purge leaves no submission of a customer, open or ended, and touches those of no one else, also if the server ends in the middle of it.
//
//quern:sequential
func TestPurgeOfACustomer(t *testing.T) {
	t.Parallel()
	ctx, dir := context.Background(), t.TempDir()
	now := time.UnixMilli(1_700_000_000_000)
	open := func() *Engine {
		t.Helper()
		e, err := Open(ctx, Options{Dir: dir, BallastBytes: -1, Now: func() time.Time { return now }, Seed: func() uint64 { return 7 }})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := open()
	defer func() { e.Close() }()
	relaxed := queue.DefaultSettings()
	relaxed.Durability = queue.Relaxed
	if _, _, err := e.PutQueue(ctx, DefaultQueue, relaxed); err != nil {
		t.Fatal(err)
	}
	const each = queue.MaxDeletions + 200 // more than one page
	kept := make(map[queue.SubmissionID]bool)
	for i := range each {
		now = now.Add(time.Millisecond)
		for _, customer := range []int64{7, 8} {
			s, _, err := queueAt(e, DefaultQueue).Insert(ctx, queue.NewSubmission{
				Chunks: queue.Chunks{Inline: [][]byte{[]byte("a secret")}}, OperationsPerChunk: 1,
				Meta: queue.Meta{{Key: "customer", Value: queue.IntValue(customer)}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if kept[s.ID] = customer == 8; i%2 == 0 { // half of them have ended
				if _, err := queueAt(e, DefaultQueue).Submissions.Cancel(ctx, s.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	now = now.Add(time.Second)
	id := startBulk(t, e, queue.BulkRequest{Action: queue.BulkPurge, Filter: queue.BulkFilter{
		Meta: queue.Meta{{Key: "customer", Value: queue.IntValue(7)}}}})
	if _, more, err := e.queues[DefaultQueue].shard.Bulks.Step(ctx, e.bulkID(t, id), 300); err != nil || !more {
		t.Fatalf("the first page: more %t, %v", more, err)
	}
	if err := e.Close(); err != nil { // before anything of the page is deleted
		t.Fatal(err)
	}
	e = open()
	for range 100 {
		e.bulks.step(ctx)
	}
	wantBulk(t, "behind it", e, id, queue.BulkCompleted, each, 0, 0)
	for id, stays := range kept {
		if _, err := e.Submission(ctx, id); (err == nil) != stays || err != nil && queue.CodeOf(err) != queue.CodeUnknownSubmission {
			t.Fatalf("submission %s: %v, want that it is there: %t", id, err, stays)
		}
	}
}

// A deletion that another caller ordered and that cannot be done now does not end a purge. It is done when that is
// possible again.
//
//quern:sequential
func TestPurgeBesideADeletionThatIsStuck(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e, _ := bulkEngine(t, 0)
	q := queueAt(e, DefaultQueue)
	of := func(customer int64) queue.SubmissionID {
		s, _, err := q.Insert(ctx, queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "x"}, OperationsPerChunk: 1,
			Meta: queue.Meta{{Key: "customer", Value: queue.IntValue(customer)}}})
		fatal(t, err)
		return s.ID
	}
	stuck, purged := of(8), []queue.SubmissionID(nil)
	for range queue.MaxDeletions + 10 { // more than one page: the deletions behind the first come before the second
		purged = append(purged, of(7))
	}
	erase, damaged := q.shard.Deletions.Erase, true
	q.shard.Deletions.Erase = func(ctx context.Context, id queue.SubmissionID) error {
		if id == stuck && damaged {
			return errors.New("its row cannot be read")
		}
		return erase(ctx, id)
	}
	if err := q.Submissions.Delete(ctx, stuck, true); err == nil {
		t.Fatal("the deletion that is stuck went well")
	}
	id := startBulk(t, e, queue.BulkRequest{Action: queue.BulkPurge, Filter: queue.BulkFilter{
		Meta: queue.Meta{{Key: "customer", Value: queue.IntValue(7)}}}})
	for range 10 {
		e.bulks.step(ctx)
	}
	wantBulk(t, "beside the deletion that is stuck", e, id, queue.BulkCompleted, uint64(len(purged)), 0, 0)
	for _, id := range purged {
		if _, err := e.Submission(ctx, id); queue.CodeOf(err) != queue.CodeUnknownSubmission {
			t.Errorf("submission %s of the customer: %v, want that it is gone", id, err)
		}
	}
	if _, err := e.Submission(ctx, stuck); err != nil {
		t.Errorf("the submission whose deletion is stuck: %v, want that it is there", err)
	}
	damaged = false
	if err := q.shard.Deletions.Due(ctx); err != nil {
		t.Error(err)
	}
	if _, err := e.Submission(ctx, stuck); queue.CodeOf(err) != queue.CodeUnknownSubmission {
		t.Errorf("when it can be deleted again: %v, want that it is gone", err)
	}
}

func (e *Engine) bulkID(t *testing.T, text string) queue.BulkID {
	t.Helper()
	b, err := e.Bulk(text)
	if err != nil {
		t.Fatal(err)
	}
	return b.ID
}
