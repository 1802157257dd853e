package retention

import (
	"errors"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/deadletters"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// One submission goes, whatever its age: an open one with its chunks, an ended one with its dead letters. Others stay.
func TestErase(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	open := x.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 2, Prefix: "p/"}})
	ended, other, dead := x.cancelled(), x.cancelled(), x.died(3)
	for _, id := range []queue.SubmissionID{open, ended, dead, 5} {
		for range 2 { // the second time nothing is there
			if err := x.Erase(t.Context(), id); err != nil {
				t.Fatalf("%d: %v", id, err)
			}
			if x.Machine.Live(id) != nil {
				t.Fatalf("%d is open", id)
			}
			if _, found, err := x.Store().History.Ended(t.Context(), id); found || err != nil {
				t.Fatalf("%d is in the history: %t, %v", id, found, err)
			}
		}
	}
	if _, found, err := x.Store().History.Ended(t.Context(), other); !found || err != nil {
		t.Fatalf("another one: %t, %v", found, err)
	}
	if x.Machine.Stats.EndedLetters != 0 || len(x.letters.Holders()) != 0 {
		t.Errorf("%d dead letters are left, of %v", x.Machine.Stats.EndedLetters, x.letters.Holders())
	}
}

// A forwarded chunk that another queue still needs stays, and goes once it has arrived there.
func TestEraseWaitsForForwardedChunks(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	id := x.died(1)
	if _, err := x.Letters.(*deadletters.Letters).Forward(t.Context(), id, []uint32{0}, "other"); err != nil {
		t.Fatal(err)
	}
	if err := x.Erase(t.Context(), id); queue.CodeOf(err) != queue.CodeUnavailable {
		t.Fatalf("while its chunk is under way: %v", err)
	}
	var numbers []uint64
	for i := range x.letters.Outbox.List {
		numbers = append(numbers, x.letters.Outbox.List[i].Number)
	}
	forwarding := deadletters.FaceForwarding(x.letterDoor(), 1, x.Book, deadletters.Intake{})
	if err := forwarding.Delivered(numbers); err != nil {
		t.Fatal(err)
	}
	if err := x.Erase(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

// A failed commit leaves the submission as it is.
func TestEraseThatFails(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	open := x.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 2, Prefix: "p/"}})
	broken := errors.New("no room")
	x.Fail = broken
	if err := x.Erase(t.Context(), open); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if x.Look(func(m *machine.Machine) {
		if m.Live(open) == nil {
			t.Error("it has ended")
		}
	}); x.Erase(t.Context(), open) != nil {
		t.Error("it cannot be erased afterwards")
	}
}
