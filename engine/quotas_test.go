package engine

import (
	"errors"
	"maps"
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
		settings.MaxOpenBytes = int64(quota.Bytes)
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
	if n.Meta, n.OperationsPerChunk = (queue.Meta{acme}), 1; n.Chunks.Inline == nil {
		n.Chunks.Prefix = "x/"
	}
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

// Chunks that wait for their run_at count, before the quota is set and after a restart. The end of a submission makes room.
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

// heavy is a submission of two chunks and an attachment, of this many bytes together.
func heavy(bytes int) queue.NewSubmission {
	return queue.NewSubmission{
		Chunks: queue.Chunks{Count: 2, Inline: [][]byte{make([]byte, bytes-bytes/2-1), {1}}}, Attachment: make([]byte, bytes/2),
	}
}

// A quota of bytes counts contents and attachments of what is open, also of what came before it was set, and after a
// restart. Work without bytes goes on.
func TestQuotasOfBytes(t *testing.T) {
	t.Parallel()
	scopes := maps.Clone(quotaScopes)
	scopes["group"] = func(t *testing.T, e *Engine, quota queue.Quota) { limit(t, e, "g", quota) }
	for name, set := range scopes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			insert := func(w Work, n queue.NewSubmission) (queue.Submission, error) {
				if name == "group" {
					n.Group = "g"
				}
				return tryCompany(t, w, n)
			}
			dir := t.TempDir()
			e, w := openSharded(t, dir, 1)
			one, err := insert(w, heavy(600))
			if err != nil {
				t.Fatal(err)
			}
			set(t, e, queue.Quota{Bytes: 2000})
			var all sync.WaitGroup
			var taken atomic.Int64
			for range 10 {
				all.Go(func() {
					if _, err := insert(w, heavy(400)); err == nil {
						taken.Add(1)
					} else if queue.CodeOf(err) != queue.CodeLimitReached {
						t.Error(err)
					}
				})
			}
			if all.Wait(); taken.Load() != 3 {
				t.Errorf("%d submissions of 400 bytes were taken beside 600 of 2000, want 3", taken.Load())
			}
			refused := func(when string, bytes int, current, most uint64) {
				t.Helper()
				if _, err := insert(w, heavy(bytes)); err == nil {
					t.Errorf("%s: %d bytes more were taken", when, bytes)
				} else {
					reached(t, err, current, most)
				}
			}
			refused("when it is nearly full", 201, 1800, 2000)
			if _, err := insert(w, chunksOf(1000)); err != nil {
				t.Errorf("chunks that bring no bytes: %v", err)
			}
			closed(t, e)
			e, w = reopened(t, dir)
			refused("after a restart", 201, 1800, 2000)
			closedWhole(t, e)
			e, w = reopened(t, dir)
			defer closed(t, e)
			refused("after a restart from the store", 201, 1800, 2000)
			if _, err := queueAt(e, shardedName).Submissions.Cancel(t.Context(), one.ID); err != nil {
				t.Fatal(err)
			}
			if _, err := insert(w, heavy(800)); err != nil {
				t.Errorf("in the place of what was cancelled: %v", err)
			}
			refused("when it is full", 10, 2000, 2000)
			set(t, e, queue.Quota{Submissions: 1_000_000})
			if _, err := insert(w, heavy(5000)); err != nil {
				t.Errorf("without a quota: %v", err)
			}
			set(t, e, queue.Quota{Bytes: 7001})
			refused("when a quota is set again", 2, 7000, 7001)
		})
	}
}

// Quotas that cannot be exact are refused: those of a queue with several shards, and of values of other keys than the group's.
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
