package machine

import (
	"fmt"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"pgregory.net/rapid"
)

// A key is known from its insert until the window is over or the insert failed, and always as its latest insert.
func TestKeysModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k, now := newKeys(), queue.Time(1_760_000_000_000)
		model := map[string]*Keyed{}
		var all []*Keyed
		for i := range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(queue.IdempotencyWindow)).Draw(t, "passed")))
				k.expire(now, 1<<30)
				for key, entry := range model {
					if entry.At.Add(queue.IdempotencyWindow) < now {
						delete(model, key)
					}
				}
			case 1:
				if len(all) > 0 {
					entry := all[rapid.IntRange(0, len(all)-1).Draw(t, "forget")]
					k.Forget(entry)
					if model[entry.Key] == entry {
						delete(model, entry.Key)
					}
				}
			default: // also a key that is known: recovery finds two submissions with it when the first one's window was over
				entry := &Keyed{Key: fmt.Sprint("k", rapid.IntRange(0, 4).Draw(t, "key")), ID: queue.SubmissionID(i), At: now}
				k.Add(entry)
				model[entry.Key] = entry
				all = append(all, entry)
			}
			for n := range 5 {
				if key := fmt.Sprint("k", n); k.Find(key) != model[key] {
					t.Fatalf("step %d: find(%s) = %+v; want %+v", i, key, k.Find(key), model[key])
				}
			}
			if len(k.byKey) != len(model) {
				t.Fatalf("step %d: %d keys are known; want %d", i, len(k.byKey), len(model))
			}
		}
	})
}

// The window is inclusive: after exactly 24 hours a key is still known, a millisecond later it is not.
func TestKeysWindow(t *testing.T) {
	t.Parallel()
	k, entry := newKeys(), &Keyed{Key: "k", At: 1000}
	k.Add(entry)
	k.expire(queue.Time(1000).Add(queue.IdempotencyWindow), 10)
	if k.Find("k") != entry || entry.Forgotten {
		t.Error("the key is forgotten within its window")
	}
	k.expire(queue.Time(1000).Add(queue.IdempotencyWindow)+1, 10)
	if k.Find("k") != nil || !entry.Forgotten || len(k.queue) != 0 {
		t.Errorf("after its window find = %+v, forgotten %v, %d in the queue; want it gone", k.Find("k"), entry.Forgotten, len(k.queue))
	}
}

// The memory for keys is bounded; the oldest go first.
func TestKeysBound(t *testing.T) {
	t.Parallel()
	k := newKeys()
	entries := make([]Keyed, maxKeys+3)
	for i := range entries {
		entries[i] = Keyed{Key: fmt.Sprint(i)}
		k.Add(&entries[i])
	}
	if len(k.byKey) != maxKeys || len(k.queue) != maxKeys {
		t.Errorf("%d keys are known, %d in the queue; want %d", len(k.byKey), len(k.queue), maxKeys)
	}
	for i, known := range map[int]bool{0: false, 2: false, 3: true, maxKeys + 2: true} {
		if got := k.Find(fmt.Sprint(i)) != nil; got != known {
			t.Errorf("key %d is known: %v; want %v", i, got, known)
		}
	}
}
