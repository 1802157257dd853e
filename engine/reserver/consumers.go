package reserver

import "github.com/quern-queue/quern/engine/queue"

// consumers interns the names of consumers, and links the reservations of each in the order in which they were made. A name is forgotten
// when its last reservation goes.
type consumers struct {
	ids   map[string]uint32
	table []consumer
	free  []uint32
	kin   Pages[kin] // by slot of a hold
	added uint64
}

type consumer struct {
	name        string
	held        int
	first, last int32 // its oldest reservation and its newest
	seen        queue.Time
}

// kin is the place of a reservation among those of its consumer. Kins lie beside the table of holds, whose entries fill one cache line
// each.
type kin struct {
	ordinal    uint64 // counts all reservations ever made: of one consumer they grow along the list
	prev, next int32
}

func (c *consumers) init() { c.ids = map[string]uint32{} }

// enter gives a name its number, and makes one when it has none.
func (c *consumers) enter(name string) uint32 {
	id, known := c.ids[name]
	if !known {
		fresh := consumer{name: name, first: none, last: none}
		if n := len(c.free); n > 0 {
			id = c.free[n-1]
			c.free = c.free[:n-1]
			c.table[id] = fresh
		} else {
			id = uint32(len(c.table))
			c.table = append(c.table, fresh)
		}
		c.ids[name] = id
	}
	return id
}

// link puts the reservation in a slot at the end of its consumer's list.
func (c *consumers) link(id, slot uint32, now queue.Time) {
	for slot >= c.kin.n {
		c.kin.Grow()
	}
	of := &c.table[id]
	c.added++
	*c.kin.At(slot) = kin{ordinal: c.added, prev: of.last, next: none}
	if of.last != none {
		c.kin.At(uint32(of.last)).next = int32(slot)
	} else {
		of.first = int32(slot)
	}
	of.last = int32(slot)
	of.held++
	of.seen = max(of.seen, now)
}

// leave takes the reservation out of the list.
func (c *consumers) leave(id, slot uint32) {
	of, at := &c.table[id], c.kin.At(slot)
	if at.prev != none {
		c.kin.At(uint32(at.prev)).next = at.next
	} else {
		of.first = at.next
	}
	if at.next != none {
		c.kin.At(uint32(at.next)).prev = at.prev
	} else {
		of.last = at.prev
	}
	*at = kin{}
	of.held--
	if of.held == 0 {
		delete(c.ids, of.name)
		*of = consumer{}
		c.free = append(c.free, id)
	}
}

func (c *consumers) name(id uint32) string { return c.table[id].name }

// Holding sums up the reservations of a consumer.
type Holding struct {
	Name   string
	Held   int        // reservations, those among them that are finishing
	Oldest queue.Time // when the oldest of them was made
	Seen   queue.Time // the last time that it reserved, extended or finished something, by the calls of Saw
}

func (r *Reserver) holding(of *consumer) Holding {
	return Holding{Name: of.name, Held: of.held, Oldest: r.holds.At(uint32(of.first)).Reserved, Seen: of.seen}
}

// Consumers calls fn for the consumers that hold something, of at most `most` places from place `from` on, and returns the place to go on
// from; 0 when it met all. Anything may happen between two calls: a consumer that comes or goes meanwhile may be missed.
func (r *Reserver) Consumers(from, most int, fn func(Holding)) (next int) {
	table := r.consumers.table
	end := min(from+most, len(table))
	for i := from; i < end; i++ {
		if table[i].held > 0 {
			fn(r.holding(&table[i]))
		}
	}
	if end >= len(table) {
		return 0
	}
	return end
}

// Holding is the Holding of the consumer of this name; false: it holds nothing.
func (r *Reserver) Holding(name string) (Holding, bool) {
	id, known := r.consumers.ids[name]
	if !known {
		return Holding{}, false
	}
	return r.holding(&r.consumers.table[id]), true
}

// Place is the place of a reservation in the list of its consumer. The zero value is before the first.
type Place struct {
	Ordinal uint64
	Slot    uint32
}

// HeldBy calls fn for the reservations of a consumer after a place, the oldest first, until it returns false. fn may remove the one that it
// gets. If the reservation at the place itself is gone, those before it are passed over one by one.
func (r *Reserver) HeldBy(name string, after Place, fn func(at Place, h *Hold) bool) {
	id, known := r.consumers.ids[name]
	if !known {
		return
	}
	c := &r.consumers
	slot := c.table[id].first
	if h := r.At(after.Slot); after.Ordinal != 0 && h != nil && h.consumer == id && c.kin.At(after.Slot).ordinal == after.Ordinal {
		slot = c.kin.At(after.Slot).next
	}
	for slot != none {
		at := *c.kin.At(uint32(slot))
		if at.ordinal > after.Ordinal && !fn(Place{at.ordinal, uint32(slot)}, r.holds.At(uint32(slot))) {
			return
		}
		slot = at.next
	}
}

// Saw notes that the consumer that holds h made a call about it.
func (r *Reserver) Saw(h *Hold, now queue.Time) {
	of := &r.consumers.table[h.consumer]
	of.seen = max(of.seen, now)
}

// MaxReportedBytes bounds the memory for progress and notes: the bytes of the notes, and reportedBytes for each reservation
// that has either. That is room for 71,000 of the longest notes, or 262,000 reservations with a progress alone.
const (
	MaxReportedBytes = 24 << 20
	reportedBytes    = 96 // an entry of the map, with its share of the map's free room
)

// reported has the reports of consumers on the chunks that they hold, by slot. It is beside the table of reservations, so that reservations
// without a report cost nothing.
type reported struct {
	of    map[uint32]queue.Reported // nil until a consumer says something
	bytes int
}

// Report keeps what a consumer says of a chunk that it holds, until the reservation goes. A field that it leaves out stays as it was. If
// there is no room, nothing is kept: a hint for people must not cost a consumer its deadline.
func (r *Reserver) Report(slot uint32, says queue.Reported) {
	if says.Empty() {
		return
	}
	was, known := r.reported.of[slot]
	if !says.HasProgress {
		says.Progress, says.HasProgress = was.Progress, was.HasProgress
	}
	if says.Note == "" {
		says.Note = was.Note
	}
	more := len(says.Note) - len(was.Note)
	if !known {
		more += reportedBytes
	}
	if r.reported.bytes+more > MaxReportedBytes {
		r.Unreported++
		return
	}
	if r.reported.of == nil {
		r.reported.of = map[uint32]queue.Reported{}
	}
	r.reported.of[slot] = says
	r.reported.bytes += more
}

// Reported is the last report of a chunk's consumer on its work.
func (r *Reserver) Reported(h *Hold) queue.Reported {
	if len(r.reported.of) == 0 {
		return queue.Reported{}
	}
	slot, _ := r.Find(h.Seq, h.Index)
	return r.reported.of[slot]
}

// forget drops the report of a reservation that goes.
func (t *reported) forget(slot uint32) {
	if len(t.of) == 0 {
		return
	}
	if was, known := t.of[slot]; known {
		t.bytes -= reportedBytes + len(was.Note)
		delete(t.of, slot)
	}
}
