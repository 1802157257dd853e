package engine

import (
	"context"

	"github.com/quern-queue/quern/engine/queue"
)

// Complete finishes chunks. One result per item is appended to dst, in order; it is durable when Complete returns.
func (e *Engine) Complete(ctx context.Context, queueName string, items []queue.CompleteItem, dst []queue.Result) ([]queue.Result, error) {
	q, err := e.checked(queueName, validCompletes(items))
	if err != nil {
		return dst, err
	}
	return q.shard.Complete(ctx, items, dst)
}

// Fail reports tries that did not succeed. One result per item is appended to dst, in order.
func (e *Engine) Fail(ctx context.Context, queueName string, items []queue.FailItem, dst []queue.Result) ([]queue.Result, error) {
	q, err := e.checked(queueName, validFails(items, queue.At(e.options.Now())))
	if err != nil {
		return dst, err
	}
	return q.shard.Fail(ctx, items, dst)
}

// Extend moves deadlines; after a restart it holds a chunk again that no other consumer holds. One result per item is
// appended to dst, in order.
func (e *Engine) Extend(ctx context.Context, queueName string, items []queue.ExtendItem, dst []queue.Result) ([]queue.Result, error) {
	q, err := e.checked(queueName, validExtends(items))
	if err != nil {
		return dst, err
	}
	return q.shard.Extend(ctx, items, dst)
}

// Release gives chunks back unworked. One result per item is appended to dst, in order.
func (e *Engine) Release(ctx context.Context, queueName string, items []queue.ReleaseItem, dst []queue.Result) ([]queue.Result, error) {
	q, err := e.checked(queueName, validBatch(len(items)))
	if err != nil {
		return dst, err
	}
	return q.shard.Release(ctx, items, dst)
}

// checked finds the queue of a call whose items have been checked.
func (e *Engine) checked(queueName string, invalid error) (*openQueue, error) {
	q, err := e.queue(queueName)
	if err != nil {
		return nil, err
	}
	return q, invalid
}
