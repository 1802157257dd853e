package engine

import (
	"context"
	"fmt"

	"github.com/quern-queue/quern/engine/queue"
)

// Complete finishes chunks. One result per item is appended to dst, in order; it is durable when Complete returns.
func (e *Engine) Complete(ctx context.Context, queueName string, items []queue.CompleteItem, dst []queue.Result) ([]queue.Result, error) {
	q, err := e.batch(queueName, "/items", len(items))
	if err != nil {
		return dst, err
	}
	for i := range items {
		if n := len(items[i].Output); n > queue.MaxOutputBytes {
			return dst, queue.Invalid(fmt.Sprintf("/items/%d/output", i), "has %d bytes; at most %d are allowed: keep large results in object storage", n, queue.MaxOutputBytes)
		}
	}
	return q.shard.Complete(ctx, items, dst)
}

// Fail reports tries that did not succeed. One result per item is appended to dst, in order.
func (e *Engine) Fail(ctx context.Context, queueName string, items []queue.FailItem, dst []queue.Result) ([]queue.Result, error) {
	q, err := e.batch(queueName, "/items", len(items))
	if err != nil {
		return dst, err
	}
	longest := queue.Time(queue.MaxReservation.Milliseconds())
	for i := range items {
		if after := items[i].RetryAfter; after < 0 || after > 30*longest {
			return dst, queue.Invalid(fmt.Sprintf("/items/%d/retry_after_ms", i), "is %d; 0 to %d are allowed", after, 30*longest)
		}
	}
	return q.shard.Fail(ctx, items, dst)
}

// Extend moves deadlines; after a restart it takes a chunk up again that nobody else holds. One result per item is
// appended to dst, in order.
func (e *Engine) Extend(ctx context.Context, queueName string, items []queue.ExtendItem, dst []queue.Result) ([]queue.Result, error) {
	q, err := e.batch(queueName, "/items", len(items))
	if err != nil {
		return dst, err
	}
	shortest, longest := queue.Time(queue.MinReservation.Milliseconds()), queue.Time(queue.MaxReservation.Milliseconds())
	for i := range items {
		if timeout := items[i].Timeout; timeout != 0 && (timeout < shortest || timeout > longest) {
			return dst, queue.Invalid(fmt.Sprintf("/items/%d/timeout_ms", i), "is %d; %d to %d are allowed", timeout, shortest, longest)
		}
	}
	return q.shard.Extend(ctx, items, dst)
}

// Release gives chunks back unworked. One result per item is appended to dst, in order.
func (e *Engine) Release(ctx context.Context, queueName string, items []queue.ReleaseItem, dst []queue.Result) ([]queue.Result, error) {
	q, err := e.batch(queueName, "/items", len(items))
	if err != nil {
		return dst, err
	}
	return q.shard.Release(ctx, items, dst)
}

func (e *Engine) batch(queueName, pointer string, n int) (*openQueue, error) {
	q, err := e.queue(queueName)
	if err != nil {
		return nil, err
	}
	return q, validBatch(pointer, n)
}
