package engine

import (
	"sync/atomic"

	"github.com/quern-queue/quern/engine/queue"
)

// Stats are the queue's numbers.
func (q *Queue) Stats() queue.Stats {
	stats := q.shard.Stats()
	if frame := q.Frame(); frame != nil {
		stats.Forecast = frame.Stats.Stats.Forecast
		stats.Paced, stats.Unpaced = frame.paced, frame.unpaced
	}
	return stats
}

// Examined is how many submissions all reserves of a queue have looked at since it was opened: what picking costs, whatever
// the machine.
func (q *Queue) Examined() uint64 { return q.shard.Examined() }

// emptyCounts counts reserves that came back with nothing, by reason.
type emptyCounts [queue.EmptyReasons]atomic.Uint64

func (c *emptyCounts) count(reason queue.EmptyReason) { c[reason].Add(1) }
