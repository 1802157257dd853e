// Package journaltest is the conformance suite of journal.Journal. Every implementation must pass it, as the engine
// relies on what it checks.
package journaltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// Medium stores the journals of an implementation, each in a directory. The suite knows nothing of files: a Medium
// makes journals, takes batches away from them, and makes appends fail. So the same statements hold of the journal in
// SQLite and of the one in PostgreSQL.
type Medium struct {
	// Open makes a journal: an empty one the first time, the same one after a Close.
	Open func(t *testing.T, dir string) journal.Journal
	// Beside is Open for a journal with several open handles, all made with Beside.
	Beside func(t *testing.T, dir string) journal.Journal
	// Rewind takes the last batches from a journal, so that it ends at `to`: a copy that
	// takes its place may lack them. Its handles do not know.
	Rewind func(t *testing.T, dir string, to journal.Position)
	// Fail makes this many tries of the next appends of a handle end with an outcome that the handle does not learn.
	// It calls made within each, if that is not nil.
	Fail func(j journal.Journal, o Outcome, tries int, made func())
}

// Outcome is the true result of an append attempt that got no answer.
//
// A writer that gets no answer cannot tell these apart, and must be right in all three. Late is the
// hardest: its own first try takes the place of the second, and must be recognised as its own.
type Outcome uint8

const (
	Lost    Outcome = iota // it was not written, and never will be
	Written                // it was written
	Late                   // it is written when the next try is made, before that
)

func (o Outcome) String() string { return [...]string{"lost", "written", "late"}[o] }

// Exercise runs the suite, each part on a journal of its own.
func Exercise(t *testing.T, m Medium) {
	for _, part := range []struct {
		name string
		run  func(*testing.T, *subject)
	}{
		{"an empty journal reads as nothing", empty},
		{"batches come back in order and byte for byte", roundTrip},
		{"a reopened journal goes on where it ended", reopen},
		{"an append that expects another tail is refused", conflict},
		{"of many writers that expect the same tail one wins", race},
		{"trimmed batches cannot be read, the others can", trim},
		{"a trim does not move the tail, not even of everything", trimAll},
		{"a trim is reclaimed while batches are appended", trimLazily},
		{"what a reader holds is not trimmed before it lets go", hold},
		{"the error of the reader ends the reading", readerError},
		{"a reader may append and trim", readerWrites},
		{"durability can be changed at any time", durability},
		{"a context that has ended does nothing", ended},
		{"a caller may use its buffer again", buffer},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			s := &subject{t: t, open: m.Open, dir: t.TempDir()}
			s.Journal = m.Open(t, s.dir)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			part.run(t, s)
		})
	}
	exerciseHandles(t, m)
}

// subject is a journal with the helpers that all parts use.
type subject struct {
	journal.Journal
	t    *testing.T
	open func(t *testing.T, dir string) journal.Journal
	dir  string
}

func (s *subject) reopen() {
	s.t.Helper()
	if err := s.Close(); err != nil {
		s.t.Fatalf("Close: %v", err)
	}
	s.Journal = s.open(s.t, s.dir)
}

func (s *subject) append(expect journal.Position, batch string) {
	s.t.Helper()
	pos, err := s.Append(context.Background(), expect, []byte(batch))
	if err != nil || pos != expect+1 {
		s.t.Fatalf("Append(expect %d, %q) = %d, %v; want %d", expect, batch, pos, err, expect+1)
	}
}

// fill appends the batches batch(1) to batch(n) to an empty journal.
func (s *subject) fill(n int) {
	s.t.Helper()
	for i := range n {
		s.append(journal.Position(i), batch(i+1))
	}
}

func (s *subject) trim(upTo journal.Position) {
	s.t.Helper()
	if err := s.Trim(context.Background(), upTo); err != nil {
		s.t.Fatalf("Trim(%d): %v", upTo, err)
	}
}

func (s *subject) wantTail(want journal.Position) {
	s.t.Helper()
	if got, err := s.Tail(context.Background()); err != nil || got != want {
		s.t.Fatalf("Tail() = %d, %v; want %d", got, err, want)
	}
}

// wantRange reads behind `after` and expects batch(after+1) to batch(last).
func (s *subject) wantRange(after, last journal.Position) {
	s.t.Helper()
	next := after + 1
	err := s.Read(context.Background(), after, func(pos journal.Position, b []byte) error {
		if pos != next || string(b) != batch(int(next)) {
			return fmt.Errorf("got batch %d %.60q, want %d %.60q", pos, b, next, batch(int(next)))
		}
		next++
		return nil
	})
	if err != nil || next != last+1 {
		s.t.Fatalf("Read(after %d): %v, ended before batch %d; want all up to %d", after, err, next, last)
	}
}

func (s *subject) wantTrimmed(after journal.Position) {
	s.t.Helper()
	err := s.Read(context.Background(), after, func(pos journal.Position, _ []byte) error {
		return fmt.Errorf("read batch %d", pos)
	})
	if !errors.Is(err, journal.ErrTrimmed) {
		s.t.Fatalf("Read(after %d): %v; want ErrTrimmed", after, err)
	}
}

// batch is the content of the n-th batch; its size varies, from one byte up.
func batch(n int) string {
	return fmt.Sprintf("%d:%s", n, bytes.Repeat([]byte{byte(n)}, n*n%5000))
}

// empty also trims behind the end: that must not move the tail, else the first append would be refused.
func empty(_ *testing.T, s *subject) {
	s.wantTail(0)
	s.wantRange(0, 0)
	s.trim(7)
	s.wantTail(0)
	s.wantRange(0, 0)
	s.reopen()
	s.wantTail(0)
	s.append(0, batch(1))
	s.wantRange(0, 1)
}

// roundTrip has the sizes at which encodings break: nothing, one byte, every value of a byte, more than a page of
// the database, and 2 MiB. The largest allowed is refused one byte above it, before anything is written.
func roundTrip(t *testing.T, s *subject) {
	all := []byte{}
	for i := range 256 {
		all = append(all, byte(i))
	}
	want := [][]byte{{}, {0}, all, bytes.Repeat(all, 40), bytes.Repeat(all, 1<<13), {}, []byte("last")}
	for i, b := range want {
		s.append(journal.Position(i), string(b))
	}
	if _, err := s.Append(context.Background(), journal.Position(len(want)), nil); err != nil {
		t.Fatalf("Append of a nil batch: %v; it is an empty batch", err)
	}
	want = append(want, nil)
	for range 2 {
		var got [][]byte
		err := s.Read(context.Background(), 0, func(pos journal.Position, b []byte) error {
			if int(pos) != len(got)+1 {
				return fmt.Errorf("position %d after %d batches", pos, len(got))
			}
			got = append(got, slices.Clone(b))
			return nil
		})
		if err != nil || !slices.EqualFunc(got, want, bytes.Equal) {
			t.Fatalf("Read gave %d batches, %v; want the %d that were appended, unchanged", len(got), err, len(want))
		}
		s.reopen()
	}
	if got := s.Size(); got < 1<<21 {
		t.Errorf("Size() = %d with a batch of 2 MiB inside", got)
	}
	tooLarge := make([]byte, journal.MaxBatchBytes+1)
	if _, err := s.Append(context.Background(), journal.Position(len(want)), tooLarge); err == nil {
		t.Error("Append took a batch over MaxBatchBytes")
	}
	s.wantTail(journal.Position(len(want)))
}

func reopen(_ *testing.T, s *subject) {
	for i := range 20 {
		s.append(journal.Position(i), batch(i+1))
		if i%4 == 3 {
			s.reopen()
			s.wantTail(journal.Position(i + 1))
		}
	}
	s.wantRange(0, 20)
	s.wantRange(13, 20)
	s.wantRange(20, 20)
}

// conflict expects positions before and behind the tail. A writer that is behind lost its queue; one that is ahead
// is of another journal. Both must learn it from the append itself.
func conflict(t *testing.T, s *subject) {
	s.fill(3)
	for _, expect := range []journal.Position{0, 1, 2, 4, 1 << 40} {
		pos, err := s.Append(context.Background(), expect, []byte("intruder"))
		if !errors.Is(err, journal.ErrConflict) {
			t.Errorf("Append(expect %d) with the tail at 3 = %d, %v; want ErrConflict", expect, pos, err)
		}
	}
	s.wantTail(3)
	s.wantRange(0, 3)
	s.append(3, batch(4))
	s.wantRange(0, 4)
}

// race is the fence of a queue: two nodes may both believe that they serve it, and the journal decides for each
// position.
func race(t *testing.T, s *subject) {
	const writers, rounds = 4, 25
	var (
		wins [writers]int
		all  sync.WaitGroup
	)
	for w := range writers {
		all.Go(func() {
			for tail := journal.Position(0); tail < rounds; {
				_, err := s.Append(context.Background(), tail, []byte(batch(int(tail)+1)))
				switch {
				case err == nil:
					wins[w]++
					tail++
				case errors.Is(err, journal.ErrConflict):
					if tail, err = s.Tail(context.Background()); err != nil {
						t.Errorf("Tail: %v", err)
						return
					}
				default:
					t.Errorf("Append(expect %d): %v", tail, err)
					return
				}
			}
		})
	}
	all.Wait()
	sum := 0
	for _, n := range wins {
		sum += n
	}
	if sum != rounds {
		t.Errorf("%v appends succeeded, %d in all; want %d, one per position", wins, sum, rounds)
	}
	s.wantRange(0, rounds)
}

// trim is asked again with a smaller position, as by a checkpoint that is repeated after a crash: it must not bring
// batches back.
func trim(_ *testing.T, s *subject) {
	s.fill(10)
	s.trim(0)
	s.wantRange(0, 10)
	s.trim(4)
	s.wantTrimmed(0)
	s.wantTrimmed(3)
	s.wantRange(4, 10)
	s.trim(2) // never back
	s.wantTrimmed(3)
	s.append(10, batch(11))
	s.wantRange(4, 11)
	s.reopen()
	s.wantTrimmed(3)
	s.wantRange(4, 11)
	s.trim(9)
	s.wantRange(9, 11)
}

// trimAll: the tail is the count of all that was ever appended. If it fell back after a trim of everything, the
// next append would get a position that a store has seen already.
func trimAll(_ *testing.T, s *subject) {
	s.fill(5)
	s.trim(99)
	s.wantTail(5)
	s.wantTrimmed(4)
	s.wantRange(5, 5)
	s.reopen()
	s.wantTail(5)
	s.wantRange(5, 5)
	s.wantTrimmed(4)
	s.append(5, batch(6))
	s.wantRange(5, 6)
	s.trim(6)
	s.append(6, batch(7))
	s.reopen()
	s.wantTail(7)
	s.wantRange(6, 7)
}

// trimLazily bounds the size loosely, because space is given back in steps. Without any reclaiming it would grow
// almost threefold.
func trimLazily(t *testing.T, s *subject) {
	const rounds, each = 30, 40
	content := bytes.Repeat([]byte("x"), 3000)
	var early int64
	for round := range rounds {
		for i := range each {
			if _, err := s.Append(context.Background(), journal.Position(round*each+i), content); err != nil {
				t.Fatalf("Append: %v", err)
			}
		}
		s.trim(journal.Position((round+1)*each - 3))
		s.wantTail(journal.Position((round + 1) * each))
		if round == rounds/3 {
			early = s.Size()
		}
	}
	if late := s.Size(); late > 2*early+1<<20 {
		t.Errorf("the journal grew from %d to %d bytes although all but a few batches were trimmed all the time", early,
			late)
	}
	s.wantTrimmed(rounds*each - 4)
	seen := 0
	err := s.Read(context.Background(), rounds*each-3, func(_ journal.Position, b []byte) error {
		if !bytes.Equal(b, content) {
			return errors.New("another content")
		}
		seen++
		return nil
	})
	if err != nil || seen != 3 {
		t.Errorf("Read gave %d batches, %v; want the last 3", seen, err)
	}
}

// hold does as a backup: it reads from a position on while checkpoints go on trimming. Letting go twice must not let
// go of another's hold.
func hold(_ *testing.T, s *subject) {
	s.fill(10)
	s.trim(2)
	first, second := s.Hold(), s.Hold()
	s.trim(8)
	s.wantRange(2, 10)
	s.append(10, batch(11)) // would reclaim trimmed batches
	first()
	first() // once more is no second release
	s.append(11, batch(12))
	s.wantRange(2, 12)
	second()
	s.wantTrimmed(7)
	s.wantRange(8, 12)
	s.append(12, batch(13))
	s.reopen()
	s.wantTrimmed(7)
	s.wantRange(8, 13)
}

func readerError(t *testing.T, s *subject) {
	s.fill(10)
	stop, seen := errors.New("enough"), 0
	err := s.Read(context.Background(), 2, func(journal.Position, []byte) error {
		if seen++; seen == 3 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || seen != 3 {
		t.Errorf("Read = %v after %d batches; want the reader's error after 3", err, seen)
	}
	s.append(10, batch(11))
	s.wantRange(0, 11)
}

// readerWrites: a journal that locks itself for the time of a read would hang here.
func readerWrites(t *testing.T, s *subject) {
	s.fill(3)
	var seen []journal.Position
	err := s.Read(context.Background(), 0, func(pos journal.Position, _ []byte) error {
		if seen = append(seen, pos); pos == 1 {
			s.append(3, batch(4))
			s.trim(1)
		}
		return nil
	})
	// The new batch may or may not be met, depending on how far ahead the journal read.
	if err != nil || len(seen) < 3 || len(seen) > 4 {
		t.Errorf("Read gave the batches %v, %v; want 1 to 3 or 4", seen, err)
	}
	s.wantRange(1, 4)
}

// durability cannot see whether the disk has the bytes. That is checked by cutting the power (engine/powerloss);
// here only changing it back and forth must lose nothing.
func durability(t *testing.T, s *subject) {
	for i, d := range []queue.Durability{queue.Relaxed, queue.Full, queue.Relaxed, queue.Relaxed, queue.Full} {
		if err := s.SetDurability(d); err != nil {
			t.Fatalf("SetDurability(%v): %v", d, err)
		}
		s.append(journal.Position(i), batch(i+1))
	}
	s.reopen()
	s.wantRange(0, 5)
}

// ended: a call with a context that has ended must have no effect at all, so that its caller knows the outcome.
func ended(t *testing.T, s *subject) {
	s.fill(2)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, appending := s.Append(ctx, 2, []byte("x"))
	_, tail := s.Tail(ctx)
	reading := s.Read(ctx, 0, func(journal.Position, []byte) error { return errors.New("a batch was read") })
	for name, err := range map[string]error{"Append": appending, "Tail": tail, "Read": reading,
		"Trim": s.Trim(ctx, 1)} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s = %v; want context.Canceled", name, err)
		}
	}
	s.wantTail(2)
	s.wantRange(0, 2)
}

// buffer: the writer encodes the next batch into the same memory while this one may still be on its way.
func buffer(t *testing.T, s *subject) {
	b := []byte("first")
	if _, err := s.Append(context.Background(), 0, b); err != nil {
		t.Fatal(err)
	}
	copy(b, "XXXXX")
	err := s.Read(context.Background(), 0, func(_ journal.Position, got []byte) error {
		if string(got) != "first" {
			return fmt.Errorf("got %q, want %q: the journal kept the caller's buffer", got, "first")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
