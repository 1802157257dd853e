package simtest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// crowdBooks are the chunks that the clients of a crowd hold, by their own books.
type crowdBooks struct {
	mu   sync.Mutex
	held map[queue.ChunkID]int // by client
	done map[queue.ChunkID]bool
}

// TestReloadsLeaveACrowdItsChunks: 20 clients reserve, extend and complete while appends end unknown and the shard reloads. No chunk is with
// two of them, what a client holds it can extend and complete, and all work gets done once.
//
//quern:overlapping
func TestReloadsLeaveACrowdItsChunks(t *testing.T) {
	t.Parallel()
	const clients, chunks = 20, 1500
	b, f := faultyBox(t, relaxed())
	mustInsert(t, b, prefixed(chunks))
	books := &crowdBooks{held: map[queue.ChunkID]int{}, done: map[queue.ChunkID]bool{}}
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() { books.work(t, b, i) })
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		r := newRand(11, 97)
		for {
			select {
			case <-stop:
				return
			default:
			}
			kind := pickFrom(r, unknownLost, unknownWritten)
			f.arm(kind, r.IntN(2))
			if err := b.settle(); err != nil && queue.CodeOf(err) == "" {
				t.Error(err)
			}
		}
	}()
	all.Wait()
	close(stop)
	<-stopped
	f.arm(noFault, 0)
	t.Logf("%d commits failed", f.played())
	if len(books.done) != chunks || f.played() == 0 {
		t.Errorf("%d of %d chunks are done, and %d commits failed; want all, and some", len(books.done), chunks, f.played())
	}
	if got := b.shard.Stats(); got.Reserved != 0 {
		t.Errorf("%d chunks are reserved at the end, want none", got.Reserved)
	}
	if err := b.shard.Audit(); err != nil {
		t.Error(err)
	}
}

// again calls a client's call until it is answered: a reload refuses it, or the commit that it is in fails.
func again(t *testing.T, what string, call func() error) {
	for {
		err := call()
		switch queue.CodeOf(err) {
		case queue.CodeCommitFailed, queue.CodeUnavailable:
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return
	}
}

// work is one client: it ends when nothing is left.
func (k *crowdBooks) work(t *testing.T, b *box, client int) {
	for {
		var got machine.Reserved
		again(t, "reserve", func() (err error) {
			got, err = b.shard.Reserve(ctx, machine.Request{Plan: plan(t, "Random"), Max: 3, Timeout: time.Hour, Consumer: fmt.Sprint("c", client)}, nil)
			return err
		})
		if len(got.Reservations) == 0 {
			return
		}
		k.took(t, client, got.Reservations)
		extends := make([]queue.ExtendItem, len(got.Reservations))
		for i := range extends {
			extends[i] = queue.ExtendItem{Token: got.Reservations[i].Token, Timeout: 3_600_000, Consumer: fmt.Sprint("c", client)}
		}
		var results []queue.Result
		again(t, "extend", func() (err error) { results, err = b.shard.Extend(ctx, extends, nil); return err })
		k.check(t, "extend", results, queue.OutcomeOK)
		k.gave(got.Reservations)
		again(t, "complete", func() (err error) {
			results, err = b.shard.Complete(ctx, completions(got.Reservations), nil)
			return err
		})
		forget(t, b, got.Reservations, results)
		k.check(t, "complete", results, queue.OutcomeOK, queue.OutcomeAlready)
	}
}

// forget treats a written completion whose repetition is answered "lost" as if it were answered "already": several chunks share one place
// in the table of recent completions. The chunk has to be done.
func forget(t *testing.T, b *box, list []queue.Reservation, results []queue.Result) {
	for i := range results {
		if results[i].Outcome != queue.OutcomeLost {
			continue
		}
		chunk, err := b.shard.Submissions.Chunk(ctx, list[i].Token.Submission, list[i].Token.Index)
		if err != nil {
			t.Error(err)
		}
		if chunk.State == queue.ChunkDone {
			results[i].Outcome = queue.OutcomeAlready
		}
	}
}

// took notes the chunks that a client got.
func (k *crowdBooks) took(t *testing.T, client int, list []queue.Reservation) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range list {
		chunk := chunkOf(&list[i].Token)
		if other, held := k.held[chunk]; held || k.done[chunk] {
			t.Errorf("client %d gets chunk %s, which client %d has, or has done", client, chunk, other)
		}
		k.held[chunk] = client
	}
}

// gave notes the chunks that a client is about to complete. The client tries until it has an answer, so no one else gets them.
func (k *crowdBooks) gave(list []queue.Reservation) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range list {
		delete(k.held, chunkOf(&list[i].Token))
		k.done[chunkOf(&list[i].Token)] = true
	}
}

func (k *crowdBooks) check(t *testing.T, what string, results []queue.Result, want ...queue.Outcome) {
	for i := range results {
		if !slices.Contains(want, results[i].Outcome) {
			t.Errorf("%s of what is held: %v %s", what, results[i].Outcome, results[i].Detail)
		}
	}
}
