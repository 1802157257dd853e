package shard

import (
	"cmp"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
)

// keys remembers the idempotency keys of the last queue.IdempotencyWindow.
type keys struct {
	byKey map[string]*keyed
	queue []*keyed // oldest first
}

type keyed struct {
	key         string
	fingerprint [16]byte
	id          queue.SubmissionID
	at          queue.Time
	published   chan struct{} // closed when batch is set or the insert failed; nil when replayed from the journal
	batch       *batch        // the commit that decides it; nil before and after
	forgotten   bool
}

// maxKeys bounds the memory that keys take (about 200 bytes each): beyond it the oldest are forgotten early.
const maxKeys = 1 << 20

// Applied and Undo: with the commit of its insert the key is no longer on its way, or is free again.
func (k *keyed) Applied(*machine) { k.batch = nil }
func (k *keyed) Undo(m *machine)  { m.keys.forget(k) }

func newKeys() keys { return keys{byKey: map[string]*keyed{}} }

func (k *keys) find(key string) *keyed { return k.byKey[key] }

func (k *keys) add(entry *keyed) {
	k.byKey[entry.key] = entry
	k.queue = append(k.queue, entry)
	for len(k.queue) > maxKeys {
		k.forgetOldest()
	}
}

func (k *keys) forget(entry *keyed) {
	if entry.forgotten {
		return
	}
	entry.forgotten = true
	if k.byKey[entry.key] == entry { // else the key was used again since, after its window
		delete(k.byKey, entry.key)
	}
}

func (k *keys) forgetOldest() {
	k.forget(k.queue[0])
	k.queue[0] = nil
	k.queue = k.queue[1:]
}

// full says that one more key would push another one out.
func (k *keys) full() bool { return len(k.queue) >= maxKeys }

// settle puts what a recovery added in any order into the order of time.
func (k *keys) settle() {
	slices.SortStableFunc(k.queue, func(a, b *keyed) int { return cmp.Compare(a.id, b.id) })
	for _, entry := range k.queue {
		k.byKey[entry.key] = entry // of a key that was used again after its window, the last
	}
}

// expire forgets keys that are older than the window, at most `most`, and says how many.
func (k *keys) expire(now queue.Time, most int) (n int) {
	for ; n < most && len(k.queue) > 0 && k.queue[0].at.Add(queue.IdempotencyWindow) < now; n++ {
		k.forgetOldest()
	}
	return n
}
