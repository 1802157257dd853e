package machine

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// Describe gathers what is known of a consumer, and says what it cost.
func (m *Machine) Describe(name string, now queue.Time) (c queue.Consumer, n Looks) {
	c.Name = name
	if in := m.Roster.ByName[name]; in != nil {
		c.Attached, c.Since, c.Away, c.Seen, c.Order = len(in.Streams) > 0, in.since, in.Away, in.Seen, in.Order
	}
	if h, holds := m.Holds.Holding(name); holds {
		c.Reserved, c.Oldest, c.Seen = uint64(h.Held), h.Oldest, max(c.Seen, h.Seen)
		m.Holds.HeldBy(name, reserver.Place{}, func(_ reserver.Place, h *reserver.Hold) bool {
			if !Overdue(m, h, now) || c.Overdue == queue.MaxOverdue {
				return false
			}
			c.Overdue++
			n++
			return true
		})
	}
	if c.Away != 0 {
		c.LostAt = max(c.Away, c.Seen).Add(m.Settings.ConsumerGrace)
	}
	return c, n
}
