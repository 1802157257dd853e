package simtest

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// A dead chunk is redriven with its replaced content, in every state of the files at a kill: with contents in rows or in blobs, in a
// submission that is open or has ended. Other chunks keep theirs, and the last change counts.
func TestReplacedContent(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("x"), 200<<10)
	for kind := range killMoments {
		for _, contents := range [][][]byte{{[]byte("a"), []byte("b"), []byte("c")}, {large, []byte("b"), []byte("c")}} {
			for _, died := range []int{2, 3} { // with three the submission has ended
				b := openBox(t, deadLetters())
				id := mustInsert(t, b, queue.NewSubmission{Chunks: queue.Chunks{Count: 3, Inline: contents}}).ID
				b.mustFail(mustReserve(t, b, "OldestFirst", died), func(f *queue.FailItem) { f.Fatal = true })
				for i, text := range []string{"wrong", "right"} {
					if i == 1 && kind == allFolded {
						if err := b.shard.Checkpoint(); err != nil {
							t.Fatal(err)
						}
					}
					if err := b.shard.DeadLetters.Replace(ctx, queue.ChunkID{Submission: id}, []byte(text), nil); err != nil {
						t.Fatal(err)
					}
				}
				b.kill(t, kind)
				b.kill(t, allFolded) // by its row alone
				if got, err := b.shard.DeadLetters.Content(ctx, queue.ChunkID{Submission: id}); err != nil || string(got) != "right" {
					t.Fatalf("files %d: the content is %q, %v", kind, got, err)
				}
				if n, err := b.shard.DeadLetters.Redrive(ctx, id, []uint32{0, 1}); n != 2 || err != nil {
					t.Fatal(n, err)
				}
				for _, r := range mustReserve(t, b, "OldestFirst", 2) {
					if want := []string{"right", "b", "c"}[r.Token.Index]; string(r.Content.Bytes) != want {
						t.Errorf("files %d: chunk %d has %q, want %q", kind, r.Token.Index, r.Content.Bytes, want)
					}
				}
			}
		}
	}
}

// A replacement is refused if the content is not inline, the chunk is not dead, or the bytes are too many. Nothing is left of a commit
// that failed. Replaced contents go with their submission.
func TestReplacedContentIsBounded(t *testing.T) {
	t.Parallel()
	settings := deadLetters()
	settings.Retention = time.Second
	b := openBox(t, settings)
	keyed := mustInsert(t, b, prefixed(1)).ID
	b.mustFail(mustReserve(t, b, "OldestFirst", 1), func(f *queue.FailItem) { f.Fatal = true })
	first := queue.ChunkID{Submission: keyed}
	if err := b.shard.DeadLetters.Replace(ctx, first, []byte("x"), nil); queue.CodeOf(err) != queue.CodeConflict || !strings.Contains(err.Error(), "not inline") {
		t.Errorf("of a key: %v", err)
	}
	id := mustInsert(t, b, queue.NewSubmission{Chunks: queue.Chunks{Count: 300, Inline: slicesOf(300)}}).ID
	if err := b.shard.DeadLetters.Replace(ctx, queue.ChunkID{Submission: id}, []byte("x"), nil); queue.CodeOf(err) != queue.CodeUnknownDeadLetter {
		t.Errorf("of a chunk that is ready: %v", err)
	}
	b.mustFail(mustReserve(t, b, "OldestFirst", 300), func(f *queue.FailItem) { f.Fatal = true })
	content := bytes.Repeat([]byte("x"), queue.MaxReplacedContent)
	n := uint32(0)
	var err error
	for ; n < 300 && err == nil; n++ {
		err = b.shard.DeadLetters.Replace(ctx, queue.ChunkID{Submission: id, Index: n}, content, nil)
	}
	if n != queue.MaxReplacedBytes/queue.MaxReplacedContent+1 || queue.CodeOf(err) != queue.CodeOverloaded {
		t.Errorf("after %d contents of the largest size: %v", n, err)
	}
	if err := b.shard.DeadLetters.Replace(ctx, queue.ChunkID{Submission: id}, []byte("less"), nil); err != nil {
		t.Errorf("a smaller one in its place: %v", err)
	}
	if n, err := b.shard.DeadLetters.Delete(ctx, id, indexes(300)); n != 300 || err != nil {
		t.Fatal(n, err)
	}
	if err := b.shard.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	b.clock.pass(time.Hour)
	if _, err := b.shard.Retention.Retain(ctx, b.clock.now(), 1000); err != nil {
		t.Fatal(err)
	}
	if _, err := b.shard.Submissions.Get(ctx, id); queue.CodeOf(err) != queue.CodeUnknownSubmission {
		t.Fatalf("after its retention: %v", err)
	}
	b.kill(t, allFolded)
	for _, a := range b.asides() {
		if a.Kind == 12 {
			t.Fatalf("a row of a changed content is left: %d", a.Key)
		}
	}
}

func slicesOf(n int) (all [][]byte) {
	for range n {
		all = append(all, []byte("x"))
	}
	return all
}

func indexes(n uint32) (all []uint32) {
	for i := range n {
		all = append(all, i)
	}
	return all
}
