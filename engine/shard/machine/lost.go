package machine

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/consumers"
)

// HeldNow appends the slots of reservations of a consumer that nothing is happening to, from a place on, at most `most`, and
// says where it stopped; the zero place: it met all. Those of submissions that ended are none of them.
func (m *Machine) HeldNow(name string, from reserver.Place, slots []uint32, most int) ([]uint32, reserver.Place) {
	last, all := from, true
	m.Holds.HeldBy(name, from, func(at reserver.Place, h *reserver.Hold) bool {
		if len(slots) == most {
			all = false
			return false
		}
		if r := m.LiveSeq(h.Seq); h.State == reserver.Held && r != nil && !r.Ending {
			slots = append(slots, at.Slot)
		}
		last = at
		return true
	})
	if all {
		last = reserver.Place{}
	}
	return slots, last
}

// LoseAll encodes the ends of what a consumer holds, and says of how many.
func (m *Machine) LoseAll(c *consumers.Consumer, most int, now queue.Time) int {
	var slots []uint32
	slots, c.LostTo = m.HeldNow(c.Name, c.LostTo, nil, most)
	for _, slot := range slots {
		m.Lifecycle.Acting = m.Lifecycle.actionOf(KindLost, slot)
		m.loseOne(slot, now)
	}
	return len(slots)
}

// errorLost is what the history of a chunk says of a try whose consumer was lost.
const errorLost = "the consumer was lost: its connection ended and did not come back"

// loseOne encodes that the consumer of a reservation was lost: a try is counted, but not an expiry. As with a deadline that
// passed, its consumer may still come first, until it is committed.
func (m *Machine) loseOne(slot uint32, now queue.Time) {
	h := m.Holds.At(slot)
	r := m.LiveSeq(h.Seq)
	if r.Ending {
		return // one before it ends the submission
	}
	h.State = reserver.Expiring
	m.Batch.Mark(slot, h.Sequence)
	op := m.Tried(r, h.Index, journal.Lost, now)
	op.Epoch, op.Sequence = h.Epoch, h.Sequence
	op.Error = errorLost
	if m.spent(r, &op) {
		h.State, op.Lost = reserver.Dying, true
		m.exhausted(r, op, now)
		return
	}
	op.NotBefore = m.backoff(m.Settings.ExpiryBackoff, int(op.Attempts), now)
	m.Encode(now).Return(op)
}
