package shard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// An insert that found the disk full frees its idempotency key: the same request succeeds when there is room again.
func TestFullDiskFreesTheKey(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 64<<10) // bytes that cannot be compressed
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	for name, c := range map[string]struct {
		chunks queue.Chunks
		bound  func(s *Shard, pages int) error
	}{
		"store":   {queue.Chunks{Count: 1, Inline: [][]byte{noise}}, func(s *Shard, pages int) error { return s.store.SetMaxPages(pages) }},
		"journal": {queue.Chunks{Count: 1, Prefix: strings.Repeat("p", 1000)}, func(s *Shard, pages int) error { return s.writer.journal.(*sqlitelog.Log).SetMaxPages(pages) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // a key that is kept would be waited for without an end
			defer cancel()
			withShard(t, t.TempDir(), func(s *Shard) {
				if err := c.bound(s, 1); err != nil { // the size that the file already has
					t.Fatal(err)
				}
				n, err := queue.NewSubmission{Chunks: c.chunks}, error(nil)
				for i := 0; err == nil && i < 50; i++ {
					n.IdempotencyKey = fmt.Sprint("k", i)
					_, _, err = s.Insert(ctx, &n)
				}
				if queue.CodeOf(err) != queue.CodeDiskFull {
					t.Fatalf("inserts on a full disk ended with %v, want %s", err, queue.CodeDiskFull)
				}
				if _, _, err := s.Insert(ctx, &n); queue.CodeOf(err) != queue.CodeDiskFull {
					t.Errorf("the same insert again gave %v, want %s", err, queue.CodeDiskFull)
				}
				if err := c.bound(s, 0); err != nil {
					t.Fatal(err)
				}
				s.SetFull(false) // as the engine does when it sees room
				first, replayed, err := s.Insert(ctx, &n)
				if err != nil || replayed {
					t.Fatalf("the same insert with room gave replayed %t, %v; want it taken as a new one", replayed, err)
				}
				if again, replayed, err := s.Insert(ctx, &n); err != nil || !replayed || again.ID != first.ID {
					t.Errorf("its repetition gave %s, replayed %t, %v; want %s, replayed", again.ID, replayed, err, first.ID)
				}
			})
		})
	}
}

// A queue that holds as many unique keys for a time as it may refuses more, and says for how long. Keys that are held while open have room.
func TestUniqueIsBounded(t *testing.T) {
	t.Parallel()
	withShard(t, t.TempDir(), func(s *Shard) {
		(*doors)(s).Look(func(m *machine.Machine) { m.Uniques.Limit = 2 })
		insert := func(key string, window time.Duration) error {
			n := queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "p"}, Unique: &queue.Unique{Key: key, For: window}}
			_, _, err := s.Insert(t.Context(), &n)
			return err
		}
		for key, window := range map[string]time.Duration{"a": time.Hour, "b": 2 * time.Hour} {
			if err := insert(key, window); err != nil {
				t.Fatal(err)
			}
		}
		err := insert("c", time.Second)
		refused, _ := err.(*queue.Error)
		if refused == nil || refused.Code != queue.CodeOverloaded || refused.RetryAfter > time.Hour || refused.RetryAfter < time.Minute {
			t.Errorf("a key beyond the limit gave %v; want it refused for up to an hour", err)
		}
		if err := insert("c", 0); err != nil {
			t.Errorf("a key that is held while open: %v", err)
		}
		if stats := s.Stats(); stats.UniqueKeys != 3 || stats.UniqueRefused != 1 {
			t.Errorf("stats tell of %d keys and %d refused; want 3 and 1", stats.UniqueKeys, stats.UniqueRefused)
		}
	})
}

// An insert whose commit fails, and one of an atomic call that is refused, do not count for their group's limit.
func TestFailedInsertTakesNoRoom(t *testing.T) {
	t.Parallel()
	const most = 60
	withShard(t, t.TempDir(), func(s *Shard) {
		if err := s.Settings.Put(&journal.Set{Kind: journal.SetGroup, Name: "a", Version: 1, Quota: queue.Quota{Submissions: most}}, nil, nil); err != nil {
			t.Fatal(err)
		}
		log := s.writer.journal.(*sqlitelog.Log)
		fresh := func(prefix string) queue.Insertion {
			meta, _ := queue.NewMeta(queue.Meta{{Key: queue.GroupKey, Value: queue.StringValue("a")}})
			return queue.Insertion{New: &queue.NewSubmission{Meta: meta, Chunks: queue.Chunks{Count: 1, Prefix: prefix}}}
		}
		if err := log.SetMaxPages(1); err != nil {
			t.Fatal(err)
		}
		var err error
		for n := 0; err == nil && n < 50; n++ {
			err = s.InsertMany(t.Context(), []queue.Insertion{fresh(strings.Repeat("p", 1000))}, false)
		}
		if queue.CodeOf(err) != queue.CodeDiskFull {
			t.Fatalf("inserts on a full disk ended with %v", err)
		}
		if err := log.SetMaxPages(0); err != nil {
			t.Fatal(err)
		}
		s.SetFull(false)
		room := most - s.Settings.Use("a").Submissions
		list := make([]queue.Insertion, room+1)
		for i := range list {
			list[i] = fresh("p")
		}
		if err := s.InsertMany(t.Context(), list, true); err != nil || queue.CodeOf(list[room].Err) != queue.CodeLimitReached {
			t.Errorf("one too many in an atomic call: %v, %v", err, list[room].Err)
		}
		for i := range list {
			list[i] = fresh("p")
		}
		if err := s.InsertMany(t.Context(), list[:room], true); err != nil || list[0].Err != nil {
			t.Errorf("as many as there is room for: %v, %v", err, list[0].Err)
		}
		if use := s.Settings.Use("a"); use != (queue.Quota{Waiting: most, Submissions: most}) {
			t.Errorf("the group has %+v", use)
		}
		(*doors)(s).Look(func(m *machine.Machine) {
			m.Intended(func(what string, n int) {
				if n != 0 {
					t.Errorf("%d %s are left", n, what)
				}
			})
		})
	})
}
