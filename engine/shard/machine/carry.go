package machine

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// Carry takes over from the earlier machine the state that is only in memory. The shard calls it
// after the replay, before it hands out anything.
func (p *recovery) Carry(old *Machine, now queue.Time) {
	m := p.m
	// inserts that are writing their content have drawn numbers already
	m.NextSeq, m.LastID = max(m.NextSeq, old.NextSeq), max(m.LastID, old.LastID)
	if g := old.ValueLimits.Grace; g != nil {
		m.ValueLimits.Grace = newGrace(g.Began, g.Until)
	}
	m.Suspects.slots = old.Suspects.slots
	m.Uniques.Limit, m.Uniques.Kept, m.Uniques.Replaced, m.Uniques.Refused =
		old.Uniques.Limit, old.Uniques.Kept, old.Uniques.Replaced, old.Uniques.Refused
	m.Holds = reserver.New(now, old.Holds.Sequence())
	m.Holds.Unreported = old.Holds.Unreported
	for from, more := 0, true; more; more = from != 0 {
		from = old.Holds.Consumers(from, LookMost, func(of reserver.Holding) {
			old.Holds.HeldBy(of.Name, reserver.Place{}, func(at reserver.Place, h *reserver.Hold) bool {
				p.keep(old, at.Slot, of)
				return true
			})
		})
	}
}

// Carry takes over which token completed which chunk: the earlier machine knows more of them than the rows, and the
// replay adds to it.
func (p *tokens) Carry(old *Machine) { p.Recent = old.Tokens.Recent.clone() }

// keep carries a reservation over, unless the journal ends it, or it only shields a late completion. If an op about it
// was on its way to the disk, that failed with the commit: the reservation is held as before.
func (p *recovery) keep(old *Machine, slot uint32, of reserver.Holding) {
	m := p.m
	h := *old.Holds.At(slot)
	r, was := m.LiveSeq(h.Seq), old.LiveSeq(h.Seq)
	if r == nil || was == nil || !h.Counted {
		return
	}
	if _, is := m.Joined.Rules.TakenBack(r); is {
		old.Revoked(r.ID, slot, queue.RevokedRule)
		return
	}
	t, before := r.Tries[h.Index], was.Tries[h.Index]
	// The token may have given the chunk back long ago, and an extend may have taken it up again. The earlier machine
	// knows of that return.
	if t.snoozedBy(&h) && !(before.snoozedBy(&h) && before.NotBefore == t.NotBefore) {
		return // its consumer gave the chunk back, and that is in the journal
	}
	if t.count() != before.count() { // the end of this very try was written
		if t != nil && (t.Reason == journal.Expired || t.Reason == journal.Lost) {
			old.Revoked(r.ID, slot, queue.RevokedExpired)
		}
		return
	}
	reported := old.Holds.Reported(&h)
	h.State, h.Ledger = reserver.Held, 0 // the ledgers begin again, too
	Retake(m, r, h, of.Name, of.Seen)
	if slot, held := m.Holds.Find(h.Seq, h.Index); held {
		m.Holds.Report(slot, reported)
	}
}

// Retake restores the reservation of a chunk from before this machine was made, unless the chunk
// is done.
func Retake(m *Machine, r *Record, h reserver.Hold, consumer string, seen queue.Time) {
	t := r.Tries[h.Index]
	if t != nil && t.Waiting { // promotions are not in the journal
		m.Delays.end(r, h.Index, t)
		m.Backlog.PutBack(r.Sub, h.Index)
	}
	if !m.Backlog.Retake(r.Sub, h.Index) {
		return
	}
	if t != nil && m.Suspects.suspicious(t.Reason) {
		m.Suspects.lends(r, t, h.Reserved)
	}
	m.Holds.Saw(m.Holds.At(m.Holds.Add(&r.Holds, h, consumer)), seen)
}

// snoozedBy says whether the consumer of a reservation gave the chunk back with a delay.
func (t *Try) snoozedBy(h *reserver.Hold) bool {
	return t != nil && t.Reason == journal.Snoozed && t.sequence == h.Sequence && t.epoch == h.Epoch
}

// count is how many tries of a chunk were counted.
func (t *Try) count() uint16 {
	if t == nil {
		return 0
	}
	return t.Attempts
}

// Uncounted forgets the counts of the replay until now: at a start those of earlier lives, at a reload those that the
// earlier machine has, too. The earlier machine does not know a batch that is in the journal although its commit
// failed, so the counts of such a batch stay, and Carry adds the others.
func (p *recovery) Uncounted() {
	m := p.m
	m.Stats.Totals = Totals{}
	for _, uncounted := range m.Joined.Uncounted {
		uncounted()
	}
}

// Carry adds the counts of the earlier machine, at a reload.
func (c *Totals) Carry(old *Totals) {
	c.Inserted += old.Inserted
	c.Reserved += old.Reserved
	c.Done += old.Done
	c.Failed += old.Failed
	c.Aged += old.Aged
	c.Damaged += old.Damaged
	c.Forwarded += old.Forwarded
	c.Arrived += old.Arrived
	c.Expired += old.Expired
	c.Released += old.Released
	c.Submissions += old.Submissions
	c.SubmissionEnd += old.SubmissionEnd
	c.Commits += old.Commits
	c.CommitBytes += old.CommitBytes
	for kind, n := range old.Acts {
		c.Acts[kind].Done += n.Done
		c.Acts[kind].Stale += n.Stale
	}
	for state, n := range old.EndedAs {
		c.EndedAs[state] += n
	}
}
