package reserver

import (
	"encoding/binary"
	"time"

	"github.com/dchest/siphash"

	"github.com/quern-queue/quern/engine/queue"
)

// State is the state of a reservation.
type State uint8

// The states. A Finishing reservation has an operation on its way to the disk, and keeps its chunk until that is committed. So does an
// Expiring one, but its consumer may still come first. The consumer of a Dying one may not: it was the chunk's last try.
const (
	Held State = iota
	Finishing
	Expiring
	Dying
)

// Hold is one reservation. Holds lie in pages without pointers, so a million of them cost the garbage collector
// nothing.
type Hold struct {
	Sequence uint64 // of its token; 0 marks a free slot
	Epoch    uint32 // of its token: an earlier one when it was re-adopted
	Seq      uint32 // the submission's number in the shard
	Index    uint32
	Attempt  uint16
	State    State
	Counted  bool  // it counts as in flight (a late finish holds its chunk without counting)
	Ledger   uint8 // the ledger that was charged for it, by the caller's numbers; 0: none
	seen     bool  // by the recount of its submission: as List.seen, or not met yet

	bucket         int16 // of the wheel; none while it is in none
	consumer       uint32
	next, prev     int32 // of the same submission
	later, earlier int32 // wheel bucket: the following and the preceding one

	Reserved queue.Time
	Deadline queue.Time
}

// List heads the reservations of one submission. The zero value is not empty: use NewList.
type List struct {
	head  int32
	count uint32
	seen  bool // the value of Hold.seen after a recount has met it, and while there is none
}

// NewList is an empty list.
func NewList() List { return List{head: none} }

// Len is how many reservations the submission has.
func (l *List) Len() uint32 { return l.count }

const none = -1

// Reserver is the table of all reservations of one shard.
type Reserver struct {
	Unreported uint64 // reports that were not kept for want of room, since the server's start

	holds     Pages[Hold]
	free      int32 // the first free slot; each names the next one in `next`; none: there is none
	byChunk   table // seq<<32|index -> slot
	sequence  uint64
	wheel     wheel
	consumers consumers
	recount   recount
	reported  reported
}

// New makes an empty table. Sequence numbers start after `sequence`.
func New(now queue.Time, sequence uint64) *Reserver {
	r := &Reserver{sequence: sequence, free: none}
	r.wheel.init(now)
	r.consumers.init()
	return r
}

// Len is the number of reservations.
func (r *Reserver) Len() int { return r.byChunk.count }

// NextSequence draws the sequence number of a new token.
func (r *Reserver) NextSequence() uint64 {
	r.sequence++
	return r.sequence
}

// Sequence is the sequence number that was drawn last.
func (r *Reserver) Sequence() uint64 { return r.sequence }

// Add puts a reservation into the table and returns its slot. The caller has made sure that the chunk has none.
func (r *Reserver) Add(list *List, h Hold, consumer string) uint32 {
	slot := uint32(r.free)
	if r.free != none {
		r.free = r.holds.At(slot).next
	} else {
		slot = r.holds.Grow()
	}
	h.consumer = r.consumers.enter(consumer)
	h.prev, h.next, h.seen = none, list.head, list.seen
	if list == r.recount.list {
		r.recount.came(&h)
	}
	if list.head != none {
		r.holds.At(uint32(list.head)).prev = int32(slot)
	}
	list.head = int32(slot)
	list.count++
	*r.holds.At(slot) = h
	r.byChunk.put(chunkKey(h.Seq, h.Index), slot)
	r.consumers.link(h.consumer, slot, h.Reserved)
	r.wheel.add(&r.holds, slot)
	return slot
}

// Remove takes a reservation out of the table.
func (r *Reserver) Remove(list *List, slot uint32) {
	h := r.holds.At(slot)
	if list == r.recount.list {
		r.recount.left(slot, h)
	}
	if h.prev != none {
		r.holds.At(uint32(h.prev)).next = h.next
	} else {
		list.head = h.next
	}
	if h.next != none {
		r.holds.At(uint32(h.next)).prev = h.prev
	}
	list.count--
	r.wheel.remove(&r.holds, slot)
	r.consumers.leave(h.consumer, slot)
	r.byChunk.drop(chunkKey(h.Seq, h.Index))
	r.reported.forget(slot)
	*h = Hold{next: r.free}
	r.free = int32(slot)
}

// At is the reservation in a slot, nil when there is none. The pointer is good as long as the reservation is.
func (r *Reserver) At(slot uint32) *Hold {
	if slot >= r.holds.n {
		return nil
	}
	if h := r.holds.At(slot); h.Sequence != 0 {
		return h
	}
	return nil
}

// Find is the slot of a chunk's reservation.
func (r *Reserver) Find(seq, index uint32) (slot uint32, ok bool) {
	return r.byChunk.find(chunkKey(seq, index))
}

// Extend moves a deadline. It also puts a reservation back under watch whose expiry or end was called off.
func (r *Reserver) Extend(slot uint32, deadline queue.Time) {
	r.wheel.remove(&r.holds, slot)
	r.holds.At(slot).Deadline = deadline
	r.wheel.add(&r.holds, slot)
}

// Expired appends to dst the slots of Held reservations whose deadline is at or before now, at most `most`, and marks them Expiring. The
// next call finds the rest.
func (r *Reserver) Expired(dst []uint32, now queue.Time, most int) []uint32 {
	return r.wheel.sweep(&r.holds, dst, now, most)
}

// Each calls fn for every reservation of the list until it returns false. fn may remove the one that it gets.
func (r *Reserver) Each(list *List, fn func(slot uint32, h *Hold) bool) {
	for slot := list.head; slot != none; {
		h := r.holds.At(uint32(slot))
		next := h.next
		if !fn(uint32(slot), h) {
			return
		}
		slot = next
	}
}

// Consumer is the name under which h was reserved.
func (r *Reserver) Consumer(h *Hold) string { return r.consumers.name(h.consumer) }

func chunkKey(seq, index uint32) uint64 { return uint64(seq)<<32 | uint64(index) }

// Resolution is the precision of SweptTo.
const Resolution = wheelTick * time.Millisecond

// SweptTo is the time, or up to Resolution less, up to which Expired has looked at deadlines: it missed none before.
func (r *Reserver) SweptTo() queue.Time { return queue.Time(r.wheel.at * wheelTick) }

// Slots bounds the slots of reservations: each is below it. It only grows.
func (r *Reserver) Slots() uint32 { return r.holds.n }

// Key authenticates tokens. It is durable: drawn once for a data directory.
type Key struct{ K0, K1 uint64 }

// KeyFrom reads a key from 16 bytes.
func KeyFrom(b [16]byte) Key {
	return Key{binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])}
}

const macMask = 1<<48 - 1

// MAC is SipHash-2-4 (Aumasson and Bernstein, 2012) over everything else in the token but the slot hint, cut to 48 bits:
// guessing one takes 2^47 calls on average, each refused and counted.
func (k Key) MAC(t *queue.Token) uint64 {
	var b [24]byte
	binary.LittleEndian.PutUint64(b[0:], uint64(t.Submission))
	binary.LittleEndian.PutUint32(b[8:], t.Index)
	binary.LittleEndian.PutUint32(b[12:], t.Epoch)
	binary.LittleEndian.PutUint64(b[16:], t.Sequence)
	return siphash.Hash(k.K0, k.K1, b[:]) & macMask
}

// Valid says whether this server, in this or an earlier life, made the token.
func (k Key) Valid(t *queue.Token) bool { return k.MAC(t) == t.MAC }

// recount counts the reservations of one submission again, in slices. Between two slices, reservations may come and go. Those that it has
// met have the mark of the list. A new one gets the mark too, as it goes to the head, which the walk has passed. One that goes is counted
// off if it was met. So the count is right at the end. The next recount reads the mark the other way round, so nothing has to be cleared.
// Every recount is finished, or its list is never used again.
type recount struct {
	list          *List // nil: there is none
	at            int32 // the next to be met
	held, counted uint32
}

// BeginRecount begins to recount the reservations of a submission. There is one recount at a time.
func (r *Reserver) BeginRecount(list *List) {
	list.seen = !list.seen
	r.recount = recount{list: list, at: list.head}
}

// Recount meets up to `most` reservations, and says how many; more: some are left.
func (r *Reserver) Recount(most int) (n int, more bool) {
	c := &r.recount
	for ; n < most && c.at != none; n++ {
		h := r.holds.At(uint32(c.at))
		h.seen = c.list.seen
		c.came(h)
		c.at = h.next
	}
	return n, c.at != none
}

// EndRecount ends a recount and tells how many reservations there are, and how many of them are Counted.
func (r *Reserver) EndRecount() (held, counted uint32) {
	held, counted = r.recount.held, r.recount.counted
	r.recount = recount{}
	return held, counted
}

// SetLen corrects the length of the list.
func (l *List) SetLen(n uint32) { l.count = n }

func (r *recount) came(h *Hold) {
	r.held++
	if h.Counted {
		r.counted++
	}
}

func (r *recount) left(slot uint32, h *Hold) {
	if r.at == int32(slot) {
		r.at = h.next
	}
	if h.seen != r.list.seen {
		return // it was not met
	}
	r.held--
	if h.Counted {
		r.counted--
	}
}
