package simtest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// carriedBytes is a box with one submission of two chunks, of which one is done, with an output.
type carriedBytes struct {
	*box
	id         queue.SubmissionID
	chunks     [][]byte
	attachment []byte
	output     []byte
}

// filler is so many bytes that show their origin.
func filler(name byte, size int) []byte { return bytes.Repeat([]byte{name}, size) }

func insertBytes(t *testing.T, b *box, size int) *carriedBytes {
	c := &carriedBytes{box: b, chunks: [][]byte{filler('a', size/2), filler('b', size/4)}, attachment: filler('c', size/4), output: filler('d', size)}
	c.id = mustInsert(t, b, queue.NewSubmission{Chunks: queue.Chunks{Count: 2, Inline: c.chunks}, Attachment: c.attachment}).ID
	held := mustReserve(t, b, "OldestFirst", 2)
	c.check(t, "at once", held)
	items := []queue.CompleteItem{{Token: held[0].Token, Output: c.output}}
	if got, err := b.shard.Complete(ctx, items, nil); err != nil || got[0].Outcome != queue.OutcomeOK {
		t.Fatalf("complete: %v %v", got, err)
	}
	c.chunks[held[0].Token.Index] = nil // it is done
	c.done(t, "at once", held[0].Token.Index)
	return c
}

// check compares the contents that are handed out.
func (c *carriedBytes) check(t *testing.T, when string, held []queue.Reservation) {
	t.Helper()
	for i := range held {
		r := &held[i]
		if want := c.chunks[r.Token.Index]; want == nil || !bytes.Equal(r.Content.Bytes, want) || !bytes.Equal(r.Attachment, c.attachment) {
			t.Errorf("%s: chunk %d is handed out with %d bytes and %d attached, want %d and %d", when, r.Token.Index, len(r.Content.Bytes), len(r.Attachment), len(want), len(c.attachment))
		}
	}
}

func (c *carriedBytes) done(t *testing.T, when string, index uint32) {
	t.Helper()
	chunk, err := c.shard.Submissions.Chunk(ctx, c.id, index)
	if err != nil || !bytes.Equal(chunk.Output, c.output) {
		t.Errorf("%s: chunk %d has an output of %d bytes and %v, want %d bytes", when, index, len(chunk.Output), err, len(c.output))
	}
	err = c.shard.Submissions.Outputs(ctx, c.id, func(at uint32, got []byte) error {
		if at != index || !bytes.Equal(got, c.output) {
			t.Errorf("%s: an output of chunk %d with %d bytes, want one of chunk %d with %d", when, at, len(got), index, len(c.output))
		}
		return nil
	})
	if err != nil {
		t.Errorf("%s: outputs: %v", when, err)
	}
}

// TestBytesOutliveAKill: contents, attachments and outputs are there after a kill byte for byte, of every size around the border between
// the journal and the store, and after each step of a checkpoint.
func TestBytesOutliveAKill(t *testing.T) {
	t.Parallel()
	const border = 1000
	for _, size := range []int{4, border / 2, border - 8, border - 7, border, border + 8, 50 * border} {
		for moment := range killMoments {
			t.Run(fmt.Sprintf("%d bytes, moment %d", size, moment), func(t *testing.T) {
				t.Parallel()
				b := newBox(t, relaxed())
				b.opBytes = border
				b.open()
				c := insertBytes(t, b, size)
				for round := range 2 { // the second one after a replay
					when := fmt.Sprintf("after kill %d", round+1)
					b.kill(t, moment)
					rest := mustReserve(t, b, "OldestFirst", 2)
					if len(rest) != 1 {
						t.Fatalf("%s: %d chunks are handed out, want the one that is not done", when, len(rest))
					}
					c.check(t, when, rest)
					c.done(t, when, 1-rest[0].Token.Index)
				}
			})
		}
	}
}

// TestJournalHasEverything: contents of small calls are only in the journal until a checkpoint. With a store from before these calls
// nothing is lost.
func TestJournalHasEverything(t *testing.T) {
	t.Parallel()
	b := openBox(t, relaxed())
	left := t.TempDir()
	b.copyFiles("store.db", left) // and nothing that comes after
	c := insertBytes(t, b, 60_000)
	b.copyFiles("journal.db", left)
	b.close()
	b.dir = left
	b.open()
	rest := mustReserve(t, b, "OldestFirst", 2)
	c.check(t, "with the old store", rest)
	c.done(t, "with the old store", 1-rest[0].Token.Index)
	if err := b.shard.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if n := b.store.Memtable.Bytes(); n != 0 {
		t.Errorf("after a checkpoint %d bytes are still in memory", n)
	}
	c.done(t, "checkpointed", 1-rest[0].Token.Index)
}
