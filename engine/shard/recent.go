package shard

import "github.com/quern-queue/quern/engine/queue"

// recent remembers which token completed a chunk, for the consumer that asks again because it never got the answer. It
// is a direct-mapped table: a later completion may push an earlier one out, after which the answer is the careful one,
// "lost". Replaying the journal fills it again, so it also serves across a crash.
type recent struct {
	entries []uint64 // fingerprints of tokens, each where its chunk's hash says
}

const recentEntries = 1 << 15

const golden = 0x9E3779B97F4A7C15 // Fibonacci hashing (Knuth, TAOCP 3, 6.4), twice as ids of one shard differ in few bits

func scatter(n uint64) uint64 {
	n *= golden
	return (n ^ n>>32) * golden
}

// place is where a chunk's entry lies, and the fingerprint of one of its tokens: 64 bits of chunk, epoch and sequence, so
// that two tokens are taken for each other once in 2^63 tries.
func (r *recent) place(id queue.ChunkID, epoch uint32, sequence uint64) (entry *uint64, fingerprint uint64) {
	if r.entries == nil {
		r.entries = make([]uint64, recentEntries)
	}
	hash := scatter(uint64(id.Submission) ^ uint64(id.Index)*golden)
	return &r.entries[hash>>(64-15)], scatter(hash^scatter(sequence<<16^uint64(epoch))) | 1
}

func (r *recent) put(id queue.ChunkID, epoch uint32, sequence uint64) {
	entry, fingerprint := r.place(id, epoch, sequence)
	*entry = fingerprint
}

// by says whether this very token completed its chunk, as far as remembered.
func (r *recent) by(t *queue.Token) bool {
	entry, fingerprint := r.place(queue.ChunkID{Submission: t.Submission, Index: t.Index}, t.Epoch, t.Sequence)
	return *entry == fingerprint
}
