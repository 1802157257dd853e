package machine

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/consumers"
)

// holders is the part of the machine that knows the consumers: those that are attached, and what each of them holds.
type holders struct {
	m      *Machine
	Roster *consumers.Roster // the shard's
}

// Describe gathers what is known of a consumer, and says what it cost.
func (p *holders) Describe(name string, now queue.Time) (c queue.Consumer, n Looks) {
	m := p.m
	c.Name = name
	if in := p.Roster.ByName[name]; in != nil {
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
func (p *holders) Revoked(id queue.SubmissionID, slot uint32, why queue.RevokeReason) {
	m := p.m
	if p.Roster.Attached == 0 {
		return
	}
	h := m.Holds.At(slot)
	c := p.Roster.ByName[m.Holds.Consumer(h)]
	if c == nil || len(c.Streams) == 0 {
		return
	}
	t := queue.Token{Submission: id, Index: h.Index, Epoch: h.Epoch, Sequence: h.Sequence, Slot: slot}
	t.MAC = m.Tokens.key.MAC(&t)
	p.Roster.Revoked++
	for _, a := range c.Streams {
		a.Revoke(queue.Revoked{Token: t, Why: why})
	}
}
