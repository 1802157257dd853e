package recount

import (
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
)

// recounting is a shell whose machine has n submissions of three chunks, and its recounts.
func recounting(t *testing.T, n int, every time.Duration) (*shelltest.Shell, *Recounts) {
	s := shelltest.New(t)
	r := Face(shelltest.Door(s, New(s.Machine, nil)), every)
	for range n {
		s.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 3, Prefix: "p/"}})
	}
	return s, r
}

// round makes slices until a round is over.
func (r *Recounts) round(t *testing.T) {
	t.Helper()
	for range 1000 {
		over, err := r.Step(7)
		if err != nil {
			t.Fatal(err)
		}
		if over {
			return
		}
	}
	t.Fatal("the round does not end")
}

// A wrong total is a suspicion in the first round, and a drift that is corrected in the second; right totals are
// compared, and stay.
func TestDriftIsCorrected(t *testing.T) {
	t.Parallel()
	s, r := recounting(t, 40, time.Hour)
	if r.round(t); r.Drifted() != 0 || r.Checked[OfSubmission] != 40 || r.Checked[OfQueue] == 0 {
		t.Fatalf("all is right: %+v", r.State)
	}
	s.Machine.Stats.Dead += 5
	if r.round(t); r.Suspected != 1 || r.Drifted() != 0 {
		t.Fatalf("first round: %d suspected, %d drifts; want a suspicion only", r.Suspected, r.Drifted())
	}
	if r.round(t); r.Drifted() != 1 || s.Machine.Stats.Dead != 0 || s.Woken == 0 {
		t.Fatalf("second round: %d drifts, dead %d, woken %d times", r.Drifted(), s.Machine.Stats.Dead, s.Woken)
	}
	if d := r.Newest; d == nil || d.Kept != 5 || d.Found != 0 || !d.Corrected || d.At != s.Clock {
		t.Errorf("the drift: %+v", d)
	}
}

// A submission does not end while a counter of its own is wrong. The recount that corrects the counter ends it.
func TestCorrectedSubmissionEnds(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(m *machine.Machine, r *machine.Record){
		"available": func(m *machine.Machine, r *machine.Record) { m.Backlog.SetAvailable(r.Sub, r.Sub.Available()+1) },
		"done":      func(_ *machine.Machine, r *machine.Record) { r.Done-- },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, r := recounting(t, 1, time.Hour)
			m := s.Machine
			of := m.LiveSeq(m.NextSeq)
			damage(m, of)
			for index := range of.Chunks {
				if err := m.ApplyComplete(journal.Completed{Seq: of.Seq, Index: index}); err != nil {
					t.Fatal(err)
				}
			}
			if of.State != queue.Open {
				t.Fatal("it ended although a counter is wrong")
			}
			r.round(t)
			if of.State != queue.Completed {
				t.Errorf("after a recount, with %d drifts, it is %v", r.Drifted(), of.State)
			}
		})
	}
}

// Rounds keep their pace: the first begins a minute after the start, each takes as long as the time between two, and none is made while
// the shard cannot work.
func TestRoundsKeepTheirPace(t *testing.T) {
	t.Parallel()
	s, r := recounting(t, 5*SliceMost, time.Hour)
	r.RunDue()
	if r.Far().Progress != 0 {
		t.Fatal("a round began with the start")
	}
	s.Clock = s.Clock.Add(First)
	r.RunDue()
	begun := r.Far().Progress
	if begun <= 0 || begun > 0.5 {
		t.Fatalf("progress %.2f after the first minute, want that of a few slices", begun)
	}
	r.RunDue()
	if now := r.Far().Progress; now != begun {
		t.Errorf("progress went from %.2f to %.2f in no time", begun, now)
	}
	s.Refuse = &queue.Error{Code: queue.CodeUnavailable}
	s.Clock = s.Clock.Add(2 * time.Hour)
	if r.RunDue(); r.Far().Progress != begun {
		t.Error("slices were made while the shard could not work")
	}
	s.Refuse = nil
	for range 10 {
		r.RunDue()
	}
	if r.Rounds != 1 || r.Last != s.Clock {
		t.Errorf("%d rounds, the last at %d; want one, at %d", r.Rounds, r.Last, s.Clock)
	}
}

// A recount that panics ends recounts until the next start, and has the shard reload.
func TestPanicEndsRecounts(t *testing.T) {
	t.Parallel()
	s, r := recounting(t, 3, time.Hour)
	r.Part().m = nil // the next slice panics
	if _, err := r.Step(100); err == nil {
		t.Fatal("a recount that broke off has no error")
	}
	if !r.Stopped || s.Broken == nil {
		t.Fatalf("stopped %t, broken %v", r.Stopped, s.Broken)
	}
	s.Clock = s.Clock.Add(48 * time.Hour)
	if r.RunDue(); r.Far().Progress != 0 {
		t.Error("a round was begun after one broke off")
	}
}
