package engine

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/schedules"
)

// Span is a piece of work that is traced.
type Span = schedules.Span

// Spans begin spans of what the engine does by itself; what it is called for is the caller's to trace. A nil Span is one that is not
// recorded. They must be quick: they are called with locks held.
type Spans interface {
	// Emit begins the span of a schedule's inserting for ticks. What is inserted carries its context.
	Emit(queueName, schedule string) Span

	// Bulk begins the span of a turn of a bulk operation.
	Bulk(b *queue.Bulk) Span
}

// emitting is how the shard of a queue asks for spans; nil when nothing is traced.
func (e *Engine) emitting(queueName string) func(schedule string) Span {
	if e.options.Spans == nil {
		return nil
	}
	return func(schedule string) Span { return e.options.Spans.Emit(queueName, schedule) }
}
