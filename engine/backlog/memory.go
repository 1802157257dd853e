package backlog

import (
	"unsafe"
)

// The memory of views, in bytes, is calculated from the lengths of their lists and maps, because
// nothing else is known without a walk. A test compares it with the heap.

// The bytes of a list per element, with its unused capacity.
const (
	memberBytes = uint64(unsafe.Sizeof(member{}))
	entryBytes  = uint64(unsafe.Sizeof(entry{})) * 5 / 4
	watchBytes  = 2 * uint64(unsafe.Sizeof(gateRef{})) // likewise the list of a term
	rankBytes   = entryBytes
)

// The bytes of an entry of a map: its key and value, a control byte, and its part of the room, of
// which an eighth to a half is unused.
const (
	gateOfBytes   = 24
	firstBytes    = 24
	valueOfBytes  = 24
	numberOfBytes = 16
)

// The bytes of a gate, of a value of a view of cells, and of a tenant.
const (
	gateBytes   = uint64(unsafe.Sizeof(gate{}))*9/8 + rankBytes + gateOfBytes + watchBytes
	valueBytes  = uint64(unsafe.Sizeof(value{}))*5/4 + 4 + valueOfBytes + watchBytes
	tenantBytes = uint64(unsafe.Sizeof(tenant{})) + numberOfBytes + ledgerBytes
)

// ledgerBytes are the bytes of a tenant in the ledger of its share.
const ledgerBytes = 96

// viewBytes are the bytes of a view beside its base.
const viewBytes = uint64(unsafe.Sizeof(View{})) + uint64(unsafe.Sizeof(top{})) + 64

// Bytes is about how much memory the view takes: of a base that it shares with others an equal part,
// and nothing if only questions made it but not the others. So the bytes of all views add up to the
// memory of all.
func (v *View) Bytes() uint64 {
	n := viewBytes + uint64(len(v.key))
	sharing := uint64(0)
	for _, other := range v.bands.views {
		if other.asked == v.asked {
			sharing++
		} else if v.asked {
			return n
		}
	}
	return n + v.base.claimed()/max(sharing, 1)
}

// claimed is the memory of the base, or the most that it may become.
func (b *base) claimed() uint64 { return max(b.promised, b.bytes()) }

func (b *base) bytes() uint64 {
	n := uint64(unsafe.Sizeof(*b)) + uint64(len(b.shape)) + 64*uint64(len(b.limits)+len(b.filters))
	if f := b.fair; f != nil {
		for _, leaf := range f.leaves {
			n += leaf.bytes()
		}
		return n + f.root.bytes()
	}
	n += uint64(b.size) * (memberBytes + entryBytes)
	n += uint64(cap(b.gates))*uint64(unsafe.Sizeof(gate{})) + uint64(len(b.gates))*rankBytes +
		uint64(len(b.gateOf))*(gateOfBytes+watchBytes)
	n += uint64(cap(b.groups)) * uint64(unsafe.Sizeof(group{}))
	if b.fewest != nil {
		n += b.fewest.bytes()
	}
	if c := b.cells; c != nil {
		n += uint64(cap(c.list))*uint64(unsafe.Sizeof(cell{})) + 4*uint64(cap(c.rows)) + uint64(len(c.first))*firstBytes
		n += uint64(cap(c.values))*(uint64(unsafe.Sizeof(value{}))+4) + uint64(len(c.valueOf))*(valueOfBytes+watchBytes)
	}
	return n
}

// bytes is the memory of a division's shares, without its leaves.
func (d *division) bytes() (n uint64) {
	groups := uint64(0)
	for _, a := range d.arms {
		if a.inner != nil {
			n += a.inner.bytes()
			continue
		}
		groups = max(groups, uint64(len(a.leaf.groups))) // one for each tenant that has something there
	}
	for _, x := range d.shares[:min(len(d.shares), 1)] {
		groups = max(groups, uint64(len(x.tenants)))
	}
	each := tenantBytes + 4*uint64(len(d.arms))
	return n + groups*each + uint64(len(d.shares))*uint64(unsafe.Sizeof(share{}))
}

// Memory is the size of the standing views in bytes: Views of those that reserves use, Asked of those
// that only questions made. Views that were dropped but not swept yet do not count.
type Memory struct{ Views, Asked uint64 }

// Memory adds up the views.
func (vs *views) Memory() (m Memory) {
	for v := range vs.bases.views() {
		if v.asked {
			m.Asked += v.Bytes()
		} else {
			m.Views += v.Bytes()
		}
	}
	return m
}

// Promise is about how much memory a view may take that is to be built now; 0: it asks for
// nothing, as it is, or was promised before. Of the memory that it shares with others, its part
// counts. From now on the promised memory counts as taken. If there is not so much, call Forgo.
func (vs *views) Promise(v *View) uint64 {
	if v.state != building || v.granted {
		return 0
	}
	v.granted = true
	if v.unmet() > 0 {
		v.base.promised = v.base.bytes() + v.foreseen()
	}
	return v.Bytes()
}

// Forgo drops a view that memory has no space for, unless a waiter needs it.
func (vs *views) Forgo(v *View) {
	if v.granted = false; len(v.bands.views) == 1 {
		v.base.promised = 0
	}
	if !v.Watch {
		vs.drop(v)
	}
}

// foreseen is the memory that the submissions still to be examined add, if all of them match.
func (b *base) foreseen() (n uint64) {
	if b.fair != nil {
		for _, leaf := range b.fair.leaves {
			n += leaf.foreseen()
		}
		return n + b.fair.root.foreseen(uint64(len(b.subs.shown)))
	}
	subs, gates := uint64(b.unmet()), uint64(0)
	for _, l := range b.limits {
		gates += min(subs, uint64(len(l.key.terms)))
	}
	n = subs*(memberBytes+entryBytes) + gates*gateBytes
	if b.fewest != nil {
		values := min(subs, uint64(len(b.fewest.key.terms)))
		n += values * (uint64(unsafe.Sizeof(group{})) + turnBytes + gateBytes)
	}
	if b.cells != nil {
		n += subs*(uint64(unsafe.Sizeof(cell{}))*9/8+firstBytes+4*uint64(len(b.cells.dims))) + gates*valueBytes
	}
	return n
}

// foreseen is the memory that tenants add. An inner division may have a share for every tenant around
// it, and a tenant for each submission.
func (d *division) foreseen(subs uint64) (n uint64) {
	tenants := subs
	if d.key != nil && d == d.of.root {
		tenants = min(subs, uint64(len(d.key.terms)))
	}
	n = tenants * tenantBytes
	for _, a := range d.arms {
		if a.inner != nil {
			n += tenants*uint64(unsafe.Sizeof(share{})) + a.inner.foreseen(subs)
			continue
		}
		n += tenants * (uint64(unsafe.Sizeof(group{})) + gateBytes + 4)
	}
	return n
}

// Calls of Tick after which a view counts as idle: a view of questions, and a view of consumers.
const (
	askedIdle = 2
	takenIdle = 10
	longIdle  = 60
)

// ticks remember the clock of uses at the last calls of Tick.
type ticks struct {
	uses [longIdle + 1]uint64
	at   int
}

// Tick says that a second has passed. Ticks tell the views in use from idle ones.
func (vs *views) Tick() {
	vs.ticks.at = (vs.ticks.at + 1) % len(vs.ticks.uses)
	vs.ticks.uses[vs.ticks.at] = vs.uses
}

// idle says that a view was not used since this many calls of Tick.
func (vs *views) idle(v *View, since int) bool {
	n := len(vs.ticks.uses)
	return since == 0 || v.used <= vs.ticks.uses[(vs.ticks.at+n-since+1)%n]
}

// DropIdle drops the least recently used view, of those that only questions made or of the others, if
// it has been idle for long enough. It returns the bytes of that view; 0: there is none.
func (vs *views) DropIdle(asked bool, how Idleness) (bytes uint64) {
	return vs.dropIdle(func(v *View) bool { return v.asked == asked }, how)
}

// DropIdleOf is DropIdle of the views of one owner.
func (vs *views) DropIdleOf(owner any) (bytes uint64) {
	return vs.dropIdle(func(v *View) bool { return v.Owner == owner }, Idle)
}

func (vs *views) dropIdle(among func(*View) bool, how Idleness) (bytes uint64) {
	var oldest *View
	for v := range vs.bases.views() {
		if !v.Watch && (oldest == nil || v.used < oldest.used) && among(v) {
			oldest = v
		}
	}
	if oldest == nil || !vs.idle(oldest, how.since(oldest.asked)) {
		return 0
	}
	bytes = oldest.Bytes()
	vs.drop(oldest)
	return bytes
}

// Idleness is how long a view has to be idle to be dropped for want of memory.
type Idleness uint8

const (
	Idle     Idleness = iota // two seconds if only questions made it, otherwise ten
	LongIdle                 // a minute
	NotIdle                  // not at all
)

func (i Idleness) since(asked bool) int {
	switch {
	case i == LongIdle:
		return longIdle
	case i == NotIdle:
		return 0
	case asked:
		return askedIdle
	}
	return takenIdle
}

// Asked says that only questions made the view, and Branch is the text of its branch.
func (v *View) Asked() bool { return v.asked }

// Branch is beside Asked.
func (v *View) Branch() string { return v.key }

// EachView calls fn for every standing view, of a fair branch for the one of all of it. fn
// must not change the backlog.
func (b *Backlog) EachView(fn func(*View)) {
	for v := range b.bases.views() {
		fn(v)
	}
}
