package machine

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// Describe gathers what is known of a consumer, and says what it cost.
func (m *Machine) Describe(name string, now queue.Time) (c queue.Consumer, n Looks) {
	c.Name = name
	if in := m.Roster.ByName[name]; in != nil {
		c.Attached, c.Since, c.Away, c.Seen, c.Order = len(in.Streams) > 0, in.Since, in.Away, in.Seen, in.Order
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

// Revoked tells a consumer that is attached that a reservation of its was taken.
func (m *Machine) Revoked(id queue.SubmissionID, slot uint32, why queue.RevokeReason) {
	if m.Roster.Attached == 0 {
		return
	}
	h := m.Holds.At(slot)
	c := m.Roster.ByName[m.Holds.Consumer(h)]
	if c == nil || len(c.Streams) == 0 {
		return
	}
	t := queue.Token{Submission: id, Index: h.Index, Epoch: h.Epoch, Sequence: h.Sequence, Slot: slot}
	t.MAC = m.key.MAC(&t)
	m.Roster.Revoked++
	for _, a := range c.Streams {
		a.Revoke(queue.Revoked{Token: t, Why: why})
	}
}
