package backlog

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/fair"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// tenantOf is the tenant of a submission, as the model sees it.
func tenantOf(key queue.MetaKey, spec *Spec) string {
	if key == strategy.SubmissionKey {
		return fmt.Sprint(spec.Seq)
	}
	value, has := spec.Meta.Find(key)
	if !has {
		return "none"
	}
	return value.Quoted()
}

// name is the tenant of a number.
func (x *share) name(number uint32) string {
	if number == 0 && x.of.key != nil {
		return "none"
	}
	if x.of.key == nil {
		return fmt.Sprint(x.tenants[number].value)
	}
	return x.of.of.view.Values.list[x.tenants[number].value].value.Quoted()
}

// whose are the submissions of which one must be served now by a built fair view, and the leaf that gives it: those that the
// model admits of the tenants whose turn it is by the ledgers.
func (m *model) whose(br *strategy.Branch, x *share, among []*modelSub) (leaf *strategy.Branch, list []*modelSub) {
	if br.Fair == "" {
		return br, m.equals(br, among)
	}
	if among = m.equals(br, among); len(among) == 0 {
		return nil, nil
	}
	for l := x.Clone(); ; {
		number, ok := l.Pick()
		if !ok {
			m.fatalf("%s: no tenant competes, though %d submissions could be served", br.Key(), len(among))
		}
		mine := slices.DeleteFunc(slices.Clone(among), func(s *modelSub) bool { return tenantOf(br.Fair, &s.spec) != x.name(number) })
		for k := range br.Inner {
			var below *share
			if x.of.nests {
				below = x.below[int(number)*len(x.of.arms)+k]
			}
			if leaf, list := m.whose(&br.Inner[k], below, mine); len(list) > 0 {
				return leaf, list
			}
		}
		simple := m.b.Values.limited == 0 && br.Leaves(func(leaf *strategy.Branch) bool { return len(leaf.Limits) < 2 })
		if simple {
			m.fatalf("%s: tenant %s competes, though nothing of it can be served", br.Key(), x.name(number))
		}
		l.Block(number)
	}
}

func (m *model) equals(br *strategy.Branch, among []*modelSub) (list []*modelSub) {
	for _, x := range among {
		if m.admitted(br, x) {
			list = append(list, x)
		}
	}
	return list
}

// auditFair checks that the ledgers of a fair view know how its tenants stand, and that nothing is lost of the numbers.
func (m *model) auditFair(v *View) {
	if m.b.Views.fair[v.fair.name] != v || len(v.gates) != 0 {
		m.fatalf("view %s is not known by its ledger, or keeps submissions itself", v.key)
	}
	size, offered := 0, 0
	for i, leaf := range v.fair.leaves {
		size, offered = size+leaf.size, offered+leaf.offered
		if leaf.outer != v || int(leaf.leaf) != i || m.b.bases.list[leaf.number] != leaf.base {
			m.fatalf("view %s leaf %d is lost", v.key, i)
		}
	}
	if v.size != size || v.offered != offered {
		m.fatalf("view %s counts %d submissions, %d gates offered, want %d, %d", v.key, v.size, v.offered, size, offered)
	}
	m.auditDivision(v, v.fair.root)
}

func (m *model) auditDivision(v *View, d *division) {
	for i, x := range d.shares {
		if x.at != i || x.of != d || (x.in == nil) != (d == v.fair.root) {
			m.fatalf("view %s: share %d is misplaced", v.key, i)
		}
		m.auditShare(v, x)
	}
	for _, a := range d.arms {
		if a.inner != nil {
			m.auditDivision(v, a.inner)
		}
	}
}

func (m *model) auditShare(v *View, x *share) {
	if sum := x.SumOfLags(); sum != 0 {
		m.fatalf("view %s: the sum of lags is %v chunks, want 0", v.key, sum.In(fair.Chunk))
	}
	for i := range x.tenants {
		number, t := uint32(i), &x.tenants[i]
		var want tenant
		for k, a := range x.of.arms {
			at := i*len(x.of.arms) + k
			stands := gone
			switch {
			case a.inner != nil && x.below[at] != nil:
				stands = x.below[at].state()
			case a.leaf != nil && x.groups[at] != none:
				g := &a.leaf.groups[x.groups[at]]
				if stands = g.reported; g.in != x || g.tenant != number {
					m.fatalf("view %s tenant %s has the group of another", v.key, x.name(number))
				}
			}
			want.count(stands, 1)
		}
		ledger := x.Info(number).State
		stands := map[state]bool{offering: ledger == fair.Active, gated: ledger == fair.Blocked, gone: ledger == fair.Idle || ledger == fair.Owing}
		if t.offering != want.offering || t.gated != want.gated || !stands[t.state()] {
			m.fatalf("view %s tenant %s is %v and counts %d arms that offer and %d gated, want %d and %d", v.key, x.name(number), ledger, t.offering, t.gated, want.offering, want.gated)
		}
		if lag := x.Lag(number).In(fair.Chunk); x.Unit == 0 && math.Abs(lag) > 40 {
			m.fatalf("view %s tenant %s: lag %v", v.key, x.name(number), lag)
		}
		if weight := x.Info(number).Weight; number != 0 && x.of.key != nil && t.value != none && weight != weightOf(m.b.Values.Settings(x.of.key.name, m.b.Values.list[t.value].value)) {
			m.fatalf("view %s tenant %s has the weight %v, want %v; %d slots, tenants %d, state %v; settings %v", v.key, x.name(number), weight, weightOf(m.b.Values.Settings(x.of.key.name, m.b.Values.list[t.value].value)), x.Totals().Active, len(x.tenants), ledger, m.b.Values.settings)
		}
	}
	if got, want := len(x.numberOf)+len(x.free)+1, len(x.tenants); got != want {
		m.fatalf("view %s: %d tenants are known or free, want %d", v.key, got, want)
	}
	for value, number := range x.numberOf {
		if t := &x.tenants[number]; t.value != value || t.state() == gone && !t.idle {
			m.fatalf("view %s tenant %v: its number is of %v, empty: %v, to be given up: %v", v.key, value, t.value, t.state() == gone, t.idle)
		}
	}
}

// preview asks for a preview of some branches and checks that each pick was allowed and that nothing changed by it.
func (m *model) preview() {
	var views []*View
	var branches []*strategy.Branch
	for range 1 + m.r.IntN(3) {
		br := &m.branches[m.r.IntN(len(m.branches))]
		views, branches = append(views, m.b.Views.Of(br)), append(branches, br)
	}
	lags := m.lags()
	picks := m.b.Preview(views, 1+m.r.IntN(12), m.rnd, nil, nil)
	for i, p := range picks {
		x := m.of(p.Submission)
		if !m.admitted(branches[p.View], x) || x.state[p.Index] != free || i > 0 && picks[i-1].View > p.View {
			m.fatalf("pick %d of a preview is chunk %d of %v by %s, which it may not take", i, p.Index, x.spec.ID, branches[p.View].Key())
		}
		// The model does not count a preview's use of a rate, so it does not know which submissions the preview passes
		// over.
		counted := i > 0 && slices.ContainsFunc(branches[p.View].Limits, func(l strategy.Limit) bool { return l.Of == strategy.Rate })
		if y := m.passedOver(branches[p.View], x); y != nil && views[p.View].Built() && !counted {
			m.fatalf("pick %d of a preview is of %v, but less is in flight of %v", i, x.spec.ID, y.spec.ID)
		}
		x.state[p.Index] = held
	}
	for _, p := range picks {
		m.of(p.Submission).state[p.Index] = free
	}
	for name, after := range m.lags() {
		if math.Abs(after-lags[name]) > 1e-6 {
			m.fatalf("%s: the lag was %v before a preview and is %v", name, lags[name], after)
		}
	}
	m.audit()
}

// lags are those of all tenants.
func (m *model) lags() map[string]float64 {
	all := map[string]float64{}
	var each func(v *View, d *division)
	each = func(v *View, d *division) {
		for i, x := range d.shares {
			for number := range x.tenants {
				all[fmt.Sprint(v.number, d.key, i, number)] = x.Lag(uint32(number)).In(fair.Chunk)
			}
		}
		for _, a := range d.arms {
			if a.inner != nil {
				each(v, a.inner)
			}
		}
	}
	for v := range m.b.bases.views() {
		if v.fair != nil {
			each(v, v.fair.root)
		}
	}
	return all
}

// operate changes an operator's settings: of a value or of a submission.
func (m *model) operate() {
	if m.r.IntN(3) == 0 && len(m.subs) > 0 {
		x := m.subs[m.r.IntN(len(m.subs))]
		x.spec.Priority = int64(m.r.IntN(6))
		m.b.SetPriority(x.s, x.spec.Priority)
		return
	}
	key, value := string(rune('a'+m.r.IntN(5))), queue.IntValue(int64(m.r.IntN(4)))
	s := queue.NoSettings()
	if m.r.IntN(3) > 0 {
		s.Limit = uint32(m.r.IntN(5))
	}
	if m.r.IntN(2) > 0 {
		s.Weight = uint32(1 + m.r.IntN(4000))
	}
	if m.r.IntN(2) > 0 {
		s.Rate = queue.Rate{Max: uint32(1 + m.r.IntN(6)), Per: []time.Duration{time.Second, time.Second, time.Minute}[m.r.IntN(3)]}
	}
	if m.r.IntN(3) == 0 {
		s = queue.NoSettings()
	}
	if m.r.IntN(4) == 0 {
		m.retempo(func() { m.b.Values.SetDefault(key, s) })
		if got := m.b.Values.Default(key); got != s {
			m.fatalf("the default of %s is %+v, want %+v", key, got, s)
		}
		return
	}
	m.retempo(func() { m.b.Values.Set(key, value, s) })
	if got := m.b.Values.Own(queue.MetaEntry{Key: key, Value: value}); got != s {
		m.fatalf("settings of %s=%v are %+v, want %+v", key, value, got, s)
	}
}

// end tells a view how long one of its chunks was held.
func (m *model) end(x *modelSub, index uint32) {
	m.b.Ledgers.Ended(x.s, x.by[index], time.Duration(m.r.IntN(5000))*time.Millisecond)
}
