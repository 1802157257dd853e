package deletions

import (
	"context"
	"errors"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
)

// script is a shell whose machine can delete, with a store that does as the test says.
type script struct {
	*shelltest.Shell
	*Deletions
	part   *Part
	erased []queue.SubmissionID
	broken error
}

func newScript(t *testing.T) *script {
	x := &script{Shell: shelltest.New(t)}
	x.join(x.Machine)
	x.Deletions = Face(shelltest.Door(x.Shell, x.part), Means{
		Get: func(_ context.Context, id queue.SubmissionID) (queue.Submission, error) {
			if r := x.Machine.Record(id); r != nil {
				return machine.Info(r, "q"), nil
			}
			return queue.Submission{}, queue.UnknownSubmission(id)
		},
		Erase: func(_ context.Context, id queue.SubmissionID) error {
			if x.broken == nil {
				x.erased = append(x.erased, id)
			}
			return x.broken
		},
	})
	return x
}

func (x *script) join(m *machine.Machine) {
	x.part = New(m)
	m.Joined.Parts, m.Joined.Rows = []machine.Part{x.part}, map[uint8]machine.Rows{machine.AsideDeletion: x.part}
}

// An open submission is refused, unless it is to be cancelled first; an unknown one is unknown.
func TestDelete(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	open := x.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 2, Prefix: "p/"}})
	if err := x.Delete(t.Context(), open, false); queue.CodeOf(err) != queue.CodeConflict || len(x.erased) != 0 {
		t.Fatalf("an open one: %v", err)
	}
	if err := x.Delete(t.Context(), 5, true); queue.CodeOf(err) != queue.CodeUnknownSubmission {
		t.Fatalf("an unknown one: %v", err)
	}
	if err := x.Delete(t.Context(), open, true, queue.Act{Action: "submission.delete"}); err != nil {
		t.Fatal(err)
	}
	if x.Machine.Live(open) != nil || len(x.erased) != 1 || len(x.part.Ordered()) != 0 || len(x.Machine.ActLog.Fresh) != 1 {
		t.Errorf("after it: open %t, erased %v, ordered %v, %d acts", x.Machine.Live(open) != nil, x.erased, x.part.Ordered(),
			len(x.Machine.ActLog.Fresh))
	}
	full := errors.New("no room")
	second := x.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 2, Prefix: "p/"}})
	x.Fail = full
	if err := x.Delete(t.Context(), second, true); !errors.Is(err, full) || x.Machine.Live(second) == nil || len(x.part.Ordered()) != 0 {
		t.Errorf("a commit that fails: %v, %v", err, x.part.Ordered())
	}
}

// Submissions that could not be deleted stay ordered, in a row and in the journal, up to a bound; the next round
// deletes them.
func TestOrders(t *testing.T) {
	t.Parallel()
	x := newScript(t)
	x.broken = errors.New("the disk is broken")
	var ids []queue.SubmissionID
	for range queue.MaxDeletions {
		ids = append(ids, x.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "p/"}}))
		if err := x.Delete(t.Context(), ids[len(ids)-1], true); !errors.Is(err, x.broken) {
			t.Fatal(err)
		}
	}
	one := x.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "p/"}})
	if err := x.Delete(t.Context(), one, true); queue.CodeOf(err) != queue.CodeOverloaded || x.Machine.Live(one) == nil {
		t.Fatalf("one too many: %v", err)
	}
	if err := x.Due(t.Context()); !errors.Is(err, x.broken) {
		t.Fatalf("while it is broken: %v", err)
	}
	row := x.part.Row(uint64(ids[0]))
	if other := New(x.Machine); other.Load(uint64(ids[0]), row) != nil || len(other.Ordered()) != 1 || other.Load(7, []byte{9}) == nil {
		t.Errorf("its row is %v", row)
	}
	x.broken = nil
	if err := x.Due(t.Context()); err != nil || len(x.erased) != len(ids) || len(x.part.Ordered()) != 0 || x.part.Row(uint64(ids[0])) != nil {
		t.Errorf("afterwards: %v, %d erased, %d ordered", err, len(x.erased), len(x.part.Ordered()))
	}
}
