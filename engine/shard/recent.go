package shard

import "github.com/quern-queue/quern/engine/queue"

// recent remembers which token completed a chunk, for the consumer that asks again because it never got the answer. It
// is a direct-mapped table: a later completion may push an earlier one out, after which the answer is the careful one,
// "lost". Replaying the journal fills it again, so it also serves across a crash.
type recent struct {
	entries []recentEntry
}

type recentEntry struct {
	chunk    queue.ChunkID
	epoch    uint32
	sequence uint64
}

const recentEntries = 1 << 15

func (r *recent) slot(id queue.ChunkID) *recentEntry {
	if r.entries == nil {
		r.entries = make([]recentEntry, recentEntries)
	}
	const golden = 0x9E3779B97F4A7C15 // Fibonacci hashing (Knuth, TAOCP 3, 6.4), twice as ids of one shard differ in few bits
	hash := (uint64(id.Submission) ^ uint64(id.Index)*golden) * golden
	hash = (hash ^ hash>>32) * golden
	return &r.entries[hash>>(64-15)]
}

func (r *recent) put(id queue.ChunkID, epoch uint32, sequence uint64) {
	*r.slot(id) = recentEntry{id, epoch, sequence}
}

// by says whether this very token completed its chunk, as far as remembered.
func (r *recent) by(t *queue.Token) bool {
	id := queue.ChunkID{Submission: t.Submission, Index: t.Index}
	return *r.slot(id) == recentEntry{id, t.Epoch, t.Sequence}
}
