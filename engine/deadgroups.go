package engine

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
)

// Groups are the dead letters of the queue that the filter means by the fingerprint of their errors, the largest group first. There is a
// bound on how many groups there are; so many letters of `others` belong to none.
func (p DeadLetters) Groups(ctx context.Context, f queue.BulkFilter) (groups []queue.DeadGroup,
	others uint64, err error) {
	if groups, others, err = p.q.shard.DeadLetters.Groups(ctx, f); err != nil {
		return nil, 0, err
	}
	slices.SortFunc(groups, func(a, b queue.DeadGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Fingerprint, b.Fingerprint))
	})
	return groups, others, nil
}
