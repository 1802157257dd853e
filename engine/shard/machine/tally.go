package machine

import (
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/indexset"
)

// A recount (engine/shard/recount) counts the tries of a submission again while they
// change. What happens to one that it has met must not be missed, so whatever changes what
// a try counts as notes it in the tally too.

// Tally is what the tries of one submission come to.
type Tally struct{ Waiting, Dead, Skips, Shelved, Lent, Ready uint32 }

// Counting counts what tries stand for: in their submission, in the shard, and in the
// recount that is at their submission.
type Counting struct {
	Of      *Record // the submission whose tries a recount is counting; nil: none
	Sum     Tally   // of the tries that were met
	off     Tally   // takes what is not counted
	stats   *Stats
	backlog *backlog.Backlog
}

// Begin counts the tries of a submission: none of them was met, and all that come from now on are.
func (c *Counting) Begin(r *Record) {
	r.met = !r.met
	c.Of, c.Sum = r, Tally{}
}

// Meets says whether a try is met for the first time.
func (c *Counting) Meets(t *Try) bool {
	first := t.met != c.Of.met
	t.met = c.Of.met
	return first
}

// tallied is where a change of what a try counts as is noted as well: nowhere, unless a
// recount has met the try.
func (c *Counting) tallied(r *Record, t *Try) *Tally {
	if c.Of == r && t != nil && t.met == r.met {
		return &c.Sum
	}
	return &c.off
}

// Changing has to be called before anything changes that a submission contributes to
// totals. The backlog does so for its own part.
func (c *Counting) Changing(r *Record) {
	if r.Sub != nil {
		c.backlog.Recount.Changing(r.Sub)
	}
}

// dies counts a chunk of an open submission that is dead, or (delta -1) no longer.
func (c *Counting) dies(r *Record, index uint32, delta int) {
	c.Changing(r)
	r.Dead += uint32(delta)
	c.tallied(r, r.Tries[index]).Dead += uint32(delta)
	c.stats.Dead += uint64(delta)
	if delta < 0 {
		r.Deads.Remove(index)
		return
	}
	if r.Deads == nil {
		r.Deads = &indexset.Set{}
	}
	r.Deads.Add(index)
}

// skips counts a chunk of an open submission that is given up.
func (c *Counting) skips(r *Record, index uint32) {
	c.Changing(r)
	r.Skips++
	c.tallied(r, r.Tries[index]).Skips++
	c.stats.Skipped++
}

// charges are what fair views charged for reservations, as far as Hold.Ledger does not say it.
type charges struct {
	list reserver.Pages[backlog.Charge] // by slot; may be shorter
}

// of is what was charged for a reservation.
func (x *charges) of(slot uint32, h *reserver.Hold) (c backlog.Charge) {
	if int(slot) < x.list.Len() {
		c = *x.list.At(slot)
	}
	c.Ledger = h.Ledger
	return c
}

// note keeps it. Nearly always the ledger says it all, and nothing is kept.
func (x *charges) note(slot uint32, c backlog.Charge) {
	c.Ledger = 0
	if int(slot) >= x.list.Len() && c == (backlog.Charge{}) {
		return
	}
	for int(slot) >= x.list.Len() {
		x.list.Grow()
	}
	*x.list.At(slot) = c
}
