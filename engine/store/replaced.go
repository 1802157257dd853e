package store

import (
	"sync"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/queue"
)

// Replaced are the contents that operators gave dead chunks in place of those of the insert, all of
// them. The shard's part of dead letters writes their rows and says when they go; here they are read
// without its mutex.
type Replaced struct {
	n  atomic.Int64
	mu sync.RWMutex
	of map[uint64][]byte
}

// Put keeps a content, or (nil) forgets it.
func (r *Replaced) Put(key uint64, content []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if content == nil {
		delete(r.of, key)
	} else {
		if r.of == nil {
			r.of = map[uint64][]byte{}
		}
		r.of[key] = content
	}
	r.n.Store(int64(len(r.of)))
}

// Content is what a chunk has instead of content.
func (r *Replaced) Content(seq, index uint32, content []byte) []byte {
	if r.n.Load() == 0 {
		return content
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if other, is := r.of[queue.ChunkKey(seq, index)]; is {
		return other
	}
	return content
}
