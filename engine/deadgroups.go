package engine

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
)

// DeadGroups are the dead letters of a queue that the filter means by the fingerprint of their errors, the largest group first. There is a
// bound on how many groups there are; so many letters of `others` belong to none.
func (e *Engine) DeadGroups(ctx context.Context, queueName string, f queue.BulkFilter) (groups []queue.DeadGroup,
	others uint64, err error) {
	q, err := e.queue(queueName)
	if err != nil {
		return nil, 0, err
	}
	if groups, others, err = q.shard.DeadLetters.Groups(ctx, f); err != nil {
		return nil, 0, err
	}
	slices.SortFunc(groups, func(a, b queue.DeadGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Fingerprint, b.Fingerprint))
	})
	return groups, others, nil
}
