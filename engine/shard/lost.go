package shard

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// heldNow appends the slots of reservations of a consumer that nothing is happening to, from a place on, at most `most`, and
// says where it stopped; the zero place: it met all. Those of submissions that ended are none of them.
func (m *machine) heldNow(name string, from reserver.Place, slots []uint32, most int) ([]uint32, reserver.Place) {
	last, all := from, true
	m.holds.HeldBy(name, from, func(at reserver.Place, h *reserver.Hold) bool {
		if len(slots) == most {
			all = false
			return false
		}
		if r := m.liveSeq(h.Seq); h.State == reserver.Held && r != nil && !r.ending {
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

// lose ends what consumers hold that are away for longer than the queue's grace, with at most `most` tries counted, and says
// whether more is due now. One that was heard of meanwhile, by a call about what it holds, gets the grace again.
func (s *Shard) lose(now queue.Time, most int) (more bool) {
	r, grace := s.roster, s.m.settings.ConsumerGrace
	for i := 0; i < len(r.away); {
		x := r.away[i]
		if x.at.Add(grace) > now {
			return false
		}
		if x.of.away == 0 || x.of.breaks != x.breaks {
			r.away = append(r.away[:i], r.away[i+1:]...) // it came back, or left
			continue
		}
		held, holds := s.m.holds.Holding(x.of.name)
		if seen := max(x.of.seen, held.Seen); seen > x.at {
			r.away = append(r.away[:i], r.away[i+1:]...)
			x.at = seen
			r.await(x)
			continue
		}
		if !holds {
			r.away = append(r.away[:i], r.away[i+1:]...)
			r.forget(x.of)
			s.noteSpecial()
			continue
		}
		if most -= s.m.loseAll(x.of, most, now); most <= 0 {
			return true
		}
		i++ // it stays until all it holds is gone: a commit may fail
	}
	return false
}

// loseAll encodes the ends of what a consumer holds, and says of how many.
func (m *machine) loseAll(c *consumer, most int, now queue.Time) int {
	var slots []uint32
	slots, c.lostTo = m.heldNow(c.name, c.lostTo, nil, most)
	for _, slot := range slots {
		m.acting = m.actionOf(KindLost, slot)
		m.loseOne(slot, now)
	}
	return len(slots)
}

// errorLost is what the history of a chunk says of a try whose consumer was lost.
const errorLost = "the consumer was lost: its connection ended and did not come back"

// loseOne encodes that the consumer of a reservation was lost: a try is counted, but not an expiry. As with a deadline that
// passed, its consumer may still come first, until it is committed.
func (m *machine) loseOne(slot uint32, now queue.Time) {
	h := m.holds.At(slot)
	r := m.liveSeq(h.Seq)
	if r.ending {
		return // one before it ends the submission
	}
	h.State = reserver.Expiring
	m.batch.mark(slot, h.Sequence)
	m.roster.lost++
	op := m.tried(r, h.Index, journal.Lost, now)
	op.Epoch, op.Sequence = h.Epoch, h.Sequence
	op.Error = errorLost
	if m.spent(r, &op) {
		h.State, op.Lost = reserver.Dying, true
		m.exhausted(r, op, now)
		return
	}
	op.NotBefore = m.backoff(m.settings.ExpiryBackoff, int(op.Attempts), now)
	m.encode(now).Return(op)
}
