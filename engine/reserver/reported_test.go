package reserver

import (
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// A consumer's report on a chunk stays until its reservation goes. A field that a later report leaves out stays as it was. The next
// reservation in its place begins with nothing.
func TestReportGoesWithItsReservation(t *testing.T) {
	t.Parallel()
	r, list := filled(2)
	slot, _ := r.Find(1, 0)
	r.Report(slot, queue.Reported{})
	if r.reported.of != nil {
		t.Error("nothing was said, and something is kept")
	}
	for _, step := range []struct{ says, want queue.Reported }{
		{queue.Reported{Progress: 0.4, HasProgress: true}, queue.Reported{Progress: 0.4, HasProgress: true}},
		{queue.Reported{Note: "page 3"}, queue.Reported{Progress: 0.4, HasProgress: true, Note: "page 3"}},
		{queue.Reported{Progress: 0, HasProgress: true}, queue.Reported{HasProgress: true, Note: "page 3"}},
		{queue.Reported{}, queue.Reported{HasProgress: true, Note: "page 3"}},
		{queue.Reported{Note: "4"}, queue.Reported{HasProgress: true, Note: "4"}},
	} {
		if r.Report(slot, step.says); r.Reported(r.At(slot)) != step.want {
			t.Errorf("after %+v: %+v, want %+v", step.says, r.Reported(r.At(slot)), step.want)
		}
	}
	if other, _ := r.Find(1, 1); !r.Reported(r.At(other)).Empty() {
		t.Errorf("another chunk has %+v", r.Reported(r.At(other)))
	}
	if want := reportedBytes + len("4"); r.reported.bytes != want {
		t.Errorf("it counts %d bytes, want %d", r.reported.bytes, want)
	}
	r.Remove(list, slot)
	again := r.Add(list, Hold{Sequence: r.NextSequence(), Seq: 2}, "c")
	if again != slot || !r.Reported(r.At(again)).Empty() {
		t.Errorf("the next reservation, in place %d of %d, begins with %+v", again, slot, r.Reported(r.At(again)))
	}
	if len(r.reported.of) != 0 || r.reported.bytes != 0 {
		t.Errorf("%d are left, of %d bytes", len(r.reported.of), r.reported.bytes)
	}
}

// There is a bound in bytes. A report that does not fit is not kept, the ones that are there stay, and room that comes back is used.
func TestReportsAreBounded(t *testing.T) {
	t.Parallel()
	const count = MaxReportedBytes/(reportedBytes+queue.MaxNoteBytes) + 10
	r, list := filled(count)
	says := queue.Reported{Note: strings.Repeat("n", queue.MaxNoteBytes)}
	var refused []uint32
	for i := range uint32(count) {
		slot, _ := r.Find(1, i)
		if r.Report(slot, says); r.Reported(r.At(slot)).Empty() {
			refused = append(refused, slot)
		}
		if r.reported.bytes > MaxReportedBytes {
			t.Fatalf("after %d: %d bytes; at most %d are allowed", i+1, r.reported.bytes, MaxReportedBytes)
		}
	}
	if len(refused) != 10 {
		t.Fatalf("%d of %d were not kept, want 10", len(refused), count)
	}
	if r.Unreported != 10 {
		t.Errorf("%d are counted as not kept, want 10", r.Unreported)
	}
	first, _ := r.Find(1, 0)
	r.Remove(list, first)
	if r.Report(refused[0], says); r.Reported(r.At(refused[0])) != says {
		t.Errorf("with room again: %+v", r.Reported(r.At(refused[0])))
	}
}
