package shard

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/rules"
	"github.com/quern-queue/quern/engine/store"
)

// However many submissions a rule covers, and however many rules end at one time: no hold of the mutex enters more than
// rules.CountMost of them into a book, and all rules end.
func TestUntilOfLargeRules(t *testing.T) {
	t.Parallel()
	ctx, settings := context.Background(), queue.DefaultSettings()
	settings.Durability = queue.Relaxed
	dir, seed := t.TempDir(), uint64(0)
	var clock atomic.Int64 // the writer reads it as well
	clock.Store(int64(lifeStart))
	now := func() queue.Time { return queue.Time(clock.Load()) }
	rows, err := store.Open(ctx, filepath.Join(dir, "store.db"), store.Options{Durability: queue.Relaxed})
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	entered, most := 0, 0 // in one hold of the mutex
	s, err := Open(ctx, Options{
		Queue: "q", Settings: settings, Key: reserver.Key{K0: 1, K1: 2}, Store: rows,
		Journal: func(ctx context.Context) (journal.Journal, error) {
			return sqlitelog.Open(ctx, filepath.Join(dir, "journal.db"), sqlitelog.Options{Durability: queue.Relaxed})
		},
		Now: func() time.Time { return now().Std() }, Seed: func() uint64 { seed++; return seed }, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Committed: func(time.Duration, int, int) {}, Fatal: func(err error) { t.Error(err) }, FreeBallast: func() bool { return false },
		Held: func(time.Duration) { most, entered = max(most, entered), 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ruled := s.m.Stats.Ruled
	s.m.Backlog.Rules.OnChange(func(sub *backlog.Submission, book int, before, after queue.Ruling) {
		entered++
		ruled(sub, book, before, after)
	})
	meta := func(key string, value int64) queue.MetaEntry {
		return queue.MetaEntry{Key: key, Value: queue.IntValue(value)}
	}
	const many = 3*rules.CountMost + 7
	for i := range int64(many) {
		n := queue.NewSubmission{Meta: queue.Meta{meta("all", 1), meta("part", i%10)}, Chunks: queue.Chunks{Count: 1, Prefix: "p/"}}
		if _, _, err := s.Insert(ctx, &n); err != nil {
			t.Fatal(err)
		}
	}
	until := now().Add(time.Hour)
	set := func(entry queue.MetaEntry, until queue.Time) {
		t.Helper()
		if _, _, err := s.Rules.Set(queue.Rule{Action: queue.Pause, Match: queue.RuleMatch{Entry: entry}, Until: until}, nil); err != nil {
			t.Fatal(err)
		}
	}
	set(meta("all", 1), until)
	for i := range int64(10) {
		set(meta("part", i), until)
	}
	if got := s.Stats(); got.Paused != many || got.Ready != 0 {
		t.Fatalf("under the rules: got %d ready, %d paused; want 0 and %d", got.Ready, got.Paused, many)
	}
	clock.Store(int64(until))
	s.Worker.Tick()
	if got := s.Stats(); len(s.Rules.List()) != 0 || got.Ready != many || got.Paused != 0 {
		t.Errorf("when their time is over: got %d rules, %d ready, %d paused; want 0, %d and 0", len(s.Rules.List()), got.Ready, got.Paused, many)
	}
	if err := s.Audit(); err != nil {
		t.Error(err)
	}
	if k := s.Work().Kinds[machine.KindRule]; k.Done != 11 || k.Failed != 0 {
		t.Errorf("the kind: got %+v, want 11 done", k)
	}
	if most > 2*rules.CountMost || most < rules.CountMost/2 { // in both books, each
		t.Errorf("one hold of the mutex entered %d submissions into books, want up to %d", most, 2*rules.CountMost)
	}
}
