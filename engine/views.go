package engine

import "github.com/quern-queue/quern/engine/shard"

// View is a standing view of a queue, ViewUse what all views of the server take and may take.
type (
	View    = shard.ViewState
	ViewUse = shard.ViewUse
)

// Views are the standing views of a queue, the largest first, and what those of all queues take.
func (q *Queue) Views() ([]View, ViewUse) { return q.shard.Views.List(), q.e.shared.views.Use() }
