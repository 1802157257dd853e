package engine

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// Groups are the dead letters of the queue that the filter means by the fingerprint of their errors, the largest group first.
func (p DeadLetters) Groups(ctx context.Context, f queue.BulkFilter) (api.DeadGroups, error) {
	list, err := p.q.shard.DeadLetters.Groups(ctx, f)
	slices.SortFunc(list.Items, func(a, b api.DeadGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Fingerprint, b.Fingerprint))
	})
	return list, err
}
