package backlog

import (
	"cmp"
	"slices"

	"github.com/quern-queue/quern/engine/queue"
)

// metaKey is a key that a term or a limit of a view uses; it goes with the last of them.
type metaKey struct {
	name    queue.MetaKey
	byValue map[queue.MetaValue]*term
	terms   []*term // the same, in an order that depends on the calls only
	limits  int     // views that limit it or share by it
	left    uint64  // how often a term went, and another one may have taken its place
}

// term is a key with a value that some submission has, some view filters by or some share has a tenant for; it goes with the last
// of them.
type term struct {
	// The fields that every pick reads share a cache line: the last two are what a reservation tells of its submission.
	available uint64 // chunks, of the shown submissions that have it
	inFlight  uint32 // chunks, of all submissions that have it
	limit     uint32 // an operator's, 0 under a rule, or queue.NoLimit
	shuts     uint32 // with so many in flight the next gate shuts, or the limit is reached; none: neither is ahead
	opens     uint32 // with fewer in flight the last shut gate opens, or the limit has room; 0: likewise
	key       *metaKey
	value     queue.MetaValue

	gates  []gateRef       // gates that this term's counter opens and shuts, by max
	shut   uint32          // gates[:shut] are shut: max <= inFlight
	number uint32          // in terms.list
	place  uint32          // in key.terms
	all    uint32          // submissions that have it
	uses   uint32          // views that filter by it, and shares of which it is a tenant
	ruling [2]queue.Ruling // by book
	shown  []uint32
	frames []*frame // that find their submissions through this term

	covered [2][2]uint64 // of available, by book what pauses and what blocks cover
	// 192 bytes: whole cache lines
}

// gateRef names a gate of a frame, or with valueRef a value by which cells are told apart.
type gateRef struct{ max, frame, gate uint32 }

// terms are the keys and values that submissions have, views ask for and operators demand something of. They count the chunks in flight of
// each, and their counters open and shut gates.
type terms struct {
	of       *Backlog
	keys     map[queue.MetaKey]*metaKey
	list     []*term // by number; nil where free
	free     []uint32
	moved    []gateRef // scratch: gates whose counters passed a number of their bands
	settings map[queue.MetaEntry]queue.ValueSettings
	limited  int    // values that have a limit: an operator's, or that of a rule
	room     uint64 // how often an operator's limit may have got room
}

// intern finds or makes the term. The caller counts its use.
func (x *terms) intern(name queue.MetaKey, value queue.MetaValue) *term {
	key := x.internKey(name)
	if t := key.byValue[value]; t != nil {
		return t
	}
	t := &term{key: key, value: value, place: uint32(len(key.terms))}
	entry := queue.MetaEntry{Key: name, Value: value}
	t.limit, t.ruling = x.limitOf(entry), x.of.Rules.rulingsOf(entry)
	t.foresee()
	if last := len(x.free) - 1; last >= 0 {
		t.number, x.free = x.free[last], x.free[:last]
		x.list[t.number] = t
	} else {
		t.number = uint32(len(x.list))
		x.list = append(x.list, t)
	}
	key.byValue[value] = t
	key.terms = append(key.terms, t)
	return t
}

func (x *terms) internKey(name queue.MetaKey) *metaKey {
	key := x.keys[name]
	if key == nil {
		key = &metaKey{name: name, byValue: map[queue.MetaValue]*term{}}
		x.keys[name] = key
	}
	return key
}

// release forgets the term if nothing uses it any more. Its gates are empty by then.
func (x *terms) release(t *term) {
	if t.all > 0 || t.uses > 0 {
		return
	}
	for _, ref := range t.gates {
		x.of.Views.frames[ref.frame].dropRef(ref.gate)
	}
	delete(t.key.byValue, t.value)
	last := t.key.terms[len(t.key.terms)-1]
	t.key.terms[t.place] = last
	last.place = t.place
	t.key.left++
	t.key.terms[len(t.key.terms)-1] = nil
	t.key.terms = trimmed(t.key.terms[:len(t.key.terms)-1])
	x.list[t.number] = nil
	x.free = append(x.free, t.number)
	x.releaseKey(t.key)
}

func (x *terms) releaseKey(key *metaKey) {
	if len(key.terms) == 0 && key.limits == 0 {
		delete(x.keys, key.name)
	}
}

// raise counts one more chunk in flight and shuts the gates that are reached. Gates are sorted, so only those that change
// are looked at, and the term itself knows when none does.
func (x *terms) raise(t *term) {
	if t.inFlight++; t.inFlight >= t.shuts {
		x.shutGates(t)
	}
}

func (x *terms) shutGates(t *term) {
	for int(t.shut) < len(t.gates) && t.gates[t.shut].max <= t.inFlight {
		ref := t.gates[t.shut]
		t.shut++
		t.foresee()
		x.counted(ref)
	}
	t.foresee()
	if len(x.moved) > 0 {
		x.regardMoved()
	}
}

// counted tells a gate, or a value, that its counter passed its limit. One that stands in a band is told after all others, as that changes
// what its term has to tell.
func (x *terms) counted(ref gateRef) {
	f := x.of.Views.frames[ref.frame]
	if f.bands.on {
		x.moved = append(x.moved, ref)
		return
	}
	f.counted(ref.gate)
}

func (x *terms) regardMoved() {
	for _, ref := range x.moved {
		x.of.Views.frames[ref.frame].bands.regard(ref.gate)
	}
	x.moved = x.moved[:0]
}

// foresee notes what the counter has to reach for a gate to shut or open, or for the limit to be reached or to have room.
func (t *term) foresee() {
	t.opens, t.shuts = 0, none
	if t.shut > 0 {
		t.opens = t.gates[t.shut-1].max
	}
	if int(t.shut) < len(t.gates) {
		t.shuts = t.gates[t.shut].max
	}
	if t.inFlight >= t.limit {
		t.opens = max(t.opens, t.limit)
	} else {
		t.shuts = min(t.shuts, t.limit)
	}
}

// lower counts chunks that are no longer in flight and opens the gates that allows.
func (x *terms) lower(t *term, by uint32) {
	if t.inFlight -= by; t.inFlight < t.opens {
		if t.inFlight < t.limit && t.limit != queue.NoLimit {
			x.room++
		}
		x.openGates(t)
	}
}

func (x *terms) openGates(t *term) {
	for t.shut > 0 && t.gates[t.shut-1].max > t.inFlight {
		t.shut--
		ref := t.gates[t.shut]
		t.foresee()
		x.counted(ref)
	}
	t.foresee()
	if len(x.moved) > 0 {
		x.regardMoved()
	}
}

// watchGate has the term's counter open and shut the gate from now on.
func (t *term) watchGate(ref gateRef) {
	at, _ := slices.BinarySearchFunc(t.gates, ref.max, func(g gateRef, limit uint32) int {
		if g.max <= limit {
			return -1
		}
		return 1
	})
	t.gates = slices.Insert(t.gates, at, ref)
	if ref.max <= t.inFlight {
		t.shut++
	}
	t.foresee()
}

// relimit is for a term whose operator's limit changed.
func (x *terms) relimit(t *term, limit uint32) {
	t.limit = limit
	x.room++
	t.gates = slices.DeleteFunc(t.gates, func(ref gateRef) bool {
		banded := x.of.Views.frames[ref.frame].bands.on
		if banded {
			x.counted(ref)
		}
		return banded
	})
	for i := range t.gates {
		ref := &t.gates[i]
		ref.max = x.of.Views.frames[ref.frame].relimit(ref.gate, limit)
	}
	slices.SortStableFunc(t.gates, func(x, y gateRef) int { return cmp.Compare(x.max, y.max) })
	t.shut = 0
	for int(t.shut) < len(t.gates) && t.gates[t.shut].max <= t.inFlight {
		t.shut++
	}
	t.foresee()
	for _, ref := range t.gates {
		x.counted(ref)
	}
	x.regardMoved()
}

// unwatchGate has the term's counter tell a gate, or a value, once less, and says whether it told it at all. Gates are given up from the
// last one on, so it looks from the end.
func (t *term) unwatchGate(frame, gate uint32) bool {
	for at := len(t.gates) - 1; at >= 0; at-- {
		if ref := t.gates[at]; ref.frame == frame && ref.gate == gate {
			t.gates = slices.Delete(t.gates, at, at+1)
			if at < int(t.shut) {
				t.shut--
			}
			t.foresee()
			return true
		}
	}
	return false
}
