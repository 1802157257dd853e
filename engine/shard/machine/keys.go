package machine

import (
	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
)

// keys has the idempotency keys that no checkpoint has written yet. The store has the others.
type keys struct {
	byHash map[queue.KeyHash]*Keyed
	fresh  []*Keyed // those whose inserts are applied, in that order
}

// Keyed is an idempotency key and the submission that was inserted with it.
type Keyed struct {
	checkpoint.Key
	Fate
}

// Fate is the outcome of an insert that others with the same key wait for.
type Fate struct {
	// done when Commit is set or the insert failed; nil when the insert is from the journal or the store
	Published *commit.Commit
	Commit    *commit.Commit // the one that decides it; nil before and after
	Forgotten bool
}

// Applied notes that the insert is on the disk: the key now waits for a checkpoint.
func (k *Keyed) Applied(m *Machine) {
	k.Commit = nil
	m.Keys.fresh = append(m.Keys.fresh, k)
}

// Undo forgets the key: the insert that used it failed.
func (k *Keyed) Undo(m *Machine) { m.Keys.Forget(k) }

// Repeatable refuses a key that came with another request.
func (k *Keyed) Repeatable(n *queue.NewSubmission) error {
	if k.Fingerprint == n.Fingerprint {
		return nil
	}
	return &queue.Error{Code: queue.CodeIdempotencyReuse, Message: "This Idempotency-Key came with a " +
		"different request before. Use a new key for a new request; repeat the old request to get its answer."}
}

func newKeys() keys { return keys{byHash: map[queue.KeyHash]*Keyed{}} }

// Find is the latest use of a key, if memory has it and it was used since a given time; nil: there is none.
func (k *keys) Find(hash queue.KeyHash, since queue.Time) *Keyed {
	if found := k.byHash[hash]; found != nil && found.At >= since {
		return found
	}
	return nil
}

// Len is how many keys memory has.
func (k *keys) Len() int { return len(k.byHash) }

func (k *keys) Add(entry *Keyed) { k.byHash[entry.Hash] = entry }

// Forget frees a key whose insert failed.
func (k *keys) Forget(entry *Keyed) {
	entry.Forgotten = true
	k.drop(entry)
}

func (k *keys) drop(entry *Keyed) {
	if k.byHash[entry.Hash] == entry { // else the key was used again since, after its window
		delete(k.byHash, entry.Hash)
	}
}

// replay keeps the key of a replayed insert, even if the store has the submission's row: a kill may have come before
// the key was written.
func (k *keys) replay(s *journal.Insert, at queue.Time) {
	if s.IdempotencyKey == "" {
		return
	}
	entry := &Keyed{Key: checkpoint.Key{Hash: queue.HashKey(s.IdempotencyKey), Fingerprint: s.Fingerprint, ID: s.ID,
		At: at}}
	k.Add(entry)
	k.fresh = append(k.fresh, entry)
}

// Fresh are the keys that wait for a checkpoint. The list and its entries do not change any more.
func (k *keys) Fresh() []*Keyed { return k.fresh[:len(k.fresh):len(k.fresh)] }

// Written drops the first keys that wait for a checkpoint, at most `most`: the store has them.
func (k *keys) Written(most int) {
	for i, entry := range k.fresh[:most] {
		k.drop(entry)
		k.fresh[i] = nil
	}
	k.fresh = k.fresh[most:]
}
