package engine

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/cluster/clustertest"
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

// An insert that is repeated gets its first answer, also when the submission that it waited for was deleted since. A new one is refused.
func TestRepeatedInsertAfterADeletedOne(t *testing.T) {
	t.Parallel()
	e := openAt(t, t.TempDir())
	defer closed(t, e)
	q := queueAt(e, DefaultQueue)
	insert := func(n queue.NewSubmission) (queue.Submission, error) {
		n.Chunks = queue.Chunks{Count: 1, Prefix: "x/"}
		s, _, err := q.Insert(t.Context(), n)
		return s, err
	}
	before, err := insert(queue.NewSubmission{})
	fatal(t, err)
	after := &queue.After{IDs: []queue.SubmissionID{before.ID}, Ended: true}
	keyed := queue.NewSubmission{After: after, IdempotencyKey: "k"}
	unique := queue.NewSubmission{After: after, Unique: &queue.Unique{Key: "u"}}
	first, err := insert(keyed)
	fatal(t, err)
	kept, err := insert(unique)
	fatal(t, err)
	fatal(t, q.Submissions.Delete(t.Context(), before.ID, true))
	if again, err := insert(keyed); err != nil || again.ID != first.ID {
		t.Errorf("the insert again, with its idempotency key: %s, %v; want %s", again.ID, err, first.ID)
	}
	if again, err := insert(unique); err != nil || again.ID != kept.ID {
		t.Errorf("the insert again, with its unique key: %s, %v; want %s", again.ID, err, kept.ID)
	}
	if _, err := insert(queue.NewSubmission{After: after}); queue.CodeOf(err) != queue.CodeInvalid {
		t.Errorf("a new insert after what was deleted: %v; want that it is refused", err)
	}
}

// A node stands still in the middle of a deletion, for longer than its lease. The submissions that the next owner takes in meanwhile stay:
// in the queue itself, or in a new queue of that name, created after the next owner has ended the deletion.
func TestDeletionThatStandsStill(t *testing.T) {
	t.Parallel()
	for _, step := range []struct {
		call, name string
		calls      int32 // the last of them is the one that stands still
		serves     bool  // the next owner still has the queue
	}{{"DeleteJournal", "shard-", 1, true}, {"Append", "catalogue", 2, false}} { // the first append has entries of the audit log
		t.Run(step.call, func(t *testing.T) {
			t.Parallel()
			var left atomic.Int32
			still, goOn := make(chan struct{}), make(chan struct{})
			b := newFolderBackend(t)
			a, err := openNode(t, &hooked{b, func(call, name string) error {
				if call == step.call && strings.HasPrefix(name, step.name) && left.Add(-1) == 0 {
					close(still)
					<-goOn
				}
				return nil
			}}, filepath.Join(t.TempDir(), "cache"), "a", clustertest.NewTable())
			if err != nil {
				t.Fatal(err)
			}
			a.serves(t, func() bool { return len(a.all()) == 1 && a.nodes.Coordinator() == nil })
			if _, _, err := a.PutQueue(t.Context(), "large", queue.DefaultSettings()); err != nil {
				t.Fatal(err)
			}
			deleted := make(chan error, 1)
			left.Store(step.calls)
			go func() { deleted <- a.DeleteQueue(t.Context(), "large", false) }()
			<-still
			a.table.Cut(true)
			a.late.Store(int64(time.Hour)) // its lease has ended
			next := b.node(t, clustertest.NewTable())
			if _, err := next.Queue("large"); (err == nil) != step.serves {
				t.Errorf("the queue at the next owner: %v; want that it serves: %v", err, step.serves)
			}
			if _, _, err := next.PutQueue(t.Context(), "large", queue.DefaultSettings()); err != nil {
				t.Fatal(err)
			}
			large(t, next.Engine)
			close(goOn)
			if err := <-deleted; (err == nil) == step.serves {
				t.Errorf("the deletion at the node that stood still: %v; want an error: %v", err, step.serves)
			}
			if err := next.nodes.CatchUp(); err != nil {
				t.Fatal(err)
			}
			if row := next.nodes.queues().row("large"); row == nil {
				t.Error("the queue that the next owner serves is gone")
			}
			next.stop()
			after := b.node(t, clustertest.NewTable())
			if n := queueAt(after.Engine, "large").Stats().SubmissionsOpen; n != 1 {
				t.Errorf("the queue has %d submissions, want the one that the next owner took in", n)
			}
		})
	}
}
