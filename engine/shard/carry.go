package shard

import (
	"context"
	"fmt"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
)

// This file is the reload after a commit of unknown outcome: what is durable is read again, and what is in memory only is carried over,
// as a failed commit makes none of it less true. Consumers go on with what they hold, and limits go on counting it.

// reload replaces the state by what the journal says, and carries over what it does not hold. Both mutexes are held.
//
// Outputs that are being written are waited for. Their completions are refused, as what decided them is gone; written later, they could
// take the place of the output of a repetition, or of the one who completes the chunk next.
func (s *Shard) reload(cause error) {
	s.Consumers.tellWaiting(func(*waiter) bool { return true }) // the views that they wait on are built again
	old := s.m
	if err := s.journal.Close(); err != nil {
		s.options.Logger.Warn("closing the journal before a reload", "error", err)
	}
	s.outputs.Lock()
	defer s.outputs.Unlock()
	if err := s.recovery.run(context.Background()); err != nil {
		s.broken = err
		s.options.Logger.Error("reload failed", "queue", s.options.Queue, "cause", cause, "error", err)
		return
	}
	s.broken = nil
	s.m.stats.carry(&old.stats)
	s.m.rewatch(old)
	s.roster.rewind()
	s.options.Logger.Warn("reloaded after a failed commit", "queue", s.options.Queue, "cause", cause)
}

// carry takes over from the machine before what only memory holds. It is called when the replay is through, before anything is offered.
func (m *machine) carry(old *machine, now queue.Time) {
	m.nextSeq, m.lastID = max(m.nextSeq, old.nextSeq), max(m.lastID, old.lastID) // inserts that write their content have drawn theirs
	if g := old.valueLimits.grace; g != nil {
		m.valueLimits.grace = newGrace(g.began, g.until)
	}
	m.suspects.slots, m.suspects.slotsAt = old.suspects.slots, old.suspects.slotsAt
	m.holds = reserver.New(now, old.holds.Sequence())
	for from, more := 0, true; more; more = from != 0 {
		from = old.holds.Consumers(from, lookMost, func(of reserver.Holding) {
			old.holds.HeldBy(of.Name, reserver.Place{}, func(at reserver.Place, h *reserver.Hold) bool {
				m.keep(old, at.Slot, of)
				return true
			})
		})
	}
}

// keep carries a reservation over, unless the journal turned out to end it, or it is only the shadow of a completion that came late.
// What was on its way to the disk failed with the commit: the reservation is held as before.
func (m *machine) keep(old *machine, slot uint32, of reserver.Holding) {
	h := *old.holds.At(slot)
	r, was := m.liveSeq(h.Seq), old.liveSeq(h.Seq)
	if r == nil || was == nil || !h.Counted {
		return
	}
	if _, is := m.rules.takenBack(r); is {
		old.revoked(r.id, slot, queue.RevokedRule)
		return
	}
	t := r.tries[h.Index]
	if t.count() != was.tries[h.Index].count() { // the end of this very try was written
		if t != nil && (t.reason == journal.Expired || t.reason == journal.Lost) {
			old.revoked(r.id, slot, queue.RevokedExpired)
		}
		return
	}
	h.State, h.Ledger = reserver.Held, 0 // the ledgers begin again, too
	m.stops.retake(r, h, of.Name, of.Seen)
}

// count is how many tries of a chunk were counted.
func (t *try) count() uint16 {
	if t == nil {
		return 0
	}
	return t.attempts
}

// rewatch has those who wait for the end of a submission go on waiting, but for what has ended.
func (m *machine) rewatch(old *machine) {
	for id, waits := range old.watch {
		if m.live(id) != nil {
			m.watch[id] = waits
			continue
		}
		for _, w := range waits {
			w.Settle()
		}
	}
}

// carry keeps the running totals over a reload.
func (c *counters) carry(old *counters) {
	c.inserted, c.reserved, c.done, c.failed = old.inserted, old.reserved, old.done, old.failed
	c.expired, c.released, c.submissions, c.submissionEnd = old.expired, old.released, old.submissions, old.submissionEnd
	c.endedAs, c.damaged = old.endedAs, old.damaged
	c.commits, c.commitBytes = old.commits, old.commitBytes
	c.forwarded, c.arrived, c.bulk, c.aged = old.forwarded, old.arrived, old.bulk, old.aged
	c.acts = old.acts
	c.schedules = old.schedules
}

// fence appends that this life of the shard goes on, or, at the start, that a new one begins: before its first token is handed out. The
// conditional append makes sure that no one else writes this journal, and that no append of unknown outcome comes to it later.
func (s *Shard) fence(ctx context.Context, m *machine, now queue.Time) error {
	epoch := m.epoch
	if s.m == nil {
		epoch++
	}
	var enc journal.Encoder
	enc.Reset(epoch, now)
	enc.Epoch(epoch)
	position, err := s.journal.Append(ctx, m.applied, enc.Bytes())
	if err != nil {
		return fmt.Errorf("shard: start epoch %d: %w", epoch, err)
	}
	m.applied = position
	return m.ApplyEpoch(epoch)
}
