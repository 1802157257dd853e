package shard

import (
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
)

// A submission that waits for another one is itself about to end when that one ends: its wait is not concluded, and
// none of its chunks is offered, until its own end is known. If its own end fails, the wait goes on.
func TestAfterBesideAnEndUnderWay(t *testing.T) {
	t.Parallel()
	for _, unmet := range []bool{true, false} {
		for _, fails := range []bool{true, false} {
			s := shelltest.New(t)
			m := s.Machine
			chunk := queue.Chunks{Count: 1, Prefix: "x"}
			first := s.Insert(&queue.NewSubmission{Chunks: chunk})
			second := s.Insert(&queue.NewSubmission{Chunks: chunk, After: &queue.After{IDs: []queue.SubmissionID{first}, Ended: !unmet}})
			change := func(fn func(now queue.Time)) error {
				return shell.Change(s, func(_ *machine.Machine, now queue.Time) error { fn(now); return nil })
			}
			step := func(now queue.Time) {
				m.Step(machine.KindAfter, now, 10, nil, nil)
				m.Step(machine.KindRunAt, now, 10, nil, nil)
			}
			if err := change(func(now queue.Time) { m.EndSubmission(m.Live(first), queue.Cancelled, "", now) }); err != nil {
				t.Fatal(err)
			}
			if fails {
				s.Fail = &queue.Error{Code: queue.CodeDiskFull}
			}
			err := change(func(now queue.Time) {
				m.EndSubmission(m.Live(second), queue.Cancelled, "by hand", now)
				ops := m.Batch.Ops()
				if step(now); m.Batch.Ops() != ops {
					t.Error("something was written of a submission that is about to end")
				}
			})
			if (err != nil) != fails {
				t.Fatal(err)
			}
			for range 3 {
				s.Clock = s.Clock.Add(1000)
				if err := change(step); err != nil {
					t.Fatal(err)
				}
			}
			r := m.Record(second)
			want := queue.Cancelled
			if fails && !unmet {
				want = queue.Open
			}
			if r.State != want || want == queue.Open && r.Parked {
				t.Errorf("unmet %v, failed %v: it is %s, hidden %v", unmet, fails, r.State, r.Parked)
			}
		}
	}
}

// A wait that is over while the submission is about to end does not offer it: the end follows.
func TestAfterDoesNotOfferWhatEnds(t *testing.T) {
	t.Parallel()
	s := shelltest.New(t)
	m := s.Machine
	chunk := queue.Chunks{Count: 1, Prefix: "x"}
	first := s.Insert(&queue.NewSubmission{Chunks: chunk})
	second := s.Insert(&queue.NewSubmission{Chunks: chunk, After: &queue.After{IDs: []queue.SubmissionID{first}, Ended: true}})
	if err := shell.Change(s, func(_ *machine.Machine, now queue.Time) error {
		m.EndSubmission(m.Live(first), queue.Cancelled, "", now)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := shell.Change(s, func(_ *machine.Machine, now queue.Time) error {
		m.Step(machine.KindAfter, now, 10, nil, nil)
		s.Seal()
		m.EndSubmission(m.Live(second), queue.Cancelled, "", now) // in the batch behind
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if r := m.Record(second); r.State != queue.Cancelled || !r.Parked {
		t.Errorf("it is %s, hidden %v", r.State, r.Parked)
	}
}

// An end that comes while the first slice of dead letters of a submission is on its way to the disk is not forgotten:
// if the slice fails, the submission that waited still gets the end.
func TestAfterBesideAFirstSliceThatFails(t *testing.T) {
	t.Parallel()
	s := shelltest.New(t)
	m := s.Machine
	m.Settings.OnDeadline = queue.DeadLetterThem
	chunk := queue.Chunks{Count: 1, Prefix: "x"}
	first := s.Insert(&queue.NewSubmission{Chunks: chunk})
	second := s.Insert(&queue.NewSubmission{Chunks: chunk, After: &queue.After{IDs: []queue.SubmissionID{first}},
		DeadDeadline: s.Clock.Add(time.Minute)})
	change := func(fn func(now queue.Time)) error {
		return shell.Change(s, func(_ *machine.Machine, now queue.Time) error { fn(now); return nil })
	}
	after := func(now queue.Time) { m.Step(machine.KindAfter, now, 10, nil, nil) }
	if err := change(func(now queue.Time) { m.EndSubmission(m.Live(first), queue.Cancelled, "", now) }); err != nil {
		t.Fatal(err)
	}
	s.Clock, s.Fail = s.Clock.Add(time.Minute), &queue.Error{Code: queue.CodeDiskFull}
	if err := change(func(now queue.Time) {
		m.Step(machine.KindDeadDeadline, now, 10, nil, nil)
		after(now)
	}); err == nil {
		t.Fatal("the slice did not fail")
	}
	if err := change(after); err != nil {
		t.Fatal(err)
	}
	if r := m.Record(second); r.State != queue.Cancelled {
		t.Errorf("it is %s, want cancelled", r.State)
	}
}
