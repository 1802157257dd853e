package shard

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// claims are the idempotency keys of inserts. Memory has those of inserts under way, and those that no checkpoint has written yet; the
// store has the others. The store is asked before the mutex is taken: no call waits for another's read.
type claims struct {
	s *Shard
	// Raised before keys that are in the store leave memory. While it is the same, a key that was not in the store is in memory, or was not
	// used.
	moves   atomic.Uint64
	refused uint64 // inserts that found no room for their key; the mutex guards it
}

// askedKey is the idempotency key of an insert.
type askedKey struct {
	hash   queue.KeyHash
	stored *checkpoint.Key // what the store knows of it; nil: nothing
}

// keyOf is the key of an insert; nil: it has none.
func keyOf(n *queue.NewSubmission) *askedKey {
	if n.IdempotencyKey == "" {
		return nil
	}
	return &askedKey{hash: queue.HashKey(n.IdempotencyKey)}
}

// decide calls fn with the mutex held when it is known what the store has of the keys. Keys are known that were used since the time that
// fn is told.
func (p *claims) decide(ctx context.Context, list []asked, fn func(since queue.Time)) error {
	for { // again if a checkpoint moved keys meanwhile, which takes much longer than this
		since, moves := p.s.now().Add(-queue.IdempotencyWindow), p.moves.Load()
		for i := range list {
			if key := list[i].key; key != nil {
				var err error
				if key.stored, err = p.s.store.Keys.Find(ctx, key.hash, since); err != nil {
					return err
				}
			}
		}
		if p.unmoved(moves, since, fn) {
			return nil
		}
	}
}

// unmoved calls fn with the mutex held, unless keys have moved.
func (p *claims) unmoved(moves uint64, since queue.Time, fn func(since queue.Time)) bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if moves != p.moves.Load() {
		return false
	}
	fn(since)
	return true
}

// find is the insert that came with the key before; nil: none did. The mutex is held.
func (p *claims) find(key *askedKey, since queue.Time) *machine.Keyed {
	if key == nil {
		return nil
	}
	if entry := p.s.m.Keys.Find(key.hash, since); entry != nil || key.stored == nil {
		return entry
	}
	return &machine.Keyed{Key: *key.stored}
}

// room refuses a new key when there are as many as the queue may have: none is forgotten before its time. The mutex is held.
func (p *claims) room() error {
	s := p.s
	if p.len() < s.store.Keys.Most {
		return nil
	}
	p.refused++
	now := s.now()
	oldest, any := s.store.Keys.Oldest()
	if !any {
		oldest = now
	}
	wait := max(oldest.Add(queue.IdempotencyWindow).Sub(now), time.Second)
	return &queue.Error{Code: queue.CodeOverloaded, RetryAfter: wait, Message: fmt.Sprintf("The queue knows %d idempotency keys of the "+
		"last %d hours, the most that it may, and forgets none of them early. Send this again when Retry-After is over, or insert "+
		"without a key. To need fewer keys, put more chunks into each submission, or use several queues.",
		s.store.Keys.Most, int(queue.IdempotencyWindow.Hours()))}
}

// len is how many keys there are. While a checkpoint writes keys, those count twice. The mutex is held.
func (p *claims) len() int { return p.s.m.Keys.Len() + p.s.store.Keys.Len() }

// claim keeps others with the same key out until this insert is decided. The mutex is held.
func (p *claims) claim(key *askedKey, n *queue.NewSubmission, op *journal.Insert, now queue.Time) *machine.Keyed {
	if key == nil {
		return nil
	}
	entry := &machine.Keyed{Key: checkpoint.Key{Hash: key.hash, Fingerprint: n.Fingerprint, ID: op.ID, At: now}, Published: commit.New()}
	p.s.m.Keys.Add(entry)
	return entry
}

// repeat answers an insert whose key is known with the present state of its submission, once the first one is committed.
func (p *claims) repeat(ctx context.Context, entry *machine.Keyed) (sub queue.Submission, err error) {
	s := p.s
	if entry.Published != nil {
		select {
		case <-entry.Published.Done:
		case <-ctx.Done():
			return sub, ctx.Err()
		}
	}
	s.mu.Lock()
	b, forgotten := entry.Commit, entry.Forgotten
	s.mu.Unlock()
	if b != nil {
		if err := s.writer.wait(commit.Set{First: b}); err != nil {
			return sub, err
		}
	} else if forgotten {
		return sub, &queue.Error{Code: queue.CodeUnavailable,
			Message: "The first request with this Idempotency-Key failed a moment ago. Send it again."}
	}
	return s.Submissions.Get(ctx, entry.ID)
}

// checkpoint writes keys that memory has into the store, and drops them. Those whose window is over are only dropped.
func (p *claims) checkpoint(ctx context.Context, m *machine.Machine, fresh []*machine.Keyed) error {
	s := p.s
	since := s.now().Add(-queue.IdempotencyWindow)
	list := make([]checkpoint.Key, 0, len(fresh))
	for _, entry := range fresh {
		if entry.At >= since {
			list = append(list, entry.Key)
		}
	}
	if err := s.disk.write(func() error { return s.store.Keys.Put(ctx, list) }); err != nil {
		return err
	}
	p.moves.Add(1)
	for some := range slices.Chunk(fresh, checkpointHold) {
		s.mu.held(func() { m.Keys.Written(len(some)) })
	}
	return nil
}
