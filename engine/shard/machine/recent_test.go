package machine

import (
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"pgregory.net/rapid"
)

// A token counts as having completed its chunk only if it was the last one put for that chunk; the latest is always
// known.
func TestRecentModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var r recent
		type who struct {
			epoch    uint32
			sequence uint64
		}
		last := map[queue.ChunkID]who{}
		chunk := rapid.Custom(func(t *rapid.T) queue.ChunkID {
			return queue.ChunkID{
				Submission: queue.MakeSubmissionID(1_760_000_000_000, 0, rapid.Uint32Max(3).Draw(t, "submission")),
				Index:      rapid.Uint32Max(9).Draw(t, "index"),
			}
		})
		by := rapid.Custom(func(t *rapid.T) who {
			return who{rapid.Uint32Range(1, 2).Draw(t, "epoch"), rapid.Uint64Range(1, 4).Draw(t, "sequence")}
		})
		ask := func(id queue.ChunkID, w who) bool {
			return r.by(&queue.Token{Submission: id.Submission, Index: id.Index, Epoch: w.epoch, Sequence: w.sequence})
		}
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			id, w := chunk.Draw(t, "chunk"), by.Draw(t, "by")
			if ask(id, w) && last[id] != w {
				t.Fatalf("by(%v, %v) = true; the last one was %v", id, w, last[id])
			}
			r.put(id, w.epoch, w.sequence)
			last[id] = w
			if !ask(id, w) {
				t.Fatalf("by(%v, %v) = false right after put", id, w)
			}
		}
	})
}

// Most of the last completions are known, in whatever pattern they come: the table spreads indexes and ids as a random
// function would (1/e of a full table's entries is pushed out; here a quarter of the table is put: 12 %).
func TestRecentKeepsMost(t *testing.T) {
	t.Parallel()
	const count = recentEntries / 4
	id := func(sequence uint32) queue.SubmissionID {
		return queue.MakeSubmissionID(1_760_000_000_000, 0, sequence)
	}
	for name, chunk := range map[string]func(i uint32) queue.ChunkID{
		"one submission in order":    func(i uint32) queue.ChunkID { return queue.ChunkID{Submission: id(0), Index: i} },
		"one submission, every 4096": func(i uint32) queue.ChunkID { return queue.ChunkID{Submission: id(0), Index: i * 4096} },
		"first chunks":               func(i uint32) queue.ChunkID { return queue.ChunkID{Submission: id(i)} },
		"one submission a second":    func(i uint32) queue.ChunkID { return queue.ChunkID{Submission: id(0) + queue.SubmissionID(i)*1000<<22} },
		"ten chunks each":            func(i uint32) queue.ChunkID { return queue.ChunkID{Submission: id(i / 10), Index: i % 10} },
	} {
		var r recent
		for i := range uint32(count) {
			r.put(chunk(i), 1, uint64(i)+1)
		}
		kept := 0
		for i := range uint32(count) {
			c := chunk(i)
			if r.by(&queue.Token{Submission: c.Submission, Index: c.Index, Epoch: 1, Sequence: uint64(i) + 1}) {
				kept++
			}
		}
		t.Logf("%s: %.1f %% of %d are known", name, 100*float64(kept)/count, count)
		if kept < count*85/100 {
			t.Errorf("%s: %d of %d are known; want at least 85 %%", name, kept, count)
		}
	}
}
