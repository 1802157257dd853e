package engine

import (
	"context"
	"fmt"
	"github.com/quern-queue/quern/engine/shard/submissions"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/recount"
	"github.com/quern-queue/quern/engine/store"
)

// Kept is how much data of submissions was read.
type Kept = submissions.Kept

// NoChunk is the chunk of a fault that is not about one chunk.
const NoChunk = submissions.NoChunk

// VerifiedQueue is how much was checked in a queue.
type VerifiedQueue struct {
	Name        string
	Submissions uint64
	Open        uint64
	Kept        Kept
	Counters    uint64 // that were compared with what they count
}

// Fault is something in a queue that is wrong.
type Fault struct {
	Queue      string
	Submission queue.SubmissionID // 0: none
	Chunk      int64              // NoChunk: none
	Chunks     []uint32           // of lost outputs: those whose, as far as they can be told
	Loss       store.Loss         // how a repair notes it; its Kind is 0 if it cannot
	What       string
}

// Verify reads all data of a queue, and compares its counters with what they count. It calls tell for each thing that is damaged or
// missing. An error means that it could not look. It is meant for a directory in which nothing else happens, as it takes as long as the
// reading takes.
func (s Storage) Verify(ctx context.Context, queueName string, tell func(Fault)) (v VerifiedQueue, err error) {
	v.Name = queueName
	q, err := s.e.Queue(queueName)
	if err != nil {
		return v, err
	}
	for at := ""; ; {
		page, err := q.Submissions.List(ctx, ListRequest{Cursor: at, Limit: queue.MaxListLimit})
		if err != nil {
			tell(Fault{Queue: queueName, Chunk: NoChunk,
				What: fmt.Sprintf("its submissions from the cursor %q on cannot be read: %v", at, err)})
			break
		}
		for i := range page.Items {
			sub := &page.Items[i]
			v.Submissions++
			if sub.State == queue.Open {
				v.Open++
			}
			err := q.shard.Submissions.Verify(ctx, sub.ID, &v.Kept, func(w submissions.Wrong) {
				tell(Fault{Queue: queueName, Submission: sub.ID, Chunk: w.Chunk, Chunks: w.Chunks, Loss: w.Loss, What: w.What})
			})
			if err != nil {
				return v, err
			}
		}
		if at = page.Next; at == "" {
			break
		}
	}
	v.Counters, err = recounted(ctx, q, tell)
	return v, err
}

// recountSlice is how many steps of a recount are taken at once.
const recountSlice = 10_000

// recounted compares the counters of a queue. A total is wrong if it differs twice.
func recounted(ctx context.Context, q *Queue, tell func(Fault)) (compared uint64, err error) {
	for range 2 {
		for over := false; !over; {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			if over, err = q.shard.Recounts.Step(recountSlice); err != nil {
				return 0, err
			}
		}
	}
	now := q.shard.Recounts.State
	for _, n := range now.Checked {
		compared += n
	}
	for counter, n := range now.Drifts {
		if n > 0 {
			tell(Fault{Queue: q.name, Chunk: NoChunk,
				What: fmt.Sprintf("the counter %s was wrong in %d places", recount.Counter(counter), n)})
		}
	}
	return compared / 2, nil
}

// Checkpoint makes a checkpoint of a queue: its store takes up its journal.
func (s Storage) Checkpoint(queueName string) error {
	q, err := s.e.Queue(queueName)
	if err != nil {
		return err
	}
	return q.shard.Checkpoint()
}
