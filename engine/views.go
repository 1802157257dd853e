package engine

import "github.com/quern-queue/quern/sdk/api"

// Views are the standing views of a queue, the largest first, and what those of all queues take and may take.
func (q *Queue) Views() api.Views {
	use := q.e.shared.views.Use()
	use.Items = q.shard.Views.List()
	return use
}
