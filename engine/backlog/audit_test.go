package backlog

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// audit compares all that the backlog says with the model, and all that it holds with itself.
func (m *model) audit() {
	m.auditSubmissions()
	m.auditTerms()
	members := map[*base]int{}
	for _, b := range m.b.bases.list {
		if b != nil {
			members[b] = m.auditView(b.bands.views[0])
		}
	}
	for i := range m.branches {
		v := m.b.Views.byKey[m.branches[i].Key()]
		if v == nil {
			continue
		}
		got, want := members[v.base], 0
		m.branches[i].Leaves(func(leaf *strategy.Branch) bool {
			for _, x := range m.subs {
				if x.shown && x.count(free) > 0 && x.own == queue.Unruled && !slices.ContainsFunc(leaf.Filters, func(f strategy.Filter) bool {
					value, has := x.spec.Meta.Find(f.Key)
					return (has && slices.Contains(f.Values, value)) == f.Except || f.Has && !has
				}) {
					want++
				}
			}
			return true
		})
		if v.Built() && got != want || got > want {
			m.fatalf("view %s (built: %v) has %d submissions, want %d", v.key, v.Built(), got, want)
		}
	}
}

func (m *model) auditSubmissions() {
	var available uint64
	var oldest *modelSub
	putBack, heap, aside := 0, 0, 0
	for _, x := range m.subs {
		if m.b.ByID(x.spec.ID) != x.s || m.b.BySeq(x.spec.Seq) != x.s || x.s.Shown() != x.shown || x.s.ID() != x.spec.ID || x.s.Seq() != x.spec.Seq || x.s.Chunks() != x.spec.Chunks || x.s.Priority() != x.spec.Priority {
			m.fatalf("submission %v is not found or differs from its spec", x.spec.ID)
		}
		if x.s.Order() != x.spec.Key || !slices.Equal(x.s.Meta(), x.spec.Meta) {
			m.fatalf("submission %v: permutation or meta differ from its spec: %v, want %v", x.spec.ID, x.s.Meta(), x.spec.Meta)
		}
		if int(x.s.Available()) != x.count(free) || int(x.s.InFlight()) != x.count(held) {
			m.fatalf("submission %v has %d available and %d in flight, want %d and %d", x.spec.ID, x.s.Available(), x.s.InFlight(), x.count(free), x.count(held))
		}
		for i, state := range x.state {
			if got := x.s.IsAvailable(uint32(i)); got != (state == free) {
				m.fatalf("submission %v: IsAvailable(%d) = %v", x.spec.ID, i, got)
			}
		}
		if both := bothVisited(x.s); both != x.s.both {
			m.fatalf("submission %v says that %d chunks are visited by both cursors, want %d", x.spec.ID, x.s.both, both)
		}
		if putBack += x.s.back.len(); x.s.back.len() != int(x.s.putBack) {
			m.fatalf("submission %v says that %d chunks are put back, want %d", x.spec.ID, x.s.putBack, x.s.back.len())
		}
		m.auditRuling(x)
		if x.shown && x.count(free) > 0 {
			available += uint64(x.count(free))
			switch there := x.s.oldestAt != none; {
			case there:
				heap++
			case m.ruling(x) == queue.Unruled:
				aside++
			}
			if m.ruling(x) == queue.Unruled && m.whole == queue.Unruled && (oldest == nil || x.spec.ID < oldest.spec.ID) {
				oldest = x
			}
		}
		if wants := x.shown && x.count(free) > 0 && x.own == queue.Unruled; !wants && len(x.s.members) > 0 {
			m.fatalf("submission %v stands in %d views, but is not offered", x.spec.ID, len(x.s.members))
		}
	}
	if m.b.Available() != available || m.b.exceptions.putBack != putBack || m.b.Len() != len(m.subs) || len(m.b.oldest.heap) != heap || aside > 0 && !m.reconciling() {
		m.fatalf("%d available, %d put back, %d submissions, %d in the heap of the oldest, want %d, %d, %d, %d; %d are not in there but should", m.b.Available(), m.b.exceptions.putBack, m.b.Len(), len(m.b.oldest.heap), available, putBack, len(m.subs), heap, aside)
	}
	if id, ok := m.b.OldestAvailable(); !m.reconciling() && (ok != (oldest != nil) || ok && id != oldest.spec.ID) {
		m.fatalf("oldest available is %v, %v, want %+v", id, ok, oldest)
	}
	var order []*Submission
	m.b.Each(func(s *Submission) bool { order = append(order, s); return true })
	if !slices.EqualFunc(order, m.subs, func(s *Submission, x *modelSub) bool { return s == x.s }) {
		m.fatalf("Each goes through %d submissions in another order than that of insertion", len(order))
	}
}

func (m *model) auditTerms() {
	want := map[queue.MetaEntry]ValueCount{}
	for _, x := range m.subs {
		for _, e := range x.spec.Meta {
			c := want[e]
			c.Value = e.Value
			c.Submissions++
			c.InFlight += uint64(x.count(held))
			if x.shown {
				*m.amountOf(x, &c.Available, &c.Paused, &c.Blocked) += uint64(x.count(free))
			}
			want[e] = c
		}
	}
	got := 0
	for key := range m.b.Values.keys {
		m.b.Values.Each(key, func(c ValueCount) bool {
			got++
			if w := want[queue.MetaEntry{Key: key, Value: c.Value}]; w != c {
				m.fatalf("%s=%v counts %+v, want %+v", key, c.Value, c, w)
			}
			if n, want := m.b.Values.Counts(key, c.Value)[strategy.Simultaneous], m.inFlight(key, c.Value); n != want {
				m.fatalf("InFlight(%s=%v) = %d, want %d", key, c.Value, n, want)
			}
			return true
		})
	}
	lacked := 0
	for name, key := range m.b.Values.keys {
		if key.of == nil {
			continue
		}
		lacked++
		if n, want := m.b.Values.Counts(name, queue.MetaValue{})[strategy.Simultaneous], m.inFlight(name, queue.MetaValue{}); n != want {
			m.fatalf("%d chunks are counted as in flight of %s, want %d", n, name, want)
		}
	}
	if lacked != len(m.b.Values.lacked) {
		m.fatalf("%d keys are counted that submissions lack, want %d", len(m.b.Values.lacked), lacked)
	}
	if got != len(want) {
		m.fatalf("%d values are counted, want %d", got, len(want))
	}
	uses := m.usesOfTerms()
	for _, t := range m.b.Values.list {
		if t == nil {
			continue
		}
		if t.all == 0 && t.uses == 0 || t.uses != uses[t] {
			m.fatalf("term %s=%v: %d submissions have it, and %d others are said to use it, want %d", t.key.name, t.value, t.all, t.uses, uses[t])
		}
		for of := range t.counters {
			m.auditTally(tally{t, strategy.Measure(of)})
		}
	}
	m.auditRates()
}

// auditTally holds a counter against the gates that it tells.
func (m *model) auditTally(t tally) {
	name, c := fmt.Sprintf("term %s=%v", t.key.name, t.value), t.counter()
	watchers, shut := t.watchers()
	gates := *watchers
	opens, shuts := uint32(0), uint32(none)
	for i, ref := range gates {
		if ref.max <= c.count {
			opens = ref.max
		} else {
			shuts = min(shuts, ref.max)
		}
		if (ref.max <= c.count) != (i < int(*shut)) || i > 0 && gates[i-1].max > ref.max {
			m.fatalf("%s with a count of %d has gates %v, %d of them shut", name, c.count, gates, *shut)
		}
		v := m.b.bases.list[ref.base]
		if ref.isGroup() {
			if w := v.fewest; w == nil || w.turns[ref.gate&^groupRef].term != t.term || c.count != ref.max && c.count+1 != ref.max {
				m.fatalf("%s with a count of %d does not know its group, which is to be told at %d", name, c.count, ref.max)
			}
		} else if ref.gate&valueRef != 0 {
			if x := &v.cells.values[ref.gate&^valueRef]; x.tally() != t || x.max != ref.max || x.max != min(v.cells.most(x), c.limit) {
				m.fatalf("%s does not know its value of view %s", name, v.bands.views[0].key)
			}
		} else if g := &v.gates[ref.gate]; g.tally() != t || g.max != ref.max && !v.bands.on {
			m.fatalf("%s does not know its gate", name)
		}
	}
	if c.count >= c.limit {
		opens = max(opens, c.limit)
	} else {
		shuts = min(shuts, c.limit)
	}
	if c.opens != opens || c.shuts != shuts {
		m.fatalf("%s with the gates %v and a count of %d looks at them below %d and from %d on, want %d and %d", name, gates, c.count,
			c.opens, c.shuts, opens, shuts)
	}
}

// usesOfTerms counts the views, dropped ones too, that filter by each term, and the shares that have it as a
// tenant.
func (m *model) usesOfTerms() map[*term]uint32 {
	uses := map[*term]uint32{}
	count := func(shares []*share) {
		for _, x := range shares {
			for value := range x.numberOf {
				if x.of.key != nil {
					uses[m.b.Values.list[value]]++
				}
			}
		}
	}
	var each func(d *division)
	each = func(d *division) {
		count(d.shares)
		for _, a := range d.arms {
			if a.inner != nil {
				each(a.inner)
			}
		}
	}
	for _, r := range m.b.Values.Rates.list {
		if r != nil && r.limit.Key == "" {
			uses[m.b.Values.Rates.all]++
		}
	}
	for _, p := range m.b.Values.Rates.due {
		uses[p.term]++
	}
	for _, t := range m.b.Values.lacked {
		if t.key.limits > 0 {
			uses[t]++
		}
	}
	for _, v := range m.b.bases.list {
		if v == nil {
			continue
		}
		for _, x := range v.filters {
			for _, t := range x.index {
				uses[t]++
			}
		}
		if v.fair != nil {
			each(v.fair.root)
			count(v.fair.undone)
		}
	}
	return uses
}

// auditView checks that everything in the base of the view is where it says it is, and counts the submissions.
func (m *model) auditView(v *View) (members int) {
	m.auditCovered(v)
	if v.fair != nil {
		if v.state == dropped {
			return 0
		}
		m.auditFair(v)
		return v.size
	}
	tops, size := make([]int, len(v.groups)), make([]int, len(v.groups))
	total := make([]uint64, len(v.groups))
	for number := range v.gates {
		g := &v.gates[number]
		want := !g.empty() && g.isOpen()
		unsettled := v.bands.on && uint32(number) < v.bands.unsettled
		switch {
		case v.bands.on && v.bands.topFor(g) == nil: // the largest number is gone: so is the gate, once it is looked at
			want = want && g.offered && unsettled
		case unsettled && !g.offered: // that number is there again, and the gate was not looked at yet
			want = false
		}
		if g.offered != want {
			m.fatalf("view %s gate %d: offered %v, want %v", v.key, number, g.offered, want)
		}
		if g.offered {
			tops[g.group]++
			in := &v.groups[g.group]
			if at := in.top.at(g.band); in.top == nil {
			} else if v.order == strategy.Random {
				total[g.group] += bound(g.topExp)
				if g.topExp != exponent(g.total) || at.nth(at.search(g.topExp)).entries[g.place].of != uint32(number) {
					m.fatalf("view %s gate %d of weight %d is lost in the top", v.key, number, g.total)
				}
			} else if at.heap[g.place] != uint32(number) {
				m.fatalf("view %s gate %d is lost in the top", v.key, number)
			}
		}
		before := members
		if v.cells != nil {
			members += m.auditCellsOf(v, uint32(number))
		} else {
			members += m.auditPool(v, uint32(number), &g.pool)
		}
		size[g.group] += members - before
	}
	offered := 0
	for i := range v.groups {
		in := &v.groups[i]
		offered += tops[i]
		heaps, weight := 0, uint64(0)
		for t := in.top; t != nil; t = t.next {
			heaps, weight = heaps+len(t.heap), weight+t.total
		}
		if in.top != nil && (v.order != strategy.Random && heaps != tops[i] || weight != total[i]) || int(in.offered) != tops[i] || int(in.size) != size[i] {
			m.fatalf("view %s group %d has %d gates in its top and %d submissions, want %d of weight %d and %d", v.key, i, in.offered, in.size, tops[i], total[i], size[i])
		}
		if v.state != dropped {
			m.auditGroup(v, uint32(i))
		}
	}
	if v.cells != nil {
		m.auditCells(v)
	}
	if v.bands.on {
		m.auditBands(v.base)
	}
	m.auditFewest(v)
	if v.offered != offered {
		m.fatalf("view %s counts %d gates in its tops, want %d", v.key, v.offered, offered)
	}
	if v.size != members || v.Gated() != (members > 0) {
		m.fatalf("view %s counts %d submissions, want %d; gated: %v", v.key, v.size, members, v.Gated())
	}
	return members
}

// auditCovered checks how many of its submissions the view says that rules cover.
func (m *model) auditCovered(v *View) {
	covered := [2]int{}
	v.standing(func(s *Submission) {
		for book, ruling := range s.ruling {
			if ruling != queue.Unruled {
				covered[book]++
			}
		}
	})
	if v.state != dropped && v.ruled != covered {
		m.fatalf("view %s counts %v submissions that rules cover, want %v", v.key, v.ruled, covered)
	}
}

// standing calls fn for every submission of a view, of a fair one for those of its leaves.
func (v *View) standing(fn func(*Submission)) {
	if v.fair == nil {
		v.each(fn)
		return
	}
	for _, leaf := range v.fair.leaves {
		leaf.each(fn)
	}
}

// auditGroup checks that a group knows its gates, and that its report to the share is right.
func (m *model) auditGroup(v *View, number uint32) {
	in := &v.groups[number]
	count, after := uint32(0), uint32(none)
	for gate := in.first; gate != none; gate = v.gates[gate].older {
		g := &v.gates[gate]
		if g.group != number || g.newer != after || (g.watched == nil) != (gate == in.free) || g.watched != nil && !v.bands.on && g.max != min(v.limits.on(g.tally()), g.tally().counter().limit) {
			m.fatalf("view %s group %d: gate %d is of group %d, watches %v, is shut from %d on", v.key, number, gate, g.group, g.watched, g.max)
		}
		count, after = count+1, gate
	}
	if (in.top != nil) != (count > 1 || v.bands.on) {
		m.fatalf("view %s group %d has %d gates; a top: %v", v.key, number, count, in.top != nil)
	}
	reported := gone
	if in.offered > 0 {
		reported = offering
	} else if in.size > 0 {
		reported = gated
	}
	if in.in != nil && in.reported != reported {
		m.fatalf("view %s group %d told that it is %d, but is %d", v.key, number, in.reported, reported)
	}
}

func (m *model) auditMember(v *View, number, place uint32, x entry) {
	s := m.b.subs.list[x.of]
	if s == nil || int(x.at) >= len(s.members) || s.members[x.at] != (member{v.number, number, place}) {
		m.fatalf("view %s gate %d place %d: the submission does not know it stands there", v.key, number, place)
	}
	if v.cells == nil {
		m.auditGateOf(v, number, s)
	}
	if group := v.groupAt(number); (v.outer != nil || v.fewest != nil) && v.state != dropped && group != v.groupOf(s) {
		m.fatalf("view %s gate %d: submission %v is with tenant %d, want %d", v.key, number, s.id, group, v.groupOf(s))
	}
	if !v.admits(s) || s.available == 0 || !s.Shown() {
		m.fatalf("view %s: submission %v should not be in it", v.key, s.id)
	}
	again := 0
	for i := range s.members {
		if s.members[i].base == v.number {
			again++
		}
	}
	if again != 1 {
		m.fatalf("view %s: submission %v is in it %d times", v.key, s.id, again)
	}
}

// auditGateOf checks that a gate is for the submission.
func (m *model) auditGateOf(v *View, number uint32, s *Submission) {
	if g := &v.gates[number]; g.watched != nil && s.termOf(g.watched.key) != g.watched || g.watched == nil && v.state != dropped && number != v.groups[g.group].free {
		m.fatalf("view %s gate %d: submission %v has not the gate's value", v.key, number, s.id)
	}
}

// auditPool checks the submissions that stand in a gate, or in a cell, of this number, and counts them.
func (m *model) auditPool(v *View, number uint32, p *pool) (members int) {
	if v.order != strategy.Random {
		for i, x := range p.entries {
			m.auditMember(v, number, uint32(i), x)
			if i > 0 && (byOrder{v.base}).before(x, p.entries[(i-1)/2]) {
				m.fatalf("view %s pool %d is no heap", v.key, number)
			}
		}
		if p.total != 0 || p.rest != nil {
			m.fatalf("view %s pool %d is a heap, but has the weight %d and buckets %v", v.key, number, p.total, p.rest)
		}
		return len(p.entries)
	}
	total := uint64(0)
	for bk := range m.bucketsOf(v, &p.sampler) {
		members += len(bk.entries)
		for i, x := range bk.entries {
			total += bound(bk.exp)
			m.auditMember(v, number, uint32(i), x)
			if s := m.b.subs.list[x.of]; exponent(uint64(s.available)) != bk.exp {
				m.fatalf("view %s: a submission with %d available is in the bucket %d", v.key, s.available, bk.exp)
			}
		}
	}
	if p.total != total {
		m.fatalf("view %s pool %d has the weight %d, want %d", v.key, number, p.total, total)
	}
	return members
}

// bucketsOf goes through the buckets of a sampler, and checks that they are in order and that none is empty.
func (m *model) bucketsOf(v *View, p *sampler) iter.Seq[*bucket] {
	if p.rest != nil && len(p.entries) == 0 && len(*p.rest) > 0 {
		m.fatalf("view %s: the first bucket is empty, but not those behind it: %v", v.key, *p.rest)
	}
	return func(yield func(*bucket) bool) {
		for i := range p.count() {
			if bk := p.nth(i); len(bk.entries) == 0 || i > 0 && p.nth(i-1).exp <= bk.exp {
				m.fatalf("view %s: bucket %d of %d is empty or of a larger exponent than the one before it: %v", v.key, i, p.count(), bk)
			} else if !yield(bk) {
				return
			}
		}
	}
}

// leaveNothing drops all views and removes all submissions: nothing may be left.
func (m *model) leaveNothing() {
	for _, v := range m.b.Views.byKey {
		v.Watch = false
	}
	if got, want := m.b.Views.Drop(0), len(m.b.Views.byKey); want != 0 {
		m.fatalf("%d views dropped, %d left", got, want)
	}
	for !m.b.Views.Sweep(7) {
		m.audit()
	}
	m.audit()
	m.rates.now += int64(time.Hour)
	m.b.Values.Rates.Advance(m.rates.now)
	m.alone()
	if count, values := m.b.Values.Rates.Known(); count+values != 0 {
		m.fatalf("%d rates and %d values of them are remembered for ever", count, values)
	}
	for _, x := range m.subs {
		if len(x.s.members) != 0 {
			m.fatalf("submission %v still stands in %d views", x.spec.ID, len(x.s.members))
		}
	}
	for _, t := range m.b.Values.list {
		if t != nil && (len(t.gates[0]) != 0 || len(t.bases) != 0 || t.uses != 0) {
			m.fatalf("term %s=%v still refers to views", t.key.name, t.value)
		}
	}
	for len(m.subs) > 0 {
		m.remove(m.subs[m.r.IntN(len(m.subs))])
	}
	for _, t := range m.b.Values.list {
		if t != nil {
			m.fatalf("term %s=%v is left over", t.key.name, t.value)
		}
	}
	if len(m.b.Views.fair) != 0 || len(m.b.Values.keys) != 0 || m.b.Len() != 0 || m.b.Available() != 0 || m.b.exceptions.putBack != 0 || len(m.b.subs.shown) != 0 || len(m.b.subs.free) != len(m.b.subs.list) || m.b.subs.first != none || m.b.subs.last != none {
		m.fatalf("the emptied backlog is not empty: %+v", m.b)
	}
	for _, v := range m.b.bases.list {
		if v != nil {
			m.fatalf("view %s is left over", v.bands.views[0].key)
		}
	}
}

// Each calls fn for every value of the key that some submission has, until fn returns false.
// The order is arbitrary, but the same after the same calls. fn must not change the backlog.
func (v *values) Each(key queue.MetaKey, fn func(ValueCount) bool) {
	k := v.keys[key]
	if k == nil {
		return
	}
	for _, t := range k.terms {
		if t.all == 0 {
			continue
		}
		if !fn(t.count(v.rules)) {
			return
		}
	}
}
