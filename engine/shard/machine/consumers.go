package machine

import "github.com/quern-queue/quern/engine/queue"

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
	t.MAC = m.Tokens.key.MAC(&t)
	m.Roster.Revoked++
	for _, a := range c.Streams {
		a.Revoke(queue.Revoked{Token: t, Why: why})
	}
}
