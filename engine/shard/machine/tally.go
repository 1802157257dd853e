package machine

import (
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/indexset"
)

// A recount (engine/shard/recount) counts the tries of a submission again while they change. It must not miss a change
// of a try that it has met, so code that changes a try's counts notes the change in the tally too.

// Tally is the sum over the tries of one submission.
type Tally struct{ Waiting, Dead, Skips, Shelved, Lent, Ready uint32 }

// Counting counts tries by their state: in their submission, in the shard, and in the recount of their submission.
type Counting struct {
	Of      *Record // the submission whose tries a recount is counting; nil: none
	Sum     Tally   // of the tries that were met
	off     Tally   // takes changes that the recount does not count
	stats   *Stats
	backlog *backlog.Backlog
}

// Begin begins to count the tries of a submission: none of them is met yet, and new tries count as met.
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

// tallied is the tally in which a change of a try is noted too: Sum if a recount has met the try, and otherwise `off`,
// which no one reads.
func (c *Counting) tallied(r *Record, t *Try) *Tally {
	if c.Of == r && t != nil && t.met == r.met {
		return &c.Sum
	}
	return &c.off
}

// Changing has to be called before any change of a submission's contribution to totals. The backlog does so for its own
// part.
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

// charges are the charges of fair views for reservations, where Hold.Ledger alone does not say them.
type charges struct {
	list reserver.Pages[backlog.Charge] // by slot; may be shorter
}

// of is the charge for a reservation.
func (x *charges) of(slot uint32, h *reserver.Hold) (c backlog.Charge) {
	if int(slot) < x.list.Len() {
		c = *x.list.At(slot)
	}
	c.Ledger = h.Ledger
	return c
}

// note keeps a charge. Nearly always the ledger is enough, and nothing is kept.
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
