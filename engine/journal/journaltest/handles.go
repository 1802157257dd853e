package journaltest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
)

// exerciseHandles runs the parts in which a journal has several handles, or its medium fails.
func exerciseHandles(t *testing.T, m Medium) {
	for _, part := range []struct {
		name string
		run  func(*testing.T, *handles)
	}{
		{"a writer that was overtaken is refused for good", overtaken},
		{"a journal that was taken back and has grown again refuses its old writer", rewound},
		{"of many writers with handles of their own one wins each position", contend},
		{"a handle reads while another appends", readAlong},
		{"an append of which the outcome is unknown is made once", unknown},
		{"a context that ends during an append leaves its outcome unknown", endedBetween},
		{"a context that ends during a read ends it", endedReading},
		{"who waits is told when there is more", waiting},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.run(t, &handles{t: t, m: m, dir: t.TempDir()})
		})
	}
}

// handles makes handles of one journal. Several handles of one journal are several nodes of a cluster, or one node
// that was stopped for a while and goes on without knowing that another took its queue over.
type handles struct {
	t   *testing.T
	m   Medium
	dir string
}

func (h *handles) one() *subject {
	s := &subject{t: h.t, dir: h.dir, Journal: h.m.Beside(h.t, h.dir)}
	h.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			h.t.Errorf("Close: %v", err)
		}
	})
	return s
}

// wantConflict expects that an append is refused for certain.
// A refusal has to be certain: ErrConflict means "not written", and the caller rolls back because of it.
func (s *subject) wantConflict(expect journal.Position) {
	s.t.Helper()
	if pos, err := s.Append(context.Background(), expect, []byte("intruder")); !errors.Is(err, journal.ErrConflict) {
		s.t.Fatalf("Append(expect %d) = %d, %v; want ErrConflict", expect, pos, err)
	}
}

// overtaken asks with the old tail, a smaller one and the new one. A writer that guesses the new tail right is
// refused as well: it has not read the batch that came in between.
func overtaken(_ *testing.T, h *handles) {
	old := h.one()
	old.fill(3)
	next := h.one()
	next.append(3, batch(4))
	for _, expect := range []journal.Position{3, 3, 4, 2} {
		old.wantConflict(expect)
	}
	next.append(4, batch(5))
	old.wantConflict(3)
	old.wantTail(5)
	next.wantRange(0, 5)
}

// rewound is a restore from a copy that lacks the last batches. The positions come again with other contents, so
// numbers alone do not protect: the journal also remembers its last batch.
func rewound(t *testing.T, h *handles) {
	old := h.one()
	old.fill(4)
	h.m.Rewind(t, h.dir, 2)
	next := h.one()
	next.wantTail(2)
	next.append(2, "another third")
	next.append(3, "another fourth")
	for range 2 {
		old.wantConflict(4) // the position would fit
	}
	err := old.Read(context.Background(), 0, func(journal.Position, []byte) error { return nil })
	if !errors.Is(err, journal.ErrConflict) {
		t.Errorf("Read of what has taken the place of known batches = %v; want ErrConflict", err)
	}
	next.append(4, batch(5))
	next.wantTail(5)
	next.wantRange(4, 5)
}

// contend: for each position one of the writers wins. One that lost opens the journal again, as a node does that lost
// its queue. The tail may be a little above the last round, because each writer looks before it appends.
func contend(t *testing.T, h *handles) {
	const writers, rounds = 3, 20
	h.one() // makes the file
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for s := h.one(); ; {
				tail, err := s.Tail(context.Background())
				if err != nil {
					t.Errorf("Tail: %v", err)
					return
				}
				if tail >= rounds {
					return
				}
				switch _, err := s.Append(context.Background(), tail, []byte(batch(int(tail)+1))); {
				case errors.Is(err, journal.ErrConflict):
					s = h.one()
				case err != nil:
					t.Errorf("Append(expect %d): %v", tail, err)
					return
				}
			}
		})
	}
	all.Wait()
	s := h.one()
	tail, err := s.Tail(context.Background())
	if err != nil || tail < rounds || tail >= rounds+writers {
		t.Errorf("Tail = %d, %v; want %d, or a little more", tail, err, rounds)
	}
	s.wantRange(0, tail)
}

// readAlong: a node that reads while the owner appends is one that is about to take over.
func readAlong(t *testing.T, h *handles) {
	writer, reader := h.one(), h.one()
	writer.fill(3)
	seen := journal.Position(0)
	err := reader.Read(context.Background(), 0, func(pos journal.Position, b []byte) error {
		if seen++; pos != seen || string(b) != batch(int(pos)) {
			return fmt.Errorf("got batch %d %.60q, want %d", pos, b, seen)
		}
		if pos <= 10 {
			writer.append(pos+2, batch(int(pos)+3))
		}
		return nil
	})
	if err != nil || seen < 3 {
		t.Errorf("Read gave %d batches, %v; want 3 or more", seen, err)
	}
	tail := min(seen, 10) + 3
	reader.wantRange(seen, tail)
	reader.append(tail, batch(int(tail)+1)) // it knows them all now
	writer.wantConflict(tail)
}

// unknown repeats each case with one to three lost answers, and appends once more afterwards: a retry that was
// written twice would shift that one.
func unknown(t *testing.T, h *handles) {
	s := h.one()
	tail := journal.Position(0)
	for _, outcome := range []Outcome{Lost, Written, Late} {
		for tries := range 3 {
			h.m.Fail(s.Journal, outcome, tries+1, nil)
			s.append(tail, batch(int(tail)+1))
			tail++
			s.append(tail, batch(int(tail)+1))
			tail++
			if s.wantTail(tail); t.Failed() {
				t.Fatalf("%d tries were %v", tries+1, outcome)
			}
		}
	}
	s.wantRange(0, tail)
	h.one().wantRange(0, tail)
}

// endedBetween: the answer was lost and there is no time to ask again. The caller hears that the outcome is
// unknown, and finds it with Tail.
func endedBetween(t *testing.T, h *handles) {
	for _, outcome := range []Outcome{Lost, Written} {
		s := (&handles{t: t, m: h.m, dir: t.TempDir()}).one()
		s.fill(2)
		ctx, cancel := context.WithCancel(context.Background())
		h.m.Fail(s.Journal, outcome, 1, cancel)
		if _, err := s.Append(ctx, 2, []byte(batch(3))); !errors.Is(err, journal.ErrUnknown) ||
			!errors.Is(err, context.Canceled) {
			t.Fatalf("%v: Append = %v; want ErrUnknown, as its context ended", outcome, err)
		}
		want := journal.Position(2)
		if outcome == Written {
			want = 3
			s.wantConflict(2)
		}
		s.wantTail(want)
		s.append(want, batch(int(want)+1))
		s.wantRange(0, want+1)
	}
}

func endedReading(t *testing.T, h *handles) {
	s := h.one()
	s.fill(1000)
	ctx, cancel := context.WithCancel(context.Background())
	seen := 0
	err := s.Read(ctx, 0, func(journal.Position, []byte) error {
		seen++
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || seen == 1000 {
		t.Errorf("Read = %v after %d batches; want that its context ended before it had all 1000", err, seen)
	}
}

// waiting covers both sides: a handle hears of its own appends and of those of another handle.
func waiting(t *testing.T, h *handles) {
	writer, other := h.one(), h.one()
	writer.fill(2)
	for _, s := range []*subject{writer, other} {
		if err := s.Wait(context.Background(), 1); err != nil {
			t.Errorf("Wait(1) with two batches = %v", err)
		}
	}
	waited := make(chan error, 2)
	for _, s := range []*subject{writer, other} {
		go func() { waited <- s.Wait(context.Background(), 2) }()
	}
	writer.append(2, batch(3))
	for range 2 {
		if err := <-waited; err != nil {
			t.Errorf("Wait(2) with an append meanwhile = %v", err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { waited <- other.Wait(ctx, 3) }()
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Errorf("Wait(3) = %v; want that its context ended", err)
	}
}
