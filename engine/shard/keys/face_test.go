package keys

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
)

type keyed struct {
	*shelltest.Shell
	keys *Keys
}

func keyedShell(t *testing.T) keyed {
	s := shelltest.New(t)
	get := func(_ context.Context, id queue.SubmissionID) (sub queue.Submission, err error) {
		s.Look(func(m *machine.Machine) { sub = machine.Info(m.Record(id), "q") })
		return sub, nil
	}
	return keyed{s, New(s, get, func(write func() error) error { return write() })}
}

// insert inserts with a key as a shard does, and returns the commit; nil: the key was already used.
func (x keyed) insert(n *queue.NewSubmission) (id queue.SubmissionID, c *commit.Commit, err error) {
	key := Of(n)
	err = x.keys.Decide(context.Background(), []*Key{key}, func(m *machine.Machine, since queue.Time) error {
		if entry := x.keys.Find(m, key, since); entry != nil {
			id = entry.ID
			return entry.Repeatable(n)
		}
		if err := x.keys.Room(m); err != nil {
			return err
		}
		now := since.Add(queue.IdempotencyWindow)
		op := m.Draw(n, now)
		entry := x.keys.Claim(m, key, n, op, now)
		m.Insert(op, nil, now)
		entry.Commit = m.Batch.Commit
		m.Batch.Intend(entry)
		close(entry.Published.Done)
		id, c = op.ID, m.Batch.Commit
		return nil
	})
	return id, c, err
}

func with(key string) *queue.NewSubmission {
	return &queue.NewSubmission{IdempotencyKey: key, Chunks: queue.Chunks{Count: 1, Prefix: "p/"}}
}

// A key gives the submission of its first use: from memory, from the store behind a checkpoint, and not after its window.
func TestKeyGivesTheFirstSubmission(t *testing.T) {
	t.Parallel()
	ctx, x := context.Background(), keyedShell(t)
	first, c, err := x.insert(with("a"))
	if err != nil || x.Wait(commit.Set{First: c}) != nil {
		t.Fatal(err)
	}
	again := func() {
		t.Helper()
		if sub, known, err := x.keys.Repeated(ctx, with("a")); err != nil || !known || sub.ID != first {
			t.Fatalf("got %s %t %v, want %s", sub.ID, known, err, first)
		}
	}
	again()
	var fresh []*machine.Keyed
	x.Look(func(m *machine.Machine) { fresh = m.Keys.Fresh() })
	if err := x.keys.Checkpoint(ctx, x.Machine, fresh); err != nil || x.Machine.Keys.Len() != 0 {
		t.Fatalf("%v, and memory has %d keys behind a checkpoint", err, x.Machine.Keys.Len())
	}
	again()
	if _, known, err := x.keys.Repeated(ctx, with("b")); known || err != nil {
		t.Errorf("a key that no one used: %t %v", known, err)
	}
	x.Clock = x.Clock.Add(queue.IdempotencyWindow + 2*time.Millisecond)
	if _, known, err := x.keys.Repeated(ctx, with("a")); known || err != nil {
		t.Errorf("after the window: %t %v", known, err)
	}
}

// Another request under a used key is refused, and so is everything while the shard cannot work.
func TestKeyOfAnotherRequest(t *testing.T) {
	t.Parallel()
	x := keyedShell(t)
	one, other := with("a"), with("a")
	one.Fingerprint, other.Fingerprint = [16]byte{1}, [16]byte{2}
	_, c, err := x.insert(one)
	if err != nil || x.Wait(commit.Set{First: c}) != nil {
		t.Fatal(err)
	}
	if _, _, err := x.insert(other); queue.CodeOf(err) != queue.CodeIdempotencyReuse {
		t.Errorf("another request: %v", err)
	}
	x.Refuse = &queue.Error{Code: queue.CodeUnavailable}
	if _, known, err := x.keys.Repeated(context.Background(), one); !known || queue.CodeOf(err) != queue.CodeUnavailable {
		t.Errorf("while the shard cannot work: known %t, %v; want that it cannot be told", known, err)
	}
}

// A key whose insert failed is free again, and calls that waited for that insert have to ask again.
func TestFailedInsertFreesItsKey(t *testing.T) {
	t.Parallel()
	ctx, x := context.Background(), keyedShell(t)
	_, c, err := x.insert(with("a"))
	if err != nil {
		t.Fatal(err)
	}
	var entry *machine.Keyed
	x.Look(func(m *machine.Machine) { entry = m.Keys.Find(Of(with("a")).hash, 0) })
	x.Fail = errors.New("no")
	if x.Wait(commit.Set{First: c}) == nil {
		t.Fatal("the commit came through")
	}
	if _, err := x.keys.Repeat(ctx, entry.ID, &entry.Fate); err == nil {
		t.Error("a repeat of an insert that failed has an answer")
	}
	if _, c, err := x.insert(with("a")); err != nil || c == nil {
		t.Errorf("the key is not free: %v", err)
	}
}
