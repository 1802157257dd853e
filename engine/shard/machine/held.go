package machine

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// Overdue says that a chunk is held for longer than the queue's reservation timeout: its
// consumer extends it, or asked for longer.
func Overdue(m *Machine, h *reserver.Hold, now queue.Time) bool {
	return h.Reserved.Add(m.Settings.ReservationTimeout) < now
}

// HeldChunk describes a reservation.
func HeldChunk(m *Machine, r *Record, h *reserver.Hold, now queue.Time) queue.HeldChunk {
	return queue.HeldChunk{
		Chunk: queue.ChunkID{Submission: r.ID, Index: h.Index}, Meta: r.Meta(), Consumer: m.Holds.Consumer(h),
		Attempt:  h.Attempt,
		Reserved: h.Reserved, Deadline: h.Deadline, Overdue: Overdue(m, h, now),
		Finishing: h.State == reserver.Finishing,
	}
}
