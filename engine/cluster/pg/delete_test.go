package pg

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/journaltest"
)

// A deleted journal leaves no row in any table, also if it has many or large batches, or if a node appends to it meanwhile.
func TestDeletedJournalLeavesNothing(t *testing.T) {
	t.Parallel()
	b := begin(t, Options{})
	l, kept := openLog(t, b, "j"), openLog(t, b, "kept")
	appendTo(t, kept, 0, "kept")
	appendTo(t, l, 0, string(make([]byte, 3*partBytes)))
	for i := range 3 * trimRows {
		appendTo(t, l, journal.Position(i+1), "small")
	}
	appended := make(chan error)
	go func() {
		for at := journal.Position(3*trimRows + 1); ; at++ {
			if _, err := l.Append(ctx, at, []byte("meanwhile")); err != nil {
				appended <- err
				return
			}
		}
	}()
	if err := b.DeleteJournal(ctx, "j", nil); err != nil {
		t.Fatal(err)
	}
	if err := <-appended; !errors.Is(err, journal.ErrConflict) {
		t.Errorf("Append to a deleted journal = %v; want ErrConflict", err)
	}
	var rows [3]int
	err := b.pool.QueryRow(ctx, "SELECT (SELECT count(*) FROM journal), (SELECT count(*) FROM trimmed), (SELECT count(*) FROM batch)").
		Scan(&rows[0], &rows[1], &rows[2])
	if err != nil || rows != [3]int{1, 1, 1} {
		t.Errorf("journal, trimmed and batch have %v rows, %v; want one each, of the journal that is kept", rows, err)
	}
}

// An append whose outcome is not known ends when its journal is deleted: nothing of it is in any journal.
func TestDeletedUnderAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, outcome := range []journaltest.Outcome{journaltest.Lost, journaltest.Written} {
		t.Run(fmt.Sprint(outcome), func(t *testing.T) {
			t.Parallel()
			proxy := server.Front(t)
			t.Cleanup(func() { _ = proxy.Close() })
			b := begin(t, Options{URL: proxy.URL()})
			l := openLog(t, b, "j")
			appendTo(t, l, 0, "one")
			over, cancel := context.WithCancel(ctx)
			proxy.Fail(outcome, 1<<20, cancel)
			if _, err := l.Append(over, 1, []byte("two")); !errors.Is(err, journal.ErrUnknown) {
				t.Fatalf("Append = %v; want ErrUnknown", err)
			}
			proxy.Fail(outcome, 0, nil)
			other := begin(t, Options{Schema: b.o.Schema})
			if err := other.DeleteJournal(ctx, "j", nil); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Append(ctx, 1, []byte("two")); !errors.Is(err, journal.ErrConflict) {
				t.Errorf("Append to a deleted journal = %v; want ErrConflict", err)
			}
		})
	}
}
