package machine

import (
	"slices"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
	"pgregory.net/rapid"
)

// A key is known from its insert until the window is over, the insert failed, or a checkpoint has written it, and always as its latest
// insert. Every key whose insert is applied waits for a checkpoint, in that order.
func TestKeysModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &Machine{Keys: newKeys()}
		k, now := &m.Keys, queue.Time(1_760_000_000_000)
		model := map[queue.KeyHash]*Keyed{}
		var begun, fresh []*Keyed
		forget := func(entry *Keyed) {
			if model[entry.Hash] == entry {
				delete(model, entry.Hash)
			}
		}
		for i := range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 4).Draw(t, "what"); {
			case what == 0:
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(queue.IdempotencyWindow)).Draw(t, "passed")))
			case what <= 2 && len(begun) > 0:
				n := rapid.IntRange(0, len(begun)-1).Draw(t, "which")
				entry := begun[n]
				begun = slices.Delete(begun, n, n+1)
				if what == 1 {
					entry.Undo(m)
					forget(entry)
				} else {
					entry.Applied(m)
					fresh = append(fresh, entry)
				}
			case what == 3:
				n := rapid.IntRange(0, len(fresh)).Draw(t, "written")
				k.Written(n)
				for _, entry := range fresh[:n] {
					forget(entry)
				}
				fresh = fresh[n:]
			default: // also a key that is known: its window was over
				hash := queue.KeyHash{byte(rapid.IntRange(0, 4).Draw(t, "key"))}
				entry := &Keyed{Key: checkpoint.Key{Hash: hash, ID: queue.SubmissionID(i), At: now}}
				k.Add(entry)
				model[hash] = entry
				begun = append(begun, entry)
			}
			for n := range byte(5) {
				hash := queue.KeyHash{n}
				want := model[hash]
				if want != nil && want.At.Add(queue.IdempotencyWindow) < now {
					want = nil
				}
				if got := k.Find(hash, now.Add(-queue.IdempotencyWindow)); got != want {
					t.Fatalf("step %d: find(%d) = %+v; want %+v", i, n, got, want)
				}
			}
			if k.Len() != len(model) || !slices.Equal(k.Fresh(), fresh) {
				t.Fatalf("step %d: %d keys, %d wait for a checkpoint; want %d and %d", i, k.Len(), len(k.Fresh()), len(model), len(fresh))
			}
		}
	})
}

// The window is inclusive: after exactly 24 hours a key is still known, a millisecond later it is not.
func TestKeysWindow(t *testing.T) {
	t.Parallel()
	k, entry := newKeys(), &Keyed{Key: checkpoint.Key{At: 1000}}
	k.Add(entry)
	if k.Find(queue.KeyHash{}, 1000) != entry {
		t.Error("the key is forgotten within its window")
	}
	if found := k.Find(queue.KeyHash{}, 1001); found != nil {
		t.Errorf("after its window find = %+v; want none", found)
	}
}
