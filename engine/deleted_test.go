package engine

import (
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// A token of a deleted queue completes nothing in the queue that has its number now, though both have given out the same first token.
func TestTokenOfADeletedQueue(t *testing.T) {
	t.Parallel()
	e := openAt(t, t.TempDir())
	hold := func() (*Queue, queue.Token) {
		t.Helper()
		if _, _, err := e.PutQueue(t.Context(), "q", queue.DefaultSettings()); err != nil {
			t.Fatal(err)
		}
		q := queueAt(e, "q")
		if _, _, err := q.Insert(t.Context(), queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "x/"}}); err != nil {
			t.Fatal(err)
		}
		got, err := q.Reserve(t.Context(), ReserveRequest{Max: 1, Plan: mustPlan(t, q, `"OldestFirst"`).Plan}, nil)
		if err != nil || len(got.Reservations) != 1 {
			t.Fatalf("Reserve = %d, %v; want 1", len(got.Reservations), err)
		}
		return q, got.Reservations[0].Token
	}
	gone, token := hold()
	if _, err := gone.Submissions.Cancel(t.Context(), token.Submission); err != nil {
		t.Fatal(err)
	}
	if err := e.DeleteQueue(t.Context(), "q", false); err != nil {
		t.Fatal(err)
	}
	next, held := hold()
	if next.id != gone.id || held.Epoch != token.Epoch || held.Sequence != token.Sequence {
		t.Fatalf("the two queues gave out %+v and %+v: the test needs the same numbers", token, held)
	}
	for _, call := range []struct {
		token queue.Token
		want  queue.Outcome
	}{{token, queue.OutcomeUnknown}, {held, queue.OutcomeOK}} {
		results, err := next.Complete(t.Context(), []queue.CompleteItem{{Token: call.token}}, nil)
		if err != nil || results[0].Outcome != call.want {
			t.Errorf("Complete(%+v) = %+v, %v; want %s", call.token, results, err, call.want)
		}
	}
}

// An insert that has found its queue before the queue was deleted is refused, or keeps it from being deleted. It is never acknowledged
// and gone.
func TestDeleteBesideAnInsert(t *testing.T) {
	t.Parallel()
	e := openAt(t, t.TempDir())
	for round := range 20 {
		if _, _, err := e.PutQueue(t.Context(), "q", queue.DefaultSettings()); err != nil {
			t.Fatal(err)
		}
		q := queueAt(e, "q")
		inserted, deleted := make(chan error), make(chan error)
		var id queue.SubmissionID
		go func() {
			s, _, err := q.Insert(t.Context(), queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "x/"}})
			id = s.ID
			inserted <- err
		}()
		go func() { deleted <- e.DeleteQueue(t.Context(), "q", false) }()
		one, two := <-inserted, <-deleted
		if (one == nil) == (two == nil) {
			t.Fatalf("round %d: the insert: %v; the deletion: %v; want one of them", round, one, two)
		}
		if two == nil {
			continue
		}
		if _, err := q.Submissions.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if err := e.DeleteQueue(t.Context(), "q", false); err != nil {
			t.Fatal(err)
		}
	}
}
