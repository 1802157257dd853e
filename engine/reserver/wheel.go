package reserver

import "github.com/quern-queue/quern/engine/queue"

// wheel is a timing wheel (Varghese and Lauck, 1987, scheme 6): a ring of buckets, each a doubly linked list through the
// table of holds, so that adding and removing cost O(1) and leave nothing behind. A deadline further away than one turn
// stays in its bucket and is passed over once a turn.
type wheel struct {
	buckets [wheelBuckets]int32
	at      int64 // the tick that was swept last
}

const (
	wheelBuckets = 4096
	wheelTick    = 128 // milliseconds: one turn is 8.7 minutes
)

func (w *wheel) init(now queue.Time) {
	for i := range w.buckets {
		w.buckets[i] = none
	}
	w.at = int64(now) / wheelTick
}

// tickOf is the bucket's tick for a deadline: never one that was swept already.
func (w *wheel) tickOf(deadline queue.Time) int64 {
	return max(int64(deadline)/wheelTick, w.at)
}

func (w *wheel) bucket(tick int64) *int32 { return &w.buckets[uint64(tick)%wheelBuckets] }

func (w *wheel) add(holds []Hold, slot uint32) {
	head := w.bucket(w.tickOf(holds[slot].Deadline))
	holds[slot].later, holds[slot].earlier = *head, none
	if *head != none {
		holds[*head].earlier = int32(slot)
	}
	*head = int32(slot)
}

func (w *wheel) remove(holds []Hold, slot uint32) {
	h := &holds[slot]
	switch {
	case h.earlier != none:
		holds[h.earlier].later = h.later
	default:
		w.unlinkHead(holds, slot)
	}
	if h.later != none {
		holds[h.later].earlier = h.earlier
	}
}

// unlinkHead finds the bucket whose head the slot is. A deadline in the past was put into the bucket of the tick that was
// current then, so the bucket is the deadline's own or a later one up to now.
func (w *wheel) unlinkHead(holds []Hold, slot uint32) {
	h := &holds[slot]
	tick := int64(h.Deadline) / wheelTick
	if b := w.bucket(tick); *b == int32(slot) {
		*b = h.later
		return
	}
	for i := range w.buckets {
		if w.buckets[i] == int32(slot) {
			w.buckets[i] = h.later
			return
		}
	}
}

// sweep visits the buckets from the last swept tick to now (each at most once) and collects what is due.
func (w *wheel) sweep(holds []Hold, dst []uint32, now queue.Time, most int) []uint32 {
	end := int64(now) / wheelTick
	if end-w.at >= wheelBuckets {
		w.at = end - wheelBuckets + 1
	}
	for ; ; w.at++ {
		for slot := *w.bucket(w.at); slot != none; slot = holds[slot].later {
			h := &holds[slot]
			if h.State != Held || h.Deadline > now {
				continue
			}
			if most == 0 {
				return dst
			}
			h.State = Expiring
			dst = append(dst, uint32(slot))
			most--
		}
		if w.at >= end {
			return dst
		}
	}
}
