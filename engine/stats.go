package engine

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"

	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/queue"
)

// Stats are a queue's numbers.
func (e *Engine) Stats(_ context.Context, queueName string) (queue.Stats, error) {
	q, err := e.queue(queueName)
	if err != nil {
		return queue.Stats{}, err
	}
	return q.shard.Stats(), nil
}

// Values lists the values of a meta key with their counts, the largest first by `sort`: "in_flight" (the default) or
// "ready".
func (e *Engine) Values(_ context.Context, queueName string, key queue.MetaKey, sort string, limit int) ([]backlog.ValueCount, error) {
	q, err := e.queue(queueName)
	if err != nil {
		return nil, err
	}
	if limit, err = validLimit(limit); err != nil {
		return nil, err
	}
	size := map[string]func(*backlog.ValueCount) uint64{
		"":          func(v *backlog.ValueCount) uint64 { return uint64(v.InFlight) },
		"in_flight": func(v *backlog.ValueCount) uint64 { return uint64(v.InFlight) },
		"ready":     func(v *backlog.ValueCount) uint64 { return v.Available },
	}[sort]
	if size == nil {
		return nil, queue.Invalid("/query/sort", "is not known; use in_flight or ready")
	}
	var list []backlog.ValueCount
	q.shard.Values(key, func(v backlog.ValueCount) bool {
		list = append(list, v)
		return true
	})
	slices.SortFunc(list, func(a, b backlog.ValueCount) int {
		return cmp.Or(cmp.Compare(size(&b), size(&a)), a.Value.Compare(b.Value))
	})
	return list[:min(limit, len(list))], nil
}

// Examined is how many submissions all reserves of a queue have looked at since it was opened: what picking costs, whatever
// the machine.
func (e *Engine) Examined(queueName string) (uint64, error) {
	q, err := e.queue(queueName)
	if err != nil {
		return 0, err
	}
	return q.shard.Examined(), nil
}

// emptyCounts counts reserves that came back with nothing, by reason.
type emptyCounts [queue.NotYetDue + 1]atomic.Uint64

func (c *emptyCounts) count(reason queue.EmptyReason) { c[reason].Add(1) }
