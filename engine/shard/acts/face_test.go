package acts

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
)

// The log gets each entry once, in order. Entries that it could not take are offered again.
func TestEntriesAreHandedOver(t *testing.T) {
	t.Parallel()
	ctx, s := context.Background(), shelltest.New(t)
	var log []uint64
	var refuse error
	a := Acts{Shell: s, Put: func(_ context.Context, list []journal.Act) error {
		if refuse != nil {
			return refuse
		}
		for _, act := range list {
			log = append(log, act.Number)
		}
		return nil
	}}
	record := func() {
		t.Helper()
		if err := a.Record(queue.Act{Action: "lifecycle.retry"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	record()
	record()
	refuse = errors.New("the log is elsewhere")
	if err := a.HandOver(ctx, s.Machine); err != refuse || len(a.Fresh()) != 2 {
		t.Fatalf("a log that takes nothing: %v, and %d are left", err, len(a.Fresh()))
	}
	refuse = nil
	record()
	for range 2 {
		if err := a.HandOver(ctx, s.Machine); err != nil {
			t.Fatal(err)
		}
	}
	if want := []uint64{1, 2, 3}; !slices.Equal(log, want) || len(a.Fresh()) != 0 {
		t.Errorf("the log has %v, want %v, and %d are left", log, want, len(a.Fresh()))
	}
}

// Without a log no entry is dropped. An entry whose commit failed does not exist.
func TestEntriesStayWithoutALog(t *testing.T) {
	t.Parallel()
	s := shelltest.New(t)
	a := Acts{Shell: s}
	s.Fail = errors.New("no")
	if err := a.Record(queue.Act{Action: "lifecycle.retry"}, nil); err == nil {
		t.Fatal("no error")
	}
	if err := a.Record(queue.Act{Action: "lifecycle.retry"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := a.HandOver(context.Background(), s.Machine); err != nil || len(a.Fresh()) != 1 {
		t.Errorf("%v, and %d are left; want the one that came through", err, len(a.Fresh()))
	}
}
