package machine

import (
	"github.com/quern-queue/quern/engine/backlog"
	"github.com/quern-queue/quern/engine/reserver"
)

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
