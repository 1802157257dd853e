// Package keys has the idempotency keys of inserts: for each key, the submission that used it. Memory
// has the keys of inserts under way and those that no checkpoint has written yet. The store has the
// others. A call asks the store before it takes the mutex, so no call waits for the read of another.
package keys

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// Keys are the keys of a shard.
type Keys struct {
	shell.Shell
	Refused uint64 // inserts that found no room for their key; the shard's mutex guards it

	get   func(context.Context, queue.SubmissionID) (queue.Submission, error)
	write func(func() error) error
	// Raised before keys that the store now has leave memory. While it is the same, a key that was not in the store is
	// in memory, or was not used.
	moves atomic.Uint64
}

// New is the keys of a shard. get finds a submission, and write makes a write to the store.
func New(s shell.Shell, get func(context.Context, queue.SubmissionID) (queue.Submission, error),
	write func(func() error) error) *Keys {
	return &Keys{Shell: s, get: get, write: write}
}

// Key is the idempotency key of an insert, with the store's answer about it.
type Key struct {
	hash   queue.KeyHash
	stored *checkpoint.Key // nil: nothing
}

// Of is the key of an insert; nil: it has none.
func Of(n *queue.NewSubmission) *Key {
	if n.IdempotencyKey == "" {
		return nil
	}
	return &Key{hash: queue.HashKey(n.IdempotencyKey)}
}

// Decide looks the keys up in the store, then calls fn with the mutex held. Keys count as known if they were used since
// the time that fn gets. It returns fn's error; while the shard cannot work it returns the reason, and does not call
// fn.
//
// The store is asked without the mutex, memory with it. In between, a checkpoint may move a key from memory to the
// store, which was asked already: the key would be found in neither, and the insert would happen twice. moves is raised
// before a key leaves memory, so Decide notices and asks again.
func (k *Keys) Decide(ctx context.Context, list []*Key, fn func(m *machine.Machine, since queue.Time) error) error {
	for { // again if a checkpoint moved keys meanwhile, which takes much longer than this
		since, moves := k.Now().Add(-queue.IdempotencyWindow), k.moves.Load()
		for _, key := range list {
			var err error
			if key.stored, err = k.Store().Keys.Find(ctx, key.hash, since); err != nil {
				return err
			}
		}
		err := k.Locked(func(m *machine.Machine, _ queue.Time) error {
			if moves != k.moves.Load() {
				return errMoved
			}
			return fn(m, since)
		})
		if err != errMoved {
			return err
		}
	}
}

// errMoved makes Decide ask the store again: a checkpoint has just taken keys out of memory.
var errMoved = errors.New("keys moved")

// Find is the earlier insert with the key; nil: there is none. The mutex is held.
func (k *Keys) Find(m *machine.Machine, key *Key, since queue.Time) *machine.Keyed {
	if key == nil {
		return nil
	}
	if entry := m.Keys.Find(key.hash, since); entry != nil || key.stored == nil {
		return entry
	}
	return &machine.Keyed{Key: *key.stored}
}

// Room refuses a new key when there are as many as the queue may have: none is forgotten
// before its time. The mutex is held.
func (k *Keys) Room(m *machine.Machine) error {
	stored := &k.Store().Keys
	if k.Len(m) < stored.Most {
		return nil
	}
	k.Refused++
	now := k.Now()
	oldest, any := stored.Oldest()
	if !any {
		oldest = now
	}
	wait := max(oldest.Add(queue.IdempotencyWindow).Sub(now), time.Second)
	return &queue.Error{Code: queue.CodeOverloaded, RetryAfter: wait,
		Message: fmt.Sprintf("The queue knows %d idempotency keys of the "+
			"last %d hours, which is its limit, and forgets none of them early. Repeat this when Retry-After is "+
			"over, or insert "+
			"without a key. To need fewer keys, put more chunks into each submission, or use several queues.",
			stored.Most, int(queue.IdempotencyWindow.Hours()))}
}

// Len is how many keys there are. While a checkpoint writes keys, those count twice. The mutex is held.
func (k *Keys) Len(m *machine.Machine) int { return m.Keys.Len() + k.Store().Keys.Len() }

// Claim keeps others with the same key out until this insert is decided. The mutex is held.
func (k *Keys) Claim(m *machine.Machine, key *Key, n *queue.NewSubmission, op *journal.Insert,
	now queue.Time) *machine.Keyed {
	if key == nil {
		return nil
	}
	entry := &machine.Keyed{Key: checkpoint.Key{Hash: key.hash, Fingerprint: n.Fingerprint, ID: op.ID, At: now},
		Fate: machine.Fate{Published: commit.New()}}
	m.Keys.Add(entry)
	return entry
}

// Repeated answers an insert whose key came before, and makes none. known is false if the key is new; with an error it
// is undefined.
func (k *Keys) Repeated(ctx context.Context, n *queue.NewSubmission) (sub queue.Submission, known bool, err error) {
	key := Of(n)
	if key == nil {
		return sub, false, nil
	}
	var entry *machine.Keyed
	err = k.Decide(ctx, []*Key{key}, func(m *machine.Machine, since queue.Time) error {
		entry = k.Find(m, key, since)
		return nil
	})
	switch {
	case err != nil:
		return sub, true, err
	case entry == nil:
		return sub, false, nil
	}
	if err = entry.Repeatable(n); err == nil {
		sub, err = k.Repeat(ctx, entry.ID, &entry.Fate)
	}
	return sub, true, err
}

// Repeat answers an insert whose key is known with the present state of its submission,
// once the first one is committed.
func (k *Keys) Repeat(ctx context.Context, id queue.SubmissionID, of *machine.Fate) (
	sub queue.Submission, err error) {
	var published *commit.Commit
	k.Look(func(*machine.Machine) { published = of.Published })
	if published != nil {
		select {
		case <-published.Done:
		case <-ctx.Done():
			return sub, ctx.Err()
		}
	}
	var first *commit.Commit
	forgotten := false
	k.Look(func(*machine.Machine) { first, forgotten = of.Commit, of.Forgotten })
	if first != nil {
		if err := k.Wait(commit.Set{First: first}); err != nil {
			return sub, err
		}
	} else if forgotten {
		return sub, &queue.Error{Code: queue.CodeUnavailable,
			Message: "The first request with this key failed a moment ago. Send it again."}
	}
	return k.get(ctx, id)
}

// checkpointHold is how many keys one hold of the mutex drops.
const checkpointHold = 512

// Checkpoint writes keys that memory has into the store, and drops them. Those whose
// window is over are only dropped.
func (k *Keys) Checkpoint(ctx context.Context, m *machine.Machine, fresh []*machine.Keyed) error {
	since := k.Now().Add(-queue.IdempotencyWindow)
	list := make([]checkpoint.Key, 0, len(fresh))
	for _, entry := range fresh {
		if entry.At >= since {
			list = append(list, entry.Key)
		}
	}
	if err := k.write(func() error { return k.Store().Keys.Put(ctx, list) }); err != nil {
		return err
	}
	k.moves.Add(1)
	for some := range slices.Chunk(fresh, checkpointHold) {
		k.Look(func(*machine.Machine) { m.Keys.Written(len(some)) })
	}
	return nil
}
