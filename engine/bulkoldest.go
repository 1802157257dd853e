package engine

import (
	"container/heap"
	"context"

	"github.com/quern-queue/quern/engine/queue"
)

// ages is a heap of dead letters by when they died, the one that died last on top.
type ages []queue.DeadAge

func (a ages) Len() int           { return len(a) }
func (a ages) Less(i, j int) bool { return a[i].Compare(a[j]) > 0 }
func (a ages) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *ages) Push(x any)        { *a = append(*a, x.(queue.DeadAge)) }

func (a *ages) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	*a = (*a)[:last]
	return x
}

// oldest finds which dead letters are the oldest that a request asks for, once and for all: whatever dies, is redriven or is deleted
// later, and whenever the server starts again, no other letter is meant. It looks at every letter.
func oldest(ctx context.Context, q *Queue, r *queue.BulkRequest) error {
	f := &r.Filter
	f.Dead.Until = queue.DeadAge{}
	if f.Dead.Oldest == 0 {
		return nil
	}
	var first ages
	after := queue.ChunkID{}
	for {
		page, err := q.shard.DeadLetters.List(ctx, *f, after, queue.MaxListLimit)
		if err != nil {
			return err
		}
		for i := range page {
			after = page[i].Chunk
			switch age := page[i].Age(); {
			case len(first) < int(f.Dead.Oldest):
				heap.Push(&first, age)
			case age.Compare(first[0]) < 0:
				first[0] = age
				heap.Fix(&first, 0)
			}
		}
		if len(page) < queue.MaxListLimit {
			break
		}
	}
	if len(first) > 0 {
		f.Dead.Until = first[0]
	}
	return nil
}
