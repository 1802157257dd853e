package simtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard"
	"github.com/quern-queue/quern/engine/store"
)

// Contents wait in memory for a checkpoint up to a bound, for every way in, and with snapshots too. While the store takes nothing they are
// refused at the bound, and work without bytes goes on; when the store takes them again, the next calls make room.
func TestRoomForContents(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 48<<10) // bytes that cannot be compressed
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	n := queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Inline: [][]byte{noise}}}
	for name, bring := range map[string]func(b *box, i int) error{
		"insert": func(b *box, _ int) error {
			return b.shard.InsertMany(context.Background(), []queue.Insertion{{New: &n}, {New: &n}}, true)
		},
		"arrive": func(b *box, i int) error {
			letter := n
			letter.Origin = &queue.Origin{Source: 1, Number: uint64(i), Queue: "other", Chunk: queue.ChunkID{Submission: 99}}
			return b.shard.Forwarding.Deliver(context.Background(), []queue.Delivery{{Number: uint64(i), Submission: letter}})
		},
		"emit": func(b *box, _ int) error { return emitOnce(b, n) },
	} {
		for _, kept := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, snapshots %t", name, kept), func(t *testing.T) {
				t.Parallel()
				b, o := boxWithRoom(t, kept)
				// Three ticks may be due at once: the one that was refused, the one after it, and this one.
				most := 4*o.CheckpointBytes + 3*int64(len(noise)+512)
				if err := b.store.SetMaxPages(1); err != nil { // the pages that the file has already
					t.Fatal(err)
				}
				var err error
				i := 1
				for ; err == nil && i < 40; i++ {
					if err = bring(b, i); b.store.Memtable.Bytes() > most {
						t.Fatalf("%d bytes wait in memory, want %d at most", b.store.Memtable.Bytes(), most)
					}
				}
				if queue.CodeOf(err) != queue.CodeDiskFull {
					t.Fatalf("while the store takes nothing, bytes came in until %v, want %s", err, queue.CodeDiskFull)
				}
				_ = b.shard.Checkpoint() // one that is under way has failed then, and does not call the disk full afterwards
				if err := b.store.SetMaxPages(0); err != nil {
					t.Fatal(err)
				}
				b.shard.SetFull(false) // as the engine does when it sees room
				b.clock.pass(2 * time.Second)
				for range 10 { // more than the bound
					if err := bring(b, i); err != nil || b.store.Memtable.Bytes() > most {
						t.Fatalf("when there is room: %v, and %d bytes wait in memory, want %d at most", err, b.store.Memtable.Bytes(), most)
					}
					i++
				}
			})
		}
	}
}

// boxWithRoom is a box whose checkpoints come early.
func boxWithRoom(t *testing.T, kept bool) (*box, shard.Options) {
	b := newBox(t, relaxed())
	if kept {
		b.copies = t.TempDir()
	}
	var err error
	if b.store, err = store.Open(t.Context(), b.dir+"/store.db", store.Options{Durability: queue.Relaxed}); err != nil {
		t.Fatal(err)
	}
	o := b.options()
	o.CheckpointBytes = 64 << 10
	if b.shard, err = shard.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return b, o
}

// emitOnce has a schedule insert a submission, and says why it did not.
func emitOnce(b *box, template queue.NewSubmission) error {
	if _, err := b.shard.Schedules.Get("s"); err != nil {
		def := queue.Schedule{Spec: "@every 2s", Enabled: true, Template: template}
		if _, _, err := b.shard.Schedules.Put("s", def, nil); err != nil {
			return err
		}
	}
	b.clock.pass(2 * time.Second)
	before, err := b.shard.Schedules.Get("s")
	if err != nil {
		return err
	}
	b.shard.Worker.Tick()
	switch after, err := b.shard.Schedules.Get("s"); {
	case err != nil || after.Emitted > before.Emitted:
		return err
	case b.shard.Full():
		return &queue.Error{Code: queue.CodeDiskFull}
	default:
		return fmt.Errorf("the schedule emitted nothing: it is %v, next at %d", after.State, after.Next)
	}
}
