package machine

import (
	"cmp"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
)

// keys remembers the idempotency keys of the last queue.IdempotencyWindow.
type keys struct {
	byKey map[string]*Keyed
	queue []*Keyed // oldest first
}

// Keyed is an idempotency key and the submission that was inserted with it.
type Keyed struct {
	Key         string
	Fingerprint [16]byte
	ID          queue.SubmissionID
	At          queue.Time
	Published   *commit.Commit // done when Commit is set or the insert failed; nil when replayed from the journal
	Commit      *commit.Commit // the one that decides it; nil before and after
	Forgotten   bool
}

// maxKeys bounds the memory that keys take (about 200 bytes each): beyond it the oldest are forgotten early.
const maxKeys = 1 << 20

// Applied and Undo: with the commit of its insert the key is no longer on its way, or is free again.
func (k *Keyed) Applied(*Machine) { k.Commit = nil }

// Undo forgets the key: the insert that used it failed.
func (k *Keyed) Undo(m *Machine) { m.Keys.Forget(k) }

func newKeys() keys { return keys{byKey: map[string]*Keyed{}} }

func (k *keys) Find(key string) *Keyed { return k.byKey[key] }

func (k *keys) Add(entry *Keyed) {
	k.byKey[entry.Key] = entry
	k.queue = append(k.queue, entry)
	for len(k.queue) > maxKeys {
		k.forgetOldest()
	}
}

func (k *keys) Forget(entry *Keyed) {
	if entry.Forgotten {
		return
	}
	entry.Forgotten = true
	if k.byKey[entry.Key] == entry { // else the key was used again since, after its window
		delete(k.byKey, entry.Key)
	}
}

func (k *keys) forgetOldest() {
	k.Forget(k.queue[0])
	k.queue[0] = nil
	k.queue = k.queue[1:]
}

// settle puts what a recovery added in any order into the order of time.
func (k *keys) settle() {
	slices.SortStableFunc(k.queue, func(a, b *Keyed) int { return cmp.Compare(a.ID, b.ID) })
	for _, entry := range k.queue {
		k.byKey[entry.Key] = entry // of a key that was used again after its window, the last
	}
}

// expire forgets keys that are older than the window, at most `most`, and says how many.
func (k *keys) expire(now queue.Time, most int) (n int) {
	for ; n < most && len(k.queue) > 0 && k.queue[0].At.Add(queue.IdempotencyWindow) < now; n++ {
		k.forgetOldest()
	}
	return n
}
