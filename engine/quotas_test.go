package engine

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// quotaScopes are the places where a quota can be set, other than a group (groups_test.go).
var quotaScopes = map[string]func(*testing.T, *Engine, queue.Quota){
	"queue": func(t *testing.T, e *Engine, quota queue.Quota) {
		settings := queue.DefaultSettings()
		settings.MaxWaitingChunks, settings.MaxOpenSubmissions = int64(quota.Waiting), int64(quota.Submissions)
		if _, _, err := e.PutQueue(t.Context(), shardedName, settings); err != nil {
			t.Fatal(err)
		}
	},
	"value": func(t *testing.T, e *Engine, quota queue.Quota) {
		set := queue.NoSettings()
		set.Quota = quota
		if _, _, err := queueAt(e, shardedName).Values.Put(t.Context(), acme, set, nil); err != nil {
			t.Fatal(err)
		}
	},
	"all values": func(t *testing.T, e *Engine, quota queue.Quota) {
		set := queue.NoSettings()
		set.Quota = quota
		if _, _, err := queueAt(e, shardedName).Values.PutDefault(t.Context(), acme.Key, set, nil); err != nil {
			t.Fatal(err)
		}
	},
}

var acme = queue.MetaEntry{Key: "company", Value: queue.StringValue("acme")}

// tryCompany inserts a submission of acme, and says why that was refused.
func tryCompany(t *testing.T, w Work, n queue.NewSubmission) (queue.Submission, error) {
	n.Meta, n.OperationsPerChunk, n.Chunks.Prefix = queue.Meta{acme}, 1, "x/"
	list := []queue.Insertion{{New: &n}}
	err := errors.Join(w.InsertMany(t.Context(), list, false), list[0].Err)
	return list[0].Submission, err
}

func chunksOf(count uint32) queue.NewSubmission {
	return queue.NewSubmission{Chunks: queue.Chunks{Count: count}}
}

// Of more inserts than a quota has room for, at the same time, exactly so many are taken. The quota is set while inserts are on their way.
func TestQuotasAreExact(t *testing.T) {
	t.Parallel()
	for name, set := range quotaScopes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			e, w := openSharded(t, dir, 1)
			together := func(meanwhile func(), n int, chunks uint32) (taken uint64) {
				var all sync.WaitGroup
				var count atomic.Uint64
				for range n {
					all.Go(func() {
						if _, err := tryCompany(t, w, chunksOf(chunks)); err == nil {
							count.Add(1)
						} else if queue.CodeOf(err) != queue.CodeLimitReached {
							t.Error(err)
						}
					})
				}
				meanwhile()
				all.Wait()
				return count.Load()
			}
			before := together(func() { set(t, e, queue.Quota{Submissions: 200, Waiting: 1000}) }, 40, 1) // none is one too many
			if before != 40 {
				t.Errorf("%d submissions were taken, want 40", before)
			}
			if n := together(func() {}, 300, 1); n != 160 {
				t.Errorf("%d submissions were taken, want 160", n)
			}
			_, err := tryCompany(t, w, chunksOf(1))
			reached(t, err, 200, 200)
			set(t, e, queue.Quota{Waiting: 230})
			if n := together(func() {}, 40, 4); n != 7 { // 28 of 30 chunks
				t.Errorf("%d submissions of 4 chunks were taken, want 7", n)
			}
			_, err = tryCompany(t, w, chunksOf(3))
			reached(t, err, 228, 230)
			closed(t, e)
			e, w = reopened(t, dir)
			defer closed(t, e)
			_, err = tryCompany(t, w, chunksOf(3))
			reached(t, err, 228, 230)
			if got := len(takenBy(t, w, `OldestFirst`, 5)); got != 5 { // reserved chunks do not wait
				t.Fatalf("%d chunks were taken", got)
			}
			if n := together(func() {}, 20, 1); n != 7 {
				t.Errorf("%d were taken when 5 chunks were reserved, want 7", n)
			}
			set(t, e, queue.Quota{Submissions: 1000})
			if n := together(func() {}, 20, 100); n != 20 {
				t.Errorf("%d were taken under a wider quota, want 20", n)
			}
		})
	}
}

// What waits for its run_at counts, before the quota is set and after a restart; the end of a submission makes room.
func TestQuotasCountWhatIsHidden(t *testing.T) {
	t.Parallel()
	for name, set := range quotaScopes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			e, w := openSharded(t, dir, 1)
			hidden := chunksOf(6)
			hidden.RunAt = queue.At(time.Now().Add(time.Hour))
			one, err := tryCompany(t, w, hidden)
			if err != nil {
				t.Fatal(err)
			}
			set(t, e, queue.Quota{Waiting: 6})
			_, err = tryCompany(t, w, chunksOf(1))
			reached(t, err, 6, 6)
			closedWhole(t, e)
			e, w = reopened(t, dir)
			defer closed(t, e)
			_, err = tryCompany(t, w, chunksOf(1))
			reached(t, err, 6, 6)
			if _, err := queueAt(e, shardedName).Submissions.Cancel(t.Context(), one.ID); err != nil {
				t.Fatal(err)
			}
			if _, err := tryCompany(t, w, chunksOf(6)); err != nil {
				t.Errorf("in the place of what was cancelled: %v", err)
			}
			held := takenBy(t, w, "OldestFirst", 6)
			for i := range held { // the last completion brings what takes the place of its submission
				item := queue.CompleteItem{Token: held[i].Token}
				if i == len(held)-1 {
					next := chunksOf(6)
					next.Meta, next.OperationsPerChunk = queue.Meta{acme}, 1
					item.Insert = []queue.Insertion{{New: &next}}
				}
				if results, err := w.Complete(t.Context(), []queue.CompleteItem{item}, nil); err != nil || results[0].Outcome != queue.OutcomeOK {
					t.Fatal(results, err)
				}
			}
			_, err = tryCompany(t, w, chunksOf(1))
			reached(t, err, 6, 6)
		})
	}
}

// What cannot be exact is refused: quotas of a queue with several shards, and of values of other keys than the group's.
func TestQuotasNeedOneShard(t *testing.T) {
	t.Parallel()
	e, _ := openSharded(t, t.TempDir(), 2)
	defer closed(t, e)
	settings := queue.DefaultSettings()
	settings.Shards, settings.MaxOpenSubmissions = 2, 5
	_, _, err := e.PutQueue(t.Context(), shardedName, settings)
	if queue.CodeOf(err) != queue.CodeInvalid {
		t.Errorf("a quota of a queue with two shards: %v", err)
	}
	set := queue.NoSettings()
	set.Quota.Waiting = 5
	if _, _, err := queueAt(e, shardedName+"~1").Values.Put(t.Context(), acme, set, nil); queue.CodeOf(err) != queue.CodeInvalid {
		t.Errorf("a quota of a value: %v", err)
	}
	group := queue.MetaEntry{Key: queue.GroupKey, Value: queue.StringValue("a")}
	if _, _, err := queueAt(e, shardedName+"~1").Values.Put(t.Context(), group, set, nil); queue.CodeOf(err) != queue.CodeInvalid {
		t.Errorf("a quota of a group as of a value: %v", err)
	}
	settings.Shards = 1
	if _, _, err := e.PutQueue(t.Context(), "one", settings); err != nil {
		t.Fatal(err)
	}
	settings.Shards = 2
	if _, _, err := e.PutQueue(t.Context(), "one", settings); queue.CodeOf(err) != queue.CodeInvalid {
		t.Errorf("two shards for a queue with a quota: %v", err)
	}
}
