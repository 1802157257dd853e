package machine

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// Overdue says that a chunk is held for longer than the queue's reservation timeout: its consumer extends it, or asked for longer.
func Overdue(m *Machine, h *reserver.Hold, now queue.Time) bool {
	return h.Reserved.Add(m.Settings.ReservationTimeout) < now
}
