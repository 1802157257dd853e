package machine

import (
	"encoding/binary"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
)

// recent remembers which token completed a chunk, for the consumer that asks again because
// it never got the answer. It is a direct-mapped table: a later completion may push an earlier one out, after which the
// answer is the careful one, "lost". A checkpoint stores it in parts, and a replay of the journal fills in later
// completions, so it also serves across restarts. The result of place is therefore part of the files' format.
type recent struct {
	Entries []uint64          // fingerprints of tokens, each where its chunk's hash says
	changed [RecentParts]bool // since they were stored
}

const (
	recentEntries = 1 << 15
	// RecentParts is in how many parts the table is stored.
	RecentParts   = 64
	recentPart    = recentEntries / RecentParts // entries: 4 KiB
	recentVersion = 1
)

// Fibonacci hashing (Knuth, TAOCP 3, 6.4), twice, as ids of one shard differ in few bits
const golden = 0x9E3779B97F4A7C15

func scatter(n uint64) uint64 {
	n *= golden
	return (n ^ n>>32) * golden
}

// place is where a chunk's entry is, and the fingerprint of one of its tokens: 64 bits of
// chunk, epoch and sequence, so that two tokens are taken for each other once in 2^63 tries.
func (r *recent) place(id queue.ChunkID, epoch uint32, sequence uint64) (at, fingerprint uint64) {
	if r.Entries == nil {
		r.Entries = make([]uint64, recentEntries)
	}
	hash := scatter(uint64(id.Submission) ^ uint64(id.Index)*golden)
	return hash >> (64 - 15), scatter(hash^scatter(sequence<<16^uint64(epoch))) | 1
}

func (r *recent) put(id queue.ChunkID, epoch uint32, sequence uint64) {
	at, fingerprint := r.place(id, epoch, sequence)
	r.Entries[at] = fingerprint
	r.changed[at/recentPart] = true
}

// clone is a copy of the table.
func (r *recent) clone() recent {
	c := recent{Entries: slices.Clone(r.Entries)}
	for part := range c.changed {
		c.changed[part] = c.Entries != nil // a checkpoint that was writing it may have failed
	}
	return c
}

// by says whether this very token completed its chunk, as far as remembered.
func (r *recent) by(t *queue.Token) bool {
	if r.Entries == nil {
		return false
	}
	at, fingerprint := r.place(queue.ChunkID{Submission: t.Submission, Index: t.Index}, t.Epoch, t.Sequence)
	return r.Entries[at] == fingerprint
}

// Row is Rows': a part as it is stored.
func (r *recent) Row(part uint64) []byte {
	row := make([]byte, 1, 1+8*recentPart)
	row[0] = recentVersion
	for _, fingerprint := range r.Entries[part*recentPart:][:recentPart] {
		row = binary.BigEndian.AppendUint64(row, fingerprint)
	}
	return row
}

// Load is Rows': it takes a stored part.
func (r *recent) Load(part uint64, row []byte) error {
	if part >= RecentParts || len(row) != 1+8*recentPart || row[0] != recentVersion {
		return AsideError(AsideRecent)
	}
	if r.Entries == nil {
		r.Entries = make([]uint64, recentEntries)
	}
	for i := range recentPart {
		r.Entries[part*recentPart+uint64(i)] = binary.BigEndian.Uint64(row[1+8*i:])
	}
	return nil
}
