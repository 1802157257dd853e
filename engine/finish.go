package engine

import (
	"context"

	"github.com/quern-queue/quern/engine/queue"
)

// Complete finishes chunks. One result per item is appended to dst, in order; it is durable when Complete returns.
func (q *Queue) Complete(ctx context.Context, items []queue.CompleteItem, dst []queue.Result) ([]queue.Result, error) {
	if err := validCompletes(items); err != nil {
		return dst, err
	}
	return q.shard.Complete(ctx, items, dst)
}

// Fail reports tries that did not succeed. One result per item is appended to dst, in order.
func (q *Queue) Fail(ctx context.Context, items []queue.FailItem, dst []queue.Result) ([]queue.Result, error) {
	if err := validFails(items, queue.At(q.e.options.Now())); err != nil {
		return dst, err
	}
	return q.shard.Fail(ctx, items, dst)
}

// Extend moves deadlines; after a restart it holds a chunk again that no other consumer holds. One result per item is
// appended to dst, in order.
func (q *Queue) Extend(ctx context.Context, items []queue.ExtendItem, dst []queue.Result) ([]queue.Result, error) {
	if err := validExtends(items); err != nil {
		return dst, err
	}
	return q.shard.Extend(ctx, items, dst)
}

// Release gives chunks back unworked, at once or after a delay. One result per item is appended to dst, in order.
func (q *Queue) Release(ctx context.Context, items []queue.ReleaseItem, dst []queue.Result) ([]queue.Result, error) {
	if err := validReleases(items); err != nil {
		return dst, err
	}
	return q.shard.Release(ctx, items, dst)
}
