package backlog

import (
	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/queue"
)

// Tenant is how a tenant of a fair view stands. Of the pseudo key, Value is the submission's id as a string. Without HasValue
// it is the one tenant of all submissions that do not have the key.
type Tenant struct {
	Value    queue.MetaValue
	HasValue bool
	fair.Info
}

// Competes says whether the tenant has something to offer and may.
func (t *Tenant) Competes() bool { return t.State == fair.Active }

// Shares is how a fair view shares. Next is whose turn it is; HasNext is false when nobody competes.
type Shares struct {
	Active, Owing, Blocked int
	Next                   Tenant
	HasNext                bool
}

// Shares is how the view shares; ok is false if it is not fair.
func (v *View) Shares() (s Shares, ok bool) {
	if v.sharing == nil {
		return s, false
	}
	totals := v.sharing.Totals()
	s.Active, s.Owing, s.Blocked = totals.Active, totals.Owing, totals.Blocked
	number, found := v.sharing.Pick()
	if s.HasNext = found; found {
		s.Next = v.tenant(number)
	}
	return s, true
}

// TenantOf is how the submission's tenant stands; ok is false if the view is not fair, or the submission is not in it and its
// tenant unknown.
func (v *View) TenantOf(s *Submission) (t Tenant, ok bool) {
	if v.sharing == nil {
		return t, false
	}
	value, has := v.sharing.valueOf(s)
	if !has {
		return v.tenant(0), true
	}
	number, known := v.sharing.groupOf[value]
	if !known {
		return t, false
	}
	return v.tenant(number), true
}

// Tenants calls fn for the tenants that are not idle, looking at up to `most` numbers from `from` on, and returns the number to
// go on from; 0 when it met all. Between two calls anything may happen to the backlog. fn must not change it.
func (v *View) Tenants(from, most int, fn func(Tenant)) (next int) {
	if v.sharing == nil {
		return 0
	}
	for i := from; i < len(v.groups); i++ {
		if i-from == most {
			return i
		}
		if t := v.tenant(uint32(i)); t.State != fair.Idle {
			fn(t)
		}
	}
	return 0
}

func (v *View) tenant(number uint32) Tenant {
	t := Tenant{Info: v.sharing.Info(number), HasValue: number != 0}
	if !t.HasValue {
		return t
	}
	t.Value = v.groups[number].tenant.value
	if v.sharing.key == nil {
		if s := v.in.BySeq(uint32(t.Value.Int())); s != nil {
			t.Value = queue.StringValue(s.id.String())
		}
	}
	return t
}
