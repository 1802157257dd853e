package fair

import (
	"maps"
	"slices"
)

// undo is a ledger as it was at Begin: all but its slots at once, of those every one that is touched since.
type undo struct {
	before Ledger
	slots  map[uint32]slot
}

// Begin has the ledger remember how it is, to look ahead: Rollback takes everything back that happens from now on. It costs
// what the owing tenants take, and each tenant that is touched later its slot; the others cost nothing.
func (l *Ledger) Begin() {
	u := &undo{before: *l, slots: map[uint32]slot{}}
	u.before.owing = slices.Clone(l.owing)
	l.undo = u
}

// keep is called before a slot may change.
func (u *undo) keep(tenant uint32, s *slot) {
	if _, kept := u.slots[tenant]; !kept && int(tenant) < len(u.before.slots) {
		u.slots[tenant] = *s
	}
}

// keepAll is called before all of them do.
func (u *undo) keepAll(slots []slot) {
	for i := range u.before.slots {
		u.keep(uint32(i), &slots[i])
	}
}

// Rollback makes the ledger what it was at Begin, and returns which tenants may have been something else meanwhile, by number.
// Tenants that were first heard of since are idle.
func (l *Ledger) Rollback() (touched []uint32) {
	u, slots := l.undo, l.slots
	*l = u.before
	l.slots = slots
	for tenant, s := range u.slots {
		l.slots[tenant] = s
	}
	touched = slices.Sorted(maps.Keys(u.slots))
	for i := len(u.before.slots); i < len(slots); i++ {
		l.slots[i] = slot{weight: DefaultWeight}
		touched = append(touched, uint32(i))
	}
	return touched
}
