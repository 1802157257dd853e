package ends

import (
	"context"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
)

// ending is a shell whose part hears of ends, and settles after each commit as in a shard.
func ending(t *testing.T) (*shelltest.Shell, *Ends) {
	s := shelltest.New(t)
	part := New(s.Machine)
	s.Machine.Joined.Ended = []func(*machine.Record){part.Ended}
	return s, Face(shelltest.Door(s, part))
}

// end cancels submissions in one commit.
func (e *Ends) end(t *testing.T, ids ...queue.SubmissionID) {
	t.Helper()
	if err := shell.Change(e, func(m *machine.Machine, now queue.Time) error {
		for _, id := range ids {
			m.EndSubmission(m.Live(id), queue.Cancelled, "", now)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	e.Look(func(m *machine.Machine) {
		e.Part().Reach(m.AppliedAt)
		e.Tell()
	})
}

// all reads the ends behind a place, page by page.
func (e *Ends) all(t *testing.T, after queue.EndID, f machine.Filter, limit int) (ids []queue.SubmissionID) {
	t.Helper()
	for {
		page, err := e.After(context.Background(), after.EndPlace, f, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range page.List {
			ids = append(ids, x.Submission.ID)
		}
		if page.To == after || page.To == e.Last() {
			return ids
		}
		after = page.To
	}
}

// Ends come in the order in which they became durable, each once, whatever the size of the pages.
func TestEndsComeInOrder(t *testing.T) {
	t.Parallel()
	s, e := ending(t)
	var ids []queue.SubmissionID
	for i := range 9 {
		n := &queue.NewSubmission{Chunks: queue.Chunks{Count: 2, Prefix: "p/"}}
		if i%3 == 0 {
			n.Meta = queue.Meta{{Key: "mode", Value: queue.StringValue("preview")}}
		}
		ids = append(ids, s.Insert(n))
	}
	start := e.Last()
	e.end(t, ids[4])
	e.end(t, ids[0], ids[8])
	e.end(t, ids[3])
	want := []queue.SubmissionID{ids[4], ids[0], ids[8], ids[3]}
	for limit := 1; limit < 6; limit++ {
		got := e.all(t, start, machine.Filter{}, limit)
		if len(got) != len(want) {
			t.Fatalf("pages of %d: %v, want %v", limit, got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("pages of %d: %v, want %v", limit, got, want)
			}
		}
	}
	preview := queue.Meta{{Key: "mode", Value: queue.StringValue("preview")}}
	if got := e.all(t, start, machine.Filter{Meta: preview}, 10); len(got) != 2 || got[0] != ids[0] || got[1] != ids[3] {
		t.Errorf("of the mode preview: %v, want %v and %v", got, ids[0], ids[3])
	}
}

// Ends wake a follower, several ends once, and no longer after it has left.
func TestFollowersAreWoken(t *testing.T) {
	t.Parallel()
	s, e := ending(t)
	wake, leave := e.Follow()
	for range 3 {
		e.end(t, s.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "p/"}}))
	}
	select {
	case <-wake:
	default:
		t.Fatal("not woken")
	}
	select {
	case <-wake:
		t.Fatal("woken once for each, though no one looked in between")
	default:
	}
	leave()
	e.end(t, s.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "p/"}}))
	select {
	case <-wake:
		t.Fatal("woken after leaving")
	default:
	}
}

// While the shard cannot work, no one is told of ends that may not last.
func TestEndsAreRefused(t *testing.T) {
	t.Parallel()
	s, e := ending(t)
	s.Refuse = &queue.Error{Code: queue.CodeUnavailable}
	if _, err := e.After(context.Background(), queue.EndPlace{}, machine.Filter{}, 10); queue.CodeOf(err) != queue.CodeUnavailable {
		t.Errorf("got %v, want unavailable", err)
	}
}
