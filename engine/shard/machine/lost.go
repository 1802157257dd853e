package machine

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/consumers"
)

// HeldNow appends the slots of reservations of a consumer that nothing is happening to, from a place on, at most `most`, and
// says where it stopped; the zero place: it met all. Those of submissions that ended are none of them.
func (p *holders) HeldNow(name string, from reserver.Place, slots []uint32, most int) ([]uint32, reserver.Place) {
	m := p.m
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

// Lose encodes the ends of what a consumer holds, and says of how many.
func (p *holders) Lose(c *consumers.Consumer, most int, now queue.Time) int {
	m := p.m
	var slots []uint32
	slots, c.LostTo = p.HeldNow(c.Name, c.LostTo, nil, most)
	for _, slot := range slots {
		m.Lifecycle.Acting = m.Lifecycle.actionOf(KindLost, slot)
		p.loseOne(slot, now)
	}
	return len(slots)
}

// errorLost is what the history of a chunk says of a try whose consumer was lost.
const errorLost = "the consumer was lost: its connection ended and did not come back"

// loseOne encodes that the consumer of a reservation was lost: a try is counted, but not an expiry. As with a deadline that
// passed, its consumer may still come first, until it is committed.
func (p *holders) loseOne(slot uint32, now queue.Time) {
	m := p.m
	h := m.Holds.At(slot)
	r := m.LiveSeq(h.Seq)
	if r.Ending {
		return // one before it ends the submission
	}
	h.State = reserver.Expiring
	m.Batch.Mark(slot, h.Sequence)
	op := m.Tries.Count(r, h.Index, journal.Lost, now)
	op.Epoch, op.Sequence = h.Epoch, h.Sequence
	op.Error = errorLost
	if m.Tries.spent(r, &op) {
		h.State, op.Lost = reserver.Dying, true
		m.Tries.exhausted(r, op, now)
		return
	}
	op.NotBefore = m.Tries.backoff(m.Settings.ExpiryBackoff, int(op.Attempts), now)
	m.Encode(now).Return(op)
}
