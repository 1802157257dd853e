package shard

import (
	"slices"

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

// lose ends what consumers hold that are away for longer than the queue's grace, with at most `most` consumers looked at and about as
// many tries counted, and says whether more is due now. One that was heard of meanwhile, by a call about what it holds, gets the
// grace again.
func (w *Worker) lose(now queue.Time, most int) (more bool) {
	s := w.s
	r, grace := s.roster, s.m.settings.ConsumerGrace
	stay, i := 0, 0 // away[:stay] are looked at and stay; so does what follows from i on
	var heard []absence
	for ; i < len(r.away) && r.away[i].at.Add(grace) <= now && most > 0; i++ {
		most--
		x := r.away[i]
		if x.of.away == 0 || x.of.breaks != x.breaks {
			continue // it came back, or left
		}
		held, holds := s.m.holds.Holding(x.of.name)
		switch seen := max(x.of.seen, held.Seen); {
		case seen > x.at:
			x.at = seen
			heard = append(heard, x)
		case !holds:
			r.forget(x.of)
			s.noteSpecial()
		default: // it stays until all it holds is gone: a commit may fail
			most -= s.m.loseAll(x.of, max(most, 1), now)
			r.away[stay] = x
			stay++
		}
	}
	r.away = slices.Delete(r.away, stay, i)
	for _, x := range heard {
		r.await(x)
		more = more || x.at.Add(grace) <= now
	}
	return more || most <= 0
}

// loseAll encodes the ends of what a consumer holds, and says of how many.
func (m *machine) loseAll(c *consumer, most int, now queue.Time) int {
	var slots []uint32
	slots, c.lostTo = m.heldNow(c.name, c.lostTo, nil, most)
	for _, slot := range slots {
		m.lifecycle.acting = m.lifecycle.actionOf(KindLost, slot)
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
