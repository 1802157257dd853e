package engine

import (
	"context"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/inspect"
	"github.com/quern-queue/quern/sdk/api"
)

// MaxCells is how many cells a map has at most, MaxMapped how many chunks it looks at.
const (
	MaxCells  = api.MaxCells
	MaxMapped = inspect.MaxMapped
)

// Map says where the chunks of a submission from index `from` up to `to` (not included; 0: the end) stand, in at most `cells` (1 to
// MaxCells; 0: 500) cells of one size. It looks at MaxMapped chunks at most.
func (p Submissions) Map(ctx context.Context, id queue.SubmissionID, from, to uint32, cells int) (m api.ChunkMap, err error) {
	if cells == 0 {
		cells = 500
	}
	if cells < 1 || cells > MaxCells {
		return m, queue.Invalid("/query/cells", "is %d; 1 to %d are allowed", cells, MaxCells)
	}
	sub, err := p.q.shard.Submissions.Get(ctx, id)
	if err != nil {
		return m, err
	}
	if from >= sub.Chunks {
		return m, queue.Invalid("/query/from", "is %d; the submission has %d chunks, counted from 0", from, sub.Chunks)
	}
	if to == 0 || to > sub.Chunks {
		to = sub.Chunks
	}
	if to <= from {
		return m, queue.Invalid("/query/to", "is %d; it has to be more than from, which is %d", to, from)
	}
	to = from + min(to-from, MaxMapped)
	m, err = p.q.shard.Inspect.Map(ctx, id, from, to, (to-from+uint32(cells)-1)/uint32(cells))
	m.Chunks = sub.Chunks
	switch { // a rule covers a submission as a whole
	case sub.Blocked > 0:
		m.Ruling = queue.BlockedByRule.String()
	case sub.Paused > 0:
		m.Ruling = queue.PausedByRule.String()
	}
	return m, err
}

// Attempts are the ended tries of a chunk that are remembered, oldest first; none once it is done.
func (p Submissions) Attempts(ctx context.Context, id queue.SubmissionID, index uint32) ([]queue.Attempt, error) {
	return p.q.shard.Inspect.Attempts(ctx, id, index)
}
