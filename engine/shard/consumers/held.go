package consumers

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/consumers/roster"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// describe gathers what is known of a consumer, and says what it cost.
func (c *Consumers) describe(m *machine.Machine, name string, now queue.Time) (info queue.Consumer, n machine.Looks) {
	info.Name = name
	if in := c.roster.ByName[name]; in != nil {
		info.Attached, info.Since, info.Away, info.Seen, info.Order = len(in.Streams) > 0, in.Since, in.Away, in.Seen,
			in.Order
	}
	if h, holds := m.Holds.Holding(name); holds {
		info.Reserved, info.Oldest, info.Seen = uint64(h.Held), h.Oldest, max(info.Seen, h.Seen)
		m.Holds.HeldBy(name, reserver.Place{}, func(_ reserver.Place, h *reserver.Hold) bool {
			if !machine.Overdue(m, h, now) || info.Overdue == queue.MaxOverdue {
				return false
			}
			info.Overdue++
			n++
			return true
		})
	}
	if info.Away != 0 {
		info.LostAt = max(info.Away, info.Seen).Add(m.Settings.ConsumerGrace)
	}
	return info, n
}

// heldNow appends the slots of reservations of a consumer that nothing is happening to,
// from a place on, at most `most`, and says where it stopped; the zero place: it met all.
// Those of submissions that ended are none of them.
func heldNow(m *machine.Machine, name string, from reserver.Place, slots []uint32,
	most int) ([]uint32, reserver.Place) {
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

// lose encodes the ends of what a consumer holds, and says of how many.
func lose(m *machine.Machine, c *roster.Consumer, most int, now queue.Time) int {
	var slots []uint32
	slots, c.LostTo = heldNow(m, c.Name, c.LostTo, nil, most)
	for _, slot := range slots {
		m.Lifecycle.Acting = m.ActionOf(machine.KindLost, slot)
		m.Tries.Lose(slot, now)
	}
	return len(slots)
}
