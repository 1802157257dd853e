package clustertest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/cluster"
	"github.com/quern-queue/quern/engine/journal"
)

// exerciseJournals tests several journals of one backend.
func exerciseJournals(t *testing.T, m Medium) {
	s := begin(t, m)
	for _, name := range []string{"", "A", "a b", "a/b", "ä", strings.Repeat("a", cluster.MaxName+1)} {
		if err := s.MakeJournal(ctx, name, 0); err == nil {
			t.Errorf("MakeJournal took the name %q", name)
		}
	}
	if _, err := s.Journal(ctx, "absent"); !errors.Is(err, cluster.ErrNoJournal) {
		t.Errorf("Journal of one that no one made = %v; want ErrNoJournal", err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	_, opened := s.Journal(over, "late")
	for name, err := range map[string]error{"Journal": opened, "MakeJournal": s.MakeJournal(over, "late", 0),
		"DeleteJournal": s.DeleteJournal(over, "late", nil)} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s = %v; want context.Canceled", name, err)
		}
	}
	wantEnds(t, s, map[string]journal.Position{})
	begunBehind(t, s)
	wantEnds(t, s, map[string]journal.Position{"behind": 42})
	names := []string{"0000", "catalogue", "a-b_c.d", strings.Repeat("z", cluster.MaxName)}
	for round := range 2 {
		for _, name := range names {
			j := open(t, s.Backend, name)
			if at, err := j.Append(ctx, journal.Position(round), []byte(name)); err != nil || at != journal.Position(round)+1 {
				t.Fatalf("Append to %s = %d, %v; want %d", name, at, err, round+1)
			}
			seen := 0
			err := j.Read(ctx, 0, func(_ journal.Position, b []byte) error {
				if seen++; string(b) != name {
					t.Errorf("journal %s has a batch %q", name, b)
				}
				return nil
			})
			if err != nil || seen != round+1 {
				t.Errorf("Read of %s gave %d batches, %v; want %d", name, seen, err, round+1)
			}
			if err := j.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
	}
}

// begunBehind is about a journal that begins behind a position.
func begunBehind(t *testing.T, s *subject) {
	for _, after := range []journal.Position{41, 7} { // it stays as it was made first
		if err := s.MakeJournal(ctx, "behind", after); err != nil {
			t.Fatalf("MakeJournal: %v", err)
		}
	}
	j := open(t, s.Backend, "behind")
	defer j.Close()
	if tail, err := j.Tail(ctx); tail != 41 || j.Trimmed() != 41 || err != nil {
		t.Errorf("Tail, Trimmed = %d, %d, %v; want 41", tail, j.Trimmed(), err)
	}
	if _, err := j.Append(ctx, 40, []byte("x")); !errors.Is(err, journal.ErrConflict) {
		t.Errorf("Append behind 40 = %v; want ErrConflict", err)
	}
	wantRead(t, open(t, s.Backend, "behind"), 41)
	k := open(t, s.Backend, "behind")
	defer k.Close()
	if at, err := k.Append(ctx, 41, []byte("x")); at != 42 || err != nil {
		t.Errorf("Append = %d, %v; want 42", at, err)
	}
	wantRead(t, open(t, s.Backend, "behind"), 41, "x")
	if err := open(t, s.Backend, "behind").Read(ctx, 40, nil); !errors.Is(err, journal.ErrTrimmed) {
		t.Errorf("Read(after 40) = %v; want ErrTrimmed", err)
	}
}

func wantEnds(t *testing.T, s *subject, want map[string]journal.Position) {
	t.Helper()
	if ends, err := s.another().Journals(ctx); err != nil || !maps.Equal(ends, want) {
		t.Errorf("Journals = %v, %v; want %v", ends, err, want)
	}
}

// wantRead closes the handle.
func wantRead(t *testing.T, j journal.Journal, after journal.Position, want ...string) {
	t.Helper()
	var got []string
	err := j.Read(ctx, after, func(_ journal.Position, batch []byte) error {
		got = append(got, string(batch))
		return nil
	})
	if err = errors.Join(err, j.Close()); err != nil || !slices.Equal(got, want) {
		t.Errorf("Read gave %q, %v; want %q", got, err, want)
	}
}

// exerciseDeleted is about a journal that is deleted under handles of two nodes, and about the next one of its name: to these handles it is
// another one, also with the same batches at the same positions.
func exerciseDeleted(t *testing.T, m Medium) {
	s := begin(t, m)
	fresh, writer, reader := open(t, s.another().Backend, Journal), open(t, s.Backend, Journal), open(t, s.another().Backend, Journal)
	grow := func(j journal.Journal) {
		t.Helper()
		for i, batch := range []string{"one", "two"} {
			if at, err := j.Append(ctx, journal.Position(i), []byte(batch)); err != nil || at != journal.Position(i+1) {
				t.Fatalf("Append = %d, %v; want %d", at, err, i+1)
			}
		}
	}
	grow(writer)
	if err := reader.Read(ctx, 0, func(journal.Position, []byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	wait := make(chan error, 1)
	go func() { wait <- reader.Wait(ctx, 2) }()
	for range 2 { // a missing journal is no error
		if err := s.another().DeleteJournal(ctx, Journal, nil); err != nil {
			t.Fatalf("DeleteJournal: %v", err)
		}
		if _, err := s.Journal(ctx, Journal); !errors.Is(err, cluster.ErrNoJournal) || !errors.Is(err, journal.ErrConflict) {
			t.Errorf("Journal of a deleted one = %v; want ErrNoJournal, a conflict", err)
		}
	}
	if err := <-wait; !errors.Is(err, journal.ErrConflict) {
		t.Errorf("Wait = %v; want ErrConflict", err)
	}
	var next journal.Journal
	for _, step := range []func(){
		func() {}, func() { next = open(t, s.another().Backend, Journal) }, func() { grow(next) },
	} {
		step()
		deposed(t, "a handle from before the first batch", fresh, 0)
		deposed(t, "the writer", writer, 2)
		deposed(t, "the reader", reader, 2)
	}
	wantRead(t, open(t, s.Backend, Journal), 0, "one", "two")
	if at, err := next.Append(ctx, 2, []byte("three")); err != nil || at != 3 {
		t.Errorf("Append to the next journal = %d, %v; want 3", at, err)
	}
	for _, j := range []journal.Journal{fresh, writer, reader, next} {
		if err := j.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// exerciseKept is about a journal that its owner deletes. It stays if the owner says that it no longer owns it, and if another writer
// appends behind the end that the owner saw.
func exerciseKept(t *testing.T, m Medium) {
	s := begin(t, m)
	j := open(t, s.another().Backend, Journal)
	defer j.Close()
	end := journal.Position(0)
	grow := func() {
		t.Helper()
		at, err := j.Append(ctx, end, []byte("one"))
		if end++; err != nil || at != end {
			t.Fatalf("Append = %d, %v; want %d", at, err, end)
		}
	}
	grow()
	for who, still := range map[string]func() bool{
		"one who is the owner no more":        func() bool { return false },
		"one whom another one claims it from": func() bool { grow(); return true },
	} {
		if err := s.DeleteJournal(ctx, Journal, still); !errors.Is(err, journal.ErrConflict) {
			t.Errorf("DeleteJournal by %s = %v; want ErrConflict", who, err)
		}
		grow()
	}
	for range 2 {
		if err := s.DeleteJournal(ctx, Journal, func() bool { return true }); err != nil {
			t.Errorf("DeleteJournal by the owner = %v", err)
		}
	}
	deposed(t, "the writer", j, end)
}

// deposed expects that a handle refuses all calls.
func deposed(t *testing.T, who string, j journal.Journal, tail journal.Position) {
	t.Helper()
	_, appended := j.Append(ctx, tail, []byte("late"))
	_, asked := j.Tail(ctx)
	read := j.Read(ctx, tail, func(journal.Position, []byte) error { return nil })
	for call, err := range map[string]error{"Append": appended, "Tail": asked, "Read": read, "Wait": j.Wait(ctx, tail)} {
		if !errors.Is(err, journal.ErrConflict) {
			t.Errorf("%s by %s = %v; want ErrConflict", call, who, err)
		}
	}
	if err := j.Trim(ctx, tail); err != nil && !errors.Is(err, journal.ErrConflict) {
		t.Errorf("Trim by %s = %v; want nothing or ErrConflict", who, err)
	}
}
