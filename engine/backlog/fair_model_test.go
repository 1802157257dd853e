package backlog

import (
	"fmt"

	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// tenantOf is the tenant of a submission, as the model sees it.
func tenantOf(br *strategy.Branch, spec *Spec) string {
	if br.Fair == strategy.SubmissionKey {
		return fmt.Sprint(spec.Seq)
	}
	value, has := spec.Meta.Find(br.Fair)
	if !has {
		return "none"
	}
	return value.String()
}

// tenantName is the tenant of a group.
func (v *View) tenantName(number uint32) string {
	if number == 0 && v.sharing.key != nil {
		return "none"
	}
	return v.groups[number].tenant.value.String()
}

// turns is the order in which a copy of the view's ledger would serve those tenants that the model says can be served; of the
// first one only is taken from.
func (m *model) turns(br *strategy.Branch, v *View) (turn string) {
	if br.Fair == "" || !v.Built() {
		return ""
	}
	able := map[string]bool{}
	for _, x := range m.subs {
		if m.admitted(br, x) {
			able[tenantOf(br, &x.spec)] = true
		}
	}
	l := v.sharing.Clone()
	for {
		number, ok := l.Pick()
		if !ok {
			if len(able) > 0 {
				m.fatalf("%s: no tenant competes, though %v could be served", v.key, able)
			}
			return ""
		}
		if name := v.tenantName(number); able[name] {
			return name
		}
		if len(br.Limits) < 2 {
			m.fatalf("%s: tenant %s competes, though only %v can be served", v.key, v.tenantName(number), able)
		}
		l.Block(number)
	}
}

// checkTurn checks whose chunk was taken, and returns the submission that should come first of that tenant's.
func (m *model) checkTurn(br *strategy.Branch, v *View, turn string, x *modelSub) (want *modelSub) {
	got := tenantOf(br, &x.spec)
	if v.Built() && got != turn {
		m.fatalf("%s served tenant %s, want %s", v.key, got, turn)
	}
	for _, y := range m.subs {
		if tenantOf(br, &y.spec) == got && m.admitted(br, y) && (want == nil || m.before(br.Order, y, want)) {
			want = y
		}
	}
	return want
}

// auditSharing checks that the ledger of a fair view knows how its groups stand, and that nothing is lost of the numbers.
func (m *model) auditSharing(v *View) {
	x := v.sharing
	if x == nil {
		if len(v.groups) > 1 && v.state != dropped {
			m.fatalf("view %s is not fair, but has %d groups", v.key, len(v.groups))
		}
		return
	}
	if m.b.ledgers[x.name] != v || v.Ledger() == 0 {
		m.fatalf("view %s is not known by its ledger", v.key)
	}
	if sum := x.SumOfLags(); sum != 0 {
		m.fatalf("view %s: the sum of lags is %v chunks, want 0", v.key, sum.In(fair.Chunk))
	}
	for i := range v.groups {
		g := &v.groups[i]
		state := x.Info(uint32(i)).State
		switch {
		case g.offered > 0 && state != fair.Active, g.offered == 0 && g.size > 0 && state != fair.Blocked, g.size == 0 && state != fair.Idle && state != fair.Owing:
			m.fatalf("view %s tenant %s with %d submissions, %d gates offered, is %v", v.key, v.tenantName(uint32(i)), g.size, g.offered, state)
		}
		if i > 0 && len(g.gates) > 0 && x.groupOf[g.tenant.value] != uint32(i) {
			m.fatalf("view %s tenant %s is lost", v.key, v.tenantName(uint32(i)))
		}
		if lag := x.Lag(uint32(i)).In(fair.Chunk); lag > 40 || lag < -40 {
			m.fatalf("view %s tenant %s: lag %v", v.key, v.tenantName(uint32(i)), lag)
		}
	}
	if got, want := len(x.groupOf)+len(x.free)+1, len(v.groups); got != want {
		m.fatalf("view %s: %d groups are in use or free, want %d", v.key, got, want)
	}
	for value, number := range x.groupOf {
		if g := &v.groups[number]; g.tenant.value != value || g.size == 0 != g.tenant.idle && g.size == 0 {
			m.fatalf("view %s tenant %v: its group is of %v, empty: %v, to be given up: %v", v.key, value, g.tenant.value, g.size == 0, g.tenant.idle)
		}
	}
	var none queue.MetaValue
	if v.groups[0].tenant.value != none {
		m.fatalf("view %s: the tenant without a key has the value %v", v.key, v.groups[0].tenant.value)
	}
}
