package backlog

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
)

// metaKey is a key that a term or a limit of a view uses; it goes with the last of them.
type metaKey struct {
	name    queue.MetaKey
	byValue map[queue.MetaValue]*term
	terms   []*term // the same, in an order that depends on the calls only
	limits  int     // views that limit it or share by it, and keys that stand for the lack of it
	rates   []*rate // that count by it
	values  *values
	of      *metaKey // the key for whose lack this one stands; nil: it is one that submissions have
	left    uint64   // how often a term went, and another one may have taken its place
}

// term is a key with a value that some submission has, some view filters by or some share
// has a tenant for; it goes with the last of them.
type term struct {
	// The fields that every pick reads share a cache line: a reservation tells the last two of its submission.
	available uint64 // chunks, of the shown submissions that have it
	counters  [strategy.Measures]counter
	key       *metaKey
	value     queue.MetaValue

	gates  [strategy.Measures][]gateRef // that a counter opens and shuts, by max
	shut   [strategy.Measures]uint32    // how many of them are shut, the first ones
	number uint32                       // in values.list
	place  uint32                       // in key.terms
	all    uint32                       // submissions that have it
	uses   uint32                       // views that filter by it, and shares that have it as a tenant
	ruling [2]queue.Ruling              // by book
	shown  []uint32
	bases  []*base // that find their submissions through this term

	covered [2][2]uint64 // of available, by book: those under pauses, those under blocks
	// 192 bytes: whole cache lines
}

// values are the keys and values that submissions have, views ask for, or operators have settings for. Each value
// counts its chunks in flight, and its counters open and shut gates.
//
// A term lives as long as a submission has it, a view filters by it, or a share has a tenant for
// it: all and uses count these. So memory follows the values in use, not all values ever seen. Numbers of terms are
// used again, so release also drops the gates, groups and paces of the term.
type values struct {
	subs     *submissions
	rules    *rulings
	bases    *bases
	keys     map[queue.MetaKey]*metaKey
	list     []*term // by number; nil where free
	free     []uint32
	moved    []gateRef // scratch: gates whose counters passed a number of their bands
	settings map[queue.MetaEntry]queue.ValueSettings
	defaults map[queue.MetaKey]queue.ValueSettings
	limited  int       // values and defaults that have a limit: an operator's, or that of a rule
	room     uint64    // how often an operator's limit may have got room
	Rates    rates     // that limit reservations per time
	lacked   []*term   // that count submissions for the lack of a key
	together *together // nil: no key is counted together with other backlogs
}

func newValues(subs *submissions, rules *rulings, bases *bases) values {
	return values{subs: subs, rules: rules, bases: bases, keys: map[queue.MetaKey]*metaKey{},
		settings: map[queue.MetaEntry]queue.ValueSettings{}, defaults: map[queue.MetaKey]queue.ValueSettings{}}
}

// intern finds or makes the term. The caller counts its use.
func (v *values) intern(name queue.MetaKey, value queue.MetaValue) *term {
	key := v.internKey(name)
	if t := key.byValue[value]; t != nil {
		return t
	}
	t := &term{key: key, value: value, place: uint32(len(key.terms))}
	entry := queue.MetaEntry{Key: name, Value: value}
	for of := range t.counters {
		t.counters[of].limit = queue.NoLimit
	}
	t.counters[strategy.Simultaneous].limit, t.ruling = v.limitOf(entry), v.rules.rulingsOf(entry)
	t.counters[strategy.Simultaneous].count = t.elsewhere()
	for of := range t.counters {
		tally{t, strategy.Measure(of)}.foresee()
	}
	if last := len(v.free) - 1; last >= 0 {
		t.number, v.free = v.free[last], v.free[:last]
		v.list[t.number] = t
	} else {
		t.number = uint32(len(v.list))
		v.list = append(v.list, t)
	}
	key.byValue[value] = t
	key.terms = append(key.terms, t)
	return t
}

func (v *values) internKey(name queue.MetaKey) *metaKey {
	key := v.keys[name]
	if key == nil {
		key = &metaKey{name: name, values: v, byValue: map[queue.MetaValue]*term{}}
		v.keys[name] = key
		if of, lack := queue.LackedBy(name); lack {
			key.of = v.internKey(of)
			key.of.limits++
		}
	}
	return key
}

// release forgets the term if nothing uses it any more. Its gates are empty by then.
func (v *values) release(t *term) {
	if t.all > 0 || t.uses > 0 {
		return
	}
	if n := t.elsewhere(); n > 0 { // a gate that goes is open
		v.correct(tally{t, strategy.Simultaneous}, -int64(n))
	}
	v.dropGroups(t)
	for _, gates := range t.gates {
		for _, ref := range gates {
			v.bases.list[ref.base].dropRef(ref.gate)
		}
	}
	v.dropPaces(t)
	if t.key.of != nil {
		v.lackedGone(t)
	}
	delete(t.key.byValue, t.value)
	last := t.key.terms[len(t.key.terms)-1]
	t.key.terms[t.place] = last
	for _, r := range t.key.rates {
		r.paces.moved(last, t.place)
	}
	last.place = t.place
	t.key.left++
	t.key.terms[len(t.key.terms)-1] = nil
	t.key.terms = trimmed(t.key.terms[:len(t.key.terms)-1])
	v.list[t.number] = nil
	v.free = append(v.free, t.number)
	v.releaseKey(t.key)
}

// dropGroups gives up the groups of a term that goes, with their gates. The term may watch some of these gates itself,
// and then the list changes under the loop: so the loop starts again after each group. There are as many groups as such
// views.
func (v *values) dropGroups(t *term) {
	gates := &t.gates[strategy.Simultaneous]
	for at := 0; at < len(*gates); at++ {
		if ref := (*gates)[at]; ref.isGroup() {
			v.bases.list[ref.base].dropRef(ref.gate)
			at = -1
		}
	}
}

func (v *values) releaseKey(key *metaKey) {
	if len(key.terms) == 0 && key.limits == 0 && len(key.rates) == 0 {
		delete(v.keys, key.name)
		if of := key.of; of != nil {
			key.of = nil
			of.limits--
			v.releaseKey(of)
		}
	}
}

// inFlight is how many chunks of submissions with the value are in flight.
func (t *term) inFlight() uint32 { return t.counters[strategy.Simultaneous].count }

// limit is how many of them an operator allows: 0 under a rule, or queue.NoLimit.
func (t *term) limit() uint32 { return t.counters[strategy.Simultaneous].limit }
