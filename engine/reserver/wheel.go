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

// add puts the slot into the bucket of its deadline, or of the current tick if that was swept already.
func (w *wheel) add(holds *Pages[Hold], slot uint32) {
	h := holds.At(slot)
	h.bucket = bucketOf(max(int64(h.Deadline)/wheelTick, w.at))
	head := &w.buckets[h.bucket]
	h.later, h.earlier = *head, none
	if *head != none {
		holds.At(uint32(*head)).earlier = int32(slot)
	}
	*head = int32(slot)
}

func bucketOf(tick int64) int16 { return int16(uint64(tick) % wheelBuckets) }

// remove takes the slot out of its bucket, if it is in one.
func (w *wheel) remove(holds *Pages[Hold], slot uint32) {
	h := holds.At(slot)
	if h.bucket == none {
		return
	}
	if h.earlier != none {
		holds.At(uint32(h.earlier)).later = h.later
	} else {
		w.buckets[h.bucket] = h.later
	}
	if h.later != none {
		holds.At(uint32(h.later)).earlier = h.earlier
	}
	h.bucket = none
}

// sweep visits the buckets from the last swept tick to now (each at most once) and collects the reservations that are
// due. They leave the wheel, so that a second visit to the bucket does not find them again: an Expiring or Finishing
// reservation either goes or comes back by Extend.
func (w *wheel) sweep(holds *Pages[Hold], dst []uint32, now queue.Time, most int) []uint32 {
	end := int64(now) / wheelTick
	last := min(end, w.at+wheelBuckets-1)
	for ; ; w.at++ {
		for slot := w.buckets[bucketOf(w.at)]; slot != none; {
			h := holds.At(uint32(slot))
			later := h.later
			switch {
			case h.Deadline > now:
			case h.State != Held:
				w.remove(holds, uint32(slot))
			case most == 0:
				return dst
			default:
				w.remove(holds, uint32(slot))
				h.State = Expiring
				dst = append(dst, uint32(slot))
				most--
			}
			slot = later
		}
		if w.at >= last {
			w.at = max(w.at, end)
			return dst
		}
	}
}
