package simtest

import (
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

var everything machine.Filter

func mustInsert(t testing.TB, b *box, n queue.NewSubmission) queue.Submission {
	t.Helper()
	sub, _, err := b.shard.Insert(ctx, &n)
	if err != nil {
		t.Fatalf("insert: %v", err)
	}
	return sub
}

func mustReserve(t testing.TB, b *box, text string, most int) []queue.Reservation {
	t.Helper()
	got, err := b.shard.Reserve(ctx, machine.Request{Plan: plan(t, text), Max: most, Timeout: time.Hour}, nil)
	if err != nil {
		t.Fatalf("reserve: %v", err)
	}
	return got.Reservations
}

func prefixed(chunks uint32, meta ...queue.MetaEntry) queue.NewSubmission {
	sorted, err := queue.NewMeta(meta)
	if err != nil {
		panic(err)
	}
	return queue.NewSubmission{Chunks: queue.Chunks{Count: chunks, Prefix: "dir/"}, Meta: sorted}
}

func number(key string, n int) queue.MetaEntry {
	return queue.MetaEntry{Key: key, Value: queue.IntValue(int64(n))}
}

func completions(held []queue.Reservation) []queue.CompleteItem {
	var items []queue.CompleteItem
	for i := range held {
		items = append(items, queue.CompleteItem{Token: held[i].Token})
	}
	return items
}
