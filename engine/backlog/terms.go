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
	number uint32          // in Backlog.terms
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

// intern finds or makes the term. The caller counts its use.
func (b *Backlog) intern(name queue.MetaKey, value queue.MetaValue) *term {
	key := b.internKey(name)
	if t := key.byValue[value]; t != nil {
		return t
	}
	t := &term{key: key, value: value, place: uint32(len(key.terms))}
	entry := queue.MetaEntry{Key: name, Value: value}
	t.limit, t.ruling = b.limitOf(entry), b.rulingsOf(entry)
	t.foresee()
	if last := len(b.freeTerms) - 1; last >= 0 {
		t.number, b.freeTerms = b.freeTerms[last], b.freeTerms[:last]
		b.terms[t.number] = t
	} else {
		t.number = uint32(len(b.terms))
		b.terms = append(b.terms, t)
	}
	key.byValue[value] = t
	key.terms = append(key.terms, t)
	return t
}

func (b *Backlog) internKey(name queue.MetaKey) *metaKey {
	key := b.keys[name]
	if key == nil {
		key = &metaKey{name: name, byValue: map[queue.MetaValue]*term{}}
		b.keys[name] = key
	}
	return key
}

// release forgets the term if nothing uses it any more. Its gates are empty by then.
func (b *Backlog) release(t *term) {
	if t.all > 0 || t.uses > 0 {
		return
	}
	for _, ref := range t.gates {
		b.frames[ref.frame].dropRef(ref.gate)
	}
	delete(t.key.byValue, t.value)
	last := t.key.terms[len(t.key.terms)-1]
	t.key.terms[t.place] = last
	last.place = t.place
	t.key.left++
	t.key.terms[len(t.key.terms)-1] = nil
	t.key.terms = trimmed(t.key.terms[:len(t.key.terms)-1])
	b.terms[t.number] = nil
	b.freeTerms = append(b.freeTerms, t.number)
	b.releaseKey(t.key)
}

func (b *Backlog) releaseKey(key *metaKey) {
	if len(key.terms) == 0 && key.limits == 0 {
		delete(b.keys, key.name)
	}
}

// raise counts one more chunk in flight and shuts the gates that are reached. Gates are sorted, so only those that change
// are looked at, and the term itself knows when none does.
func (b *Backlog) raise(t *term) {
	if t.inFlight++; t.inFlight >= t.shuts {
		b.shutGates(t)
	}
}

func (b *Backlog) shutGates(t *term) {
	for int(t.shut) < len(t.gates) && t.gates[t.shut].max <= t.inFlight {
		ref := t.gates[t.shut]
		t.shut++
		t.foresee()
		b.counted(ref)
	}
	t.foresee()
	if len(b.moved) > 0 {
		b.regardMoved()
	}
}

// counted tells a gate, or a value, that its counter passed its limit. One that stands in a band is told after all others, as that changes
// what its term has to tell.
func (b *Backlog) counted(ref gateRef) {
	f := b.frames[ref.frame]
	if f.bands.on {
		b.moved = append(b.moved, ref)
		return
	}
	f.counted(ref.gate)
}

func (b *Backlog) regardMoved() {
	for _, ref := range b.moved {
		b.frames[ref.frame].bands.regard(ref.gate)
	}
	b.moved = b.moved[:0]
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
func (b *Backlog) lower(t *term, by uint32) {
	if t.inFlight -= by; t.inFlight < t.opens {
		if t.inFlight < t.limit && t.limit != queue.NoLimit {
			b.room++
		}
		b.openGates(t)
	}
}

func (b *Backlog) openGates(t *term) {
	for t.shut > 0 && t.gates[t.shut-1].max > t.inFlight {
		t.shut--
		ref := t.gates[t.shut]
		t.foresee()
		b.counted(ref)
	}
	t.foresee()
	if len(b.moved) > 0 {
		b.regardMoved()
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
func (b *Backlog) relimit(t *term, limit uint32) {
	t.limit = limit
	b.room++
	t.gates = slices.DeleteFunc(t.gates, func(ref gateRef) bool {
		banded := b.frames[ref.frame].bands.on
		if banded {
			b.counted(ref)
		}
		return banded
	})
	for i := range t.gates {
		ref := &t.gates[i]
		ref.max = b.frames[ref.frame].relimit(ref.gate, limit)
	}
	slices.SortStableFunc(t.gates, func(x, y gateRef) int { return cmp.Compare(x.max, y.max) })
	t.shut = 0
	for int(t.shut) < len(t.gates) && t.gates[t.shut].max <= t.inFlight {
		t.shut++
	}
	t.foresee()
	for _, ref := range t.gates {
		b.counted(ref)
	}
	b.regardMoved()
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

// ValueCount is what is known of one value of a key.
type ValueCount struct {
	Value       queue.MetaValue
	InFlight    uint64 // chunks in flight
	Available   uint64 // chunks available in shown submissions that no rule covers
	Paused      uint64 // those that a pause covers, and no block
	Blocked     uint64 // those that a block covers
	Submissions int    // submissions that have the value, hidden ones too
}

// Values calls fn for every value of the key that some submission has, until fn returns false. The order is arbitrary, but
// the same after the same calls. fn must not change the backlog.
func (b *Backlog) Values(key queue.MetaKey, fn func(ValueCount) bool) {
	k := b.keys[key]
	if k == nil {
		return
	}
	for _, t := range k.terms {
		if t.all == 0 {
			continue
		}
		if !fn(t.count(b)) {
			return
		}
	}
}

func (t *term) count(b *Backlog) ValueCount {
	n := t.amounts(b)
	return ValueCount{
		Value: t.value, InFlight: uint64(t.inFlight), Available: n.Ready, Paused: n.Paused, Blocked: n.Blocked, Submissions: int(t.all),
	}
}

// ValueWalk is how far a walk over the values of a key has come. The zero ValueWalk begins one. Between its steps the backlog
// may change: what comes meanwhile may be missed, what goes too, and everything else is met.
type ValueWalk struct {
	// Twice says that values went between two steps, so that others may have been met twice.
	Twice bool

	key   *metaKey
	at    int // the terms before this place are left
	left  uint64
	begun bool
}

// WalkValues calls fn for the next values of the key, after looking at `most` of them at most, and says whether more are left.
// fn must not change the backlog. It walks from the end: when a value goes, the last one takes its place, which a walk from the
// front would never meet.
func (b *Backlog) WalkValues(key queue.MetaKey, w *ValueWalk, most int, fn func(ValueCount)) (more bool) {
	k := b.keys[key]
	if k == nil {
		return false
	}
	switch {
	case !w.begun:
		w.begun, w.key, w.at, w.left = true, k, len(k.terms), k.left
	case w.key != k: // all its values went, and new ones came
		return false
	case w.left != k.left:
		w.Twice, w.left, w.at = true, k.left, min(w.at, len(k.terms))
	}
	for ; most > 0 && w.at > 0; most-- {
		w.at--
		if t := k.terms[w.at]; t.all > 0 {
			fn(t.count(b))
		}
	}
	return w.at > 0
}

// InFlight is how many chunks of submissions with this value are in flight.
func (b *Backlog) InFlight(key queue.MetaKey, value queue.MetaValue) uint32 {
	if k := b.keys[key]; k != nil {
		if t := k.byValue[value]; t != nil {
			return t.inFlight
		}
	}
	return 0
}
