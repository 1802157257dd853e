package simtest

import (
	"fmt"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// post is two shards between which dead letters go, each on files of its own.
type post struct {
	from, to *box
}

func newPost(t *testing.T) *post {
	t.Helper()
	sends := deadLetters()
	sends.DeadLetterQueue = "there"
	return &post{openBox(t, sends), openBox(t, relaxed())}
}

// deliver takes the first `most` letters on their way in at the other shard, and says which they were.
func (p *post) deliver(t *testing.T, most int) (numbers []uint64) {
	t.Helper()
	var list []queue.Delivery
	for _, o := range p.from.shard.Forwarding.Outgoing(0, most) {
		n, err := p.from.shard.Forwarding.Parcel(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		list, numbers = append(list, queue.Delivery{Number: o.Number, Submission: n}), append(numbers, o.Number)
	}
	if err := p.to.shard.Forwarding.Deliver(ctx, list); err != nil {
		t.Fatal(err)
	}
	return numbers
}

func (p *post) letGo(t *testing.T, numbers []uint64) {
	t.Helper()
	if err := p.from.shard.Forwarding.Delivered(numbers); err != nil {
		t.Fatal(err)
	}
}

// The moments of the two files of a shard after a kill.
const (
	asTheyAre   = iota
	storeLater  // a checkpoint wrote its rows and the note of its position; the journal is as it was
	storeAhead  // a checkpoint wrote its rows, but not the note
	storeHalf   // a checkpoint wrote the rows of rules and of submissions, but not those beside them, nor the note
	allFolded   // a checkpoint ended: everything before it is only in the store
	killMoments // how many there are
)

// kill opens a copy of the files in the state that a kill at that moment leaves.
func (b *box) kill(t *testing.T, moment int) {
	t.Helper()
	dir := t.TempDir()
	if moment == allFolded {
		if err := b.shard.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	b.copyFiles("journal.db", dir)
	checkpointed, err := b.store.Checkpointed(ctx)
	if err != nil {
		t.Fatal(err)
	}
	asides := b.asides()
	if moment == storeLater || moment == storeAhead || moment == storeHalf {
		if err := b.shard.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	b.copyFiles("store.db", dir)
	b.close()
	b.dir = dir
	if moment == storeAhead || moment == storeHalf {
		rewindFolded(t, dir, checkpointed)
	}
	if moment == storeHalf {
		rewindAsides(t, dir, asides)
	}
	b.open()
}

// arrivals counts the submissions of a shard by where they came from.
func (p *post) arrivals(t *testing.T) map[queue.ChunkID]int {
	t.Helper()
	list, _, err := p.to.shard.Submissions.List(ctx, machine.Filter{}, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	got := map[queue.ChunkID]int{}
	for _, sub := range list {
		got[sub.Origin.Chunk]++
	}
	return got
}

// A crash at any step, with each file of either side in any state that a kill can leave, loses no letter and makes none twice.
func TestForwardAcrossCrashes(t *testing.T) {
	t.Parallel()
	const steps, letters = 5, 7
	for step := range steps {
		for kind := range killMoments * killMoments {
			t.Run(fmt.Sprintf("step %d, files %d", step, kind), func(t *testing.T) {
				t.Parallel()
				p := newPost(t)
				crash := func(at int) { // of both sides
					if at == step {
						p.from.kill(t, kind%killMoments)
						p.to.kill(t, kind/killMoments)
					}
				}
				inline := mustInsert(t, p.from, queue.NewSubmission{Chunks: queue.Chunks{Count: 3, Inline: [][]byte{[]byte("a"), []byte("b"), []byte("c")}}, Attachment: []byte("for all")})
				prefix := mustInsert(t, p.from, prefixed(4))
				for range letters {
					p.from.mustFail(mustReserve(t, p.from, "OldestFirst", 1), func(f *queue.FailItem) { f.Fatal, f.Error = true, "no" })
				}
				crash(0)
				numbers := p.deliver(t, 3)
				crash(1)
				p.letGo(t, numbers)
				crash(2)
				p.deliver(t, letters)
				crash(3)
				p.letGo(t, p.deliver(t, letters))
				crash(4)
				for again := true; again; again = len(p.from.shard.Forwarding.Outgoing(0, 1)) > 0 {
					p.letGo(t, p.deliver(t, letters))
				}
				got := p.arrivals(t)
				for _, sub := range []queue.Submission{inline, prefix} {
					for i := range sub.Chunks {
						if n := got[queue.ChunkID{Submission: sub.ID, Index: i}]; n != 1 {
							t.Errorf("chunk %d of %s has %d copies, want 1", i, sub.ID, n)
						}
					}
					if now := p.from.sub(sub.ID); now.State != queue.Completed || now.Skipped != now.Chunks || now.Forwarded != now.Chunks || now.Dead != 0 {
						t.Errorf("the submission of the letters: got %+v, want it completed, all chunks skipped and forwarded", now)
					}
				}
				if len(got) != letters {
					t.Errorf("%d chunks arrived, want %d: %v", len(got), letters, got)
				}
				p.contents(t)
			})
		}
	}
}

// contents checks that the chunks arrive as they were sent.
func (p *post) contents(t *testing.T) {
	t.Helper()
	for _, r := range mustReserve(t, p.to, "OldestFirst", 100) {
		sub := p.to.sub(r.Token.Submission)
		at := sub.Origin.Chunk.Index
		want := fmt.Sprint("dir/", at)
		if !r.Content.IsKey {
			want = string(rune('a' + at))
			if string(r.Attachment) != "for all" {
				t.Errorf("attachment of %s: got %q, want that of its submission", sub.ID, r.Attachment)
			}
		}
		if string(r.Content.Bytes) != want || sub.Origin.Error != "no" || sub.Origin.Attempts != 1 {
			t.Errorf("content of chunk %d: got %q from %+v, want %q", at, r.Content.Bytes, sub.Origin, want)
		}
	}
}

// A dead letter on its way keeps its submission, and with it the content, in the history, however short the retention.
//
//quern:overlapping
func TestRetentionWaitsForDelivery(t *testing.T) {
	t.Parallel()
	p := newPost(t)
	sub := mustInsert(t, p.from, queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Inline: [][]byte{[]byte("a")}}})
	other := mustInsert(t, p.from, prefixed(1))
	done := mustReserve(t, p.from, `OldestFirst`, 2)
	p.from.mustFail(done[:1], func(f *queue.FailItem) { f.Fatal = true })
	if _, err := p.from.shard.Complete(ctx, []queue.CompleteItem{{Token: done[1].Token}}, nil); err != nil {
		t.Fatal(err)
	}
	retain := func() {
		if err := p.from.shard.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		if _, err := p.from.shard.Retention.Retain(ctx, p.from.clock.now()+1, 100); err != nil {
			t.Fatal(err)
		}
	}
	retain()
	p.letGo(t, p.deliver(t, 1))
	if got := p.arrivals(t); len(got) != 1 {
		t.Errorf("arrived: %v, want the one letter", got)
	}
	retain()
	for _, id := range []queue.SubmissionID{sub.ID, other.ID} {
		if _, err := p.from.shard.Submissions.Get(ctx, id); queue.CodeOf(err) != queue.CodeUnknownSubmission {
			t.Errorf("submission %s after its retention: %v, want it gone", id, err)
		}
	}
}

// A shard that was deleted and made again under its number has another outbox: its first letter is not taken for the first of the old one.
func TestOutboxesOfOneShardNumber(t *testing.T) {
	t.Parallel()
	to := openBox(t, relaxed())
	for life := range 2 {
		sends := deadLetters()
		sends.DeadLetterQueue = "there"
		from := newBox(t, sends)
		from.born = queue.Time(life + 1)
		from.open()
		p := &post{from, to}
		mustInsert(t, from, prefixed(1))
		from.mustFail(mustReserve(t, from, "OldestFirst", 1), func(f *queue.FailItem) { f.Fatal = true })
		p.letGo(t, p.deliver(t, 1))
		if got := to.shard.Stats().SubmissionsOpen; got != uint64(life+1) {
			t.Errorf("after life %d: %d submissions, want %d", life, got, life+1)
		}
	}
}
