package backlog

import (
	"cmp"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// A limit is a number that a counter must not exceed. Each value has a counter for each
// strategy.Measure. This file has all code about counters. They change in taken and landed, hold submissions back
// in obstacle and overrun, and open and shut gates when they pass the gates' numbers. The rest of the package
// knows a limit as a gate that is open or shut. So a new measure only needs code here that changes its counters.

// counter counts the chunks of a value by one measure.
//
// `shuts` and `opens` are the nearest numbers at which something happens, so that a chunk that is
// taken or given back costs one comparison as a rule. They are worked out again (foresee) when the
// count passes one of them, or when a gate or a limit comes or goes. A counter with numbers that
// are out of date would leave a gate open at its limit, which is the one thing that must never
// happen.
type counter struct {
	count uint32
	limit uint32 // an operator's, 0 under a rule, or queue.NoLimit
	shuts uint32 // at this count the next gate shuts, or the limit is reached; none: neither is ahead
	opens uint32 // below this count the last shut gate opens, or the limit has room; 0: likewise
}

// reached says that nothing more may be taken, by a limit of so much.
func (c *counter) reached(max uint32) bool { return strategy.Reached(c.count, max) }

// overrun reports whether an operator's limit forbids taking another chunk.
func (c *counter) overrun() bool { return c.reached(c.limit) }

// tally is one of the counters of a term. A tally without a term means none.
type tally struct {
	*term
	of strategy.Measure
}

// counter is the counter. (The remainder changes nothing: with it the compiler needs no
// check, and where there is one measure no index.)
func (t tally) counter() *counter {
	if t.of < strategy.Measures {
		return &t.counters[t.of%strategy.Measures]
	}
	return &t.pace().counter
}

// reached says whether nothing more may be taken, by a limit of so much.
func (t tally) reached(max uint32) bool {
	if t.of < strategy.Measures {
		c := &t.counters[t.of%strategy.Measures]
		return c.reached(min(max, c.limit))
	}
	return t.behind()
}

// watchers are the gates that the counter opens and shuts, with the number of shut ones.
func (t tally) watchers() (gates *[]gateRef, shut *uint32) {
	if t.of < strategy.Measures {
		return &t.gates[t.of%strategy.Measures], &t.shut[t.of%strategy.Measures]
	}
	p := t.pace()
	return &p.gates, &p.shut
}

// gateRef names a gate of a base, with valueRef a value by which cells are told apart, or with groupRef a group.
type gateRef struct{ max, base, gate uint32 }

// isGroup says that it is a group that is ranked by the count.
func (r gateRef) isGroup() bool { return r.gate&(groupRef|valueRef) == groupRef }

// limits are the limits of a base's branch, one per key.
type limits []limit

type limit struct {
	key *metaKey
	of  strategy.Measure
	max uint32
}

// counts says whether the limit is one of the tally.
func (l limit) counts(t tally) bool { return l.key == t.key && l.of == t.of }

// on is how much of a tally there may be.
func (l limits) on(t tally) uint32 {
	for i := range l {
		if l[i].counts(t) {
			return l[i].max
		}
	}
	return queue.NoLimit
}

// has says whether a key is limited.
func (l limits) has(key *metaKey) bool {
	return slices.ContainsFunc(l, func(x limit) bool { return x.key == key })
}

// putFirst has the limits of a key looked at before the others.
func (l limits) putFirst(key *metaKey) {
	slices.SortStableFunc(l, func(a, b limit) int {
		switch {
		case a.key == key && b.key != key:
			return -1
		case a.key != key && b.key == key:
			return 1
		}
		return 0
	})
}

// obstacle is the first of the submission's tallies that is at its limit, by the limits of a view whose number is
// `most` or by an operator's limit; none if there is none.
func (b *base) obstacle(s *Submission, most uint32) tally {
	for i := range b.limits {
		l := &b.limits[i]
		if t := s.termOf(l.key); t != nil {
			if at := (tally{t, l.of}); at.reached(min(l.max, most)) {
				return at
			}
		}
	}
	return tally{b.Values.overrun(s), strategy.Simultaneous}
}

// overrun is a term of the submission that is at its operator's limit, nil if there is none.
func (v *values) overrun(s *Submission) *term {
	if v.limited > 0 {
		for _, ref := range s.refs() {
			if t := v.list[ref.term]; t.counters[strategy.Simultaneous].overrun() {
				return t
			}
		}
	}
	return nil
}

// taken counts a chunk of the value as taken, and shuts the gates whose numbers are reached.
func (v *values) taken(t *term) {
	if t.counters[strategy.Simultaneous].raise(1) {
		v.shutGates(t, strategy.Simultaneous)
	}
	if v.together != nil {
		v.together.note(t)
	}
}

// landed counts chunks of the value that are no longer in flight, and opens the gates that this allows.
func (v *values) landed(t *term, chunks uint32) {
	if t.counters[strategy.Simultaneous].lower(chunks) {
		v.openGates(t, strategy.Simultaneous)
	}
	if v.together != nil {
		v.together.note(t)
	}
}

// raise counts more, and says whether a gate shuts by that or the limit is reached: the
// counter itself knows when none does.
func (c *counter) raise(by uint32) (passed bool) {
	c.count += by
	return c.count >= c.shuts
}

// lower counts less, and says whether a gate opens by that or the limit has room.
func (c *counter) lower(by uint32) (passed bool) {
	c.count -= by
	return c.count < c.opens
}

// correct adds a difference that a recount found. Gates open and shut by it.
func (v *values) correct(t tally, by int64) {
	t.counter().count += uint32(by)
	v.openGates(t.term, t.of)
	v.shutGates(t.term, t.of)
}

// shutGates looks only at the gates that shut, as they are sorted.
func (v *values) shutGates(of *term, by strategy.Measure) {
	t := tally{of, by}
	c := t.counter()
	gates, shut := t.watchers()
	for int(*shut) < len(*gates) && c.reached((*gates)[*shut].max) {
		*shut++
		v.counted((*gates)[*shut-1])
	}
	c.foresee(*gates, *shut)
	v.regardMoved()
}

// openGates is the inverse of shutGates.
func (v *values) openGates(of *term, by strategy.Measure) {
	t := tally{of, by}
	c := t.counter()
	if !c.overrun() && c.limit != queue.NoLimit {
		v.room++
	}
	gates, shut := t.watchers()
	for *shut > 0 && !c.reached((*gates)[*shut-1].max) {
		*shut--
		v.counted((*gates)[*shut])
	}
	c.foresee(*gates, *shut)
	v.regardMoved()
}

// foresee notes the next counts at which a gate shuts or opens, or the limit is reached or has room.
func (t tally) foresee() {
	gates, shut := t.watchers()
	t.counter().foresee(*gates, *shut)
}

// foresee does that for a counter with these gates, of which the first `shut` are shut.
func (c *counter) foresee(gates []gateRef, shut uint32) {
	c.opens, c.shuts = 0, none
	if shut > 0 {
		c.opens = gates[shut-1].max
	}
	if int(shut) < len(gates) {
		c.shuts = gates[shut].max
	}
	if c.overrun() {
		c.opens = max(c.opens, c.limit)
	} else {
		c.shuts = min(c.shuts, c.limit)
	}
}

// counted tells a gate, or a value, that its counter passed its number. A gate in a band is told after all others
// (regardMoved), as its move changes the numbers that the counter watches.
func (v *values) counted(ref gateRef) {
	b := v.bases.list[ref.base]
	if b.bands.on || ref.isGroup() {
		v.moved = append(v.moved, ref)
		return
	}
	b.counted(ref.gate)
}

func (v *values) regardMoved() {
	if len(v.moved) == 0 {
		return
	}
	for _, ref := range v.moved {
		if b := v.bases.list[ref.base]; ref.isGroup() {
			b.fewest.regard(ref.gate &^ groupRef)
		} else {
			b.bands.regard(ref.gate)
		}
	}
	v.moved = v.moved[:0]
}

// watch has the counter open and shut the gate from now on.
func (t tally) watch(ref gateRef) {
	gates, shut := t.watchers()
	at, _ := slices.BinarySearchFunc(*gates, ref.max, func(g gateRef, max uint32) int {
		if g.max <= max {
			return -1
		}
		return 1
	})
	*gates = slices.Insert(*gates, at, ref)
	if t.counter().reached(ref.max) {
		*shut++
	}
	t.foresee()
}

// unwatch has the counter tell a gate, or a value, once less, and says whether it told it
// at all. Gates are given up from the last one on, so it looks from the end.
func (t tally) unwatch(base, gate uint32) bool {
	gates, shut := t.watchers()
	for at := len(*gates) - 1; at >= 0; at-- {
		if ref := (*gates)[at]; ref.base == base && ref.gate == gate {
			*gates = slices.Delete(*gates, at, at+1)
			if at < int(*shut) {
				*shut--
			}
			t.foresee()
			if t.of >= strategy.Measures {
				t.pace().forgetIdle()
			}
			return true
		}
	}
	return false
}

// relimit is called when the operator's limit of the counter changed.
func (v *values) relimit(t tally, limit uint32) {
	c := t.counter()
	gates, shut := t.watchers()
	c.limit = limit
	v.room++
	*gates = slices.DeleteFunc(*gates, func(ref gateRef) bool {
		watchesCount := v.bases.list[ref.base].bands.on || ref.isGroup()
		if watchesCount {
			v.counted(ref)
		}
		return watchesCount
	})
	for i := range *gates {
		ref := &(*gates)[i]
		ref.max = v.bases.list[ref.base].relimit(ref.gate, limit)
	}
	slices.SortStableFunc(*gates, func(a, b gateRef) int { return cmp.Compare(a.max, b.max) })
	*shut = 0
	for int(*shut) < len(*gates) && c.reached((*gates)[*shut].max) {
		*shut++
	}
	t.foresee()
	for _, ref := range *gates {
		v.counted(ref)
	}
	v.regardMoved()
}
