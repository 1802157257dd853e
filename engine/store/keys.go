package store

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Keys are the idempotency keys that checkpoints have written. They are kept in slots by time, so
// that those whose window is over go together. Within a slot they are in pages by hash. The filter of a slot, in
// memory, rules out most keys that the slot does not have: an insert with a new key reads nothing.
//
//	slots, by time:   [ 24 h ago ... ]  [ ... ]  [ ... ]  [ being filled ]
//	                    │ filter           filter   filter    set of keyBits
//	                    └ its window is over: the whole slot is removed, page after page
//
//	page of a slot:   the keys whose hash begins with the same keyPageBits bits
//
// A look-up asks the filter of each slot that can still have the key, and reads one page of those
// that say "perhaps". writing comes before the writer's lock and mu. Readers take mu only to look
// at the slots.
type Keys struct {
	Most int // that may be known: the callers see to it

	s        *Store
	slotKeys int          // in one slot
	held     atomic.Int64 // in all slots

	writing sync.Mutex // held while slots are filled or removed; guards next and gone
	next    int64      // the number of the next slot
	gone    []int64    // slots that are being removed from the file

	mu    sync.RWMutex
	slots []*keySlot // by number
}

// keySlot is the part of a slot that is in memory.
type keySlot struct {
	n           int64
	first, last queue.Time // when the first and the latest of its keys were used
	count       int
	filter      filter            // of all of its keys; nil while it is being filled
	filling     map[uint64]keyBit // keyBits of its keys while it is being filled
}

// It has no size: the map is a set.
type keyBit struct{}

const (
	// slotKeys bounds the memory of the slot that is being filled to some 5 MB, and the bytes of it that a checkpoint
	// writes again to 20 MB.
	slotKeys = 256 << 10
	// slotSpan is how much later than the others of its slot a key may leave.
	slotSpan = time.Hour
	// keysAtOnce is how many keys one transaction writes.
	keysAtOnce = 4096
)

func (k *Keys) init(s *Store, o *Options) {
	k.s, k.next, k.Most, k.slotKeys = s, 1, cmp.Or(o.Keys, queue.MaxIdempotencyKeys), cmp.Or(o.SlotKeys, slotKeys)
}

// load reads the slots. It reads the keys of those that have no filter yet: of the one
// that is being filled.
func (k *Keys) load() error {
	err := k.s.write.keySlots.Query(func(row sqlitedb.Row) (bool, error) {
		n, b := row.Int(0), row.Blob(2)
		slot, ok := readKeySlot(n, b)
		if !ok || sum(0).number(n).bytes(b).stored() != row.Int(1) {
			return false, k.s.damaged("key_slot", n)
		}
		k.slots, k.next = append(k.slots, slot), n+1
		return true, nil
	})
	for _, slot := range k.slots {
		if err == nil && slot.filter == nil {
			err = k.refill(slot)
		}
		k.held.Add(int64(slot.count))
	}
	return err
}

// refill reads the keys of a slot that is being filled.
func (k *Keys) refill(slot *keySlot) error {
	slot.count, slot.filling = 0, map[uint64]keyBit{}
	return k.s.write.keyPages.Query(func(row sqlitedb.Row) (bool, error) {
		page, err := k.page(row.Int(0), row.Int(1), row.Blob(2))
		for at := range keysIn(page) {
			slot.filling[keyBits(queue.KeyHash(at))] = keyBit{}
			slot.count++
		}
		return true, err
	}, keyPageOf(slot.n, queue.KeyHash{}), keyPageOf(slot.n+1, queue.KeyHash{})-1)
}

// Find is the latest use of a key since a moment; nil: there is none. Slots are asked from the latest back, because a
// key that is used again after its window has a second entry in a later slot, and the later one counts.
func (k *Keys) Find(ctx context.Context, hash queue.KeyHash, since queue.Time) (found *checkpoint.Key, err error) {
	pages := k.candidates(hash, since)
	if len(pages) == 0 {
		return nil, nil
	}
	err = k.s.hot.with(ctx, func(r *reader) error {
		for _, n := range pages {
			page, err := k.read(r.keyPage, n)
			if err != nil {
				return err
			}
			for at := range keysIn(page) { // the last one counts
				if bytes.Equal(at[:len(hash)], hash[:]) {
					key := readKey(at)
					found = &key
				}
			}
			if found != nil && found.At >= since {
				return nil
			}
			found = nil
		}
		return nil
	})
	return found, wrap("find key", err)
}

// candidates are the pages that may have a key, the latest first.
func (k *Keys) candidates(hash queue.KeyHash, since queue.Time) (pages []int64) {
	bits := keyBits(hash)
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, slot := range slices.Backward(k.slots) {
		if slot.last >= since && slot.may(bits) {
			pages = append(pages, keyPageOf(slot.n, hash))
		}
	}
	return pages
}

// may reports whether a key may be in the slot.
func (s *keySlot) may(bits uint64) bool {
	if s.filter != nil {
		return s.filter.has(bits)
	}
	_, has := s.filling[bits]
	return has
}

// Len is how many keys the slots have.
func (k *Keys) Len() int { return int(k.held.Load()) }

// Oldest is the latest moment at which a key of the oldest slot was used. That slot leaves one window later.
func (k *Keys) Oldest() (at queue.Time, any bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if len(k.slots) == 0 {
		return 0, false
	}
	return k.slots[0].last, true
}

// byPage is a list of keys in the order of their pages, and within a page in the order of the list.
func byPage(slot int64, list []checkpoint.Key) []checkpoint.Key {
	order, sorted := make([]uint64, len(list)), make([]checkpoint.Key, len(list))
	for i := range list {
		order[i] = uint64(keyPageOf(slot, list[i].Hash))<<32 | uint64(i)
	}
	slices.Sort(order)
	for i, at := range order {
		sorted[i] = list[uint32(at)]
	}
	return sorted
}

// Put writes keys, which are in the order of their inserts, durably.
// While a slot is being filled, a key that it has with the same submission is not written again, so after an error
// the whole list can be put again.
func (k *Keys) Put(ctx context.Context, list []checkpoint.Key) error {
	k.writing.Lock()
	defer k.writing.Unlock()
	for len(list) > 0 {
		slot, err := k.open(ctx, list[0].At)
		if err != nil {
			return wrap("put keys", err)
		}
		n := 1
		for n < len(list) && slot.count+n < k.slotKeys && slot.takes(list[n].At) {
			n++
		}
		for some := range slices.Chunk(byPage(slot.n, list[:n]), keysAtOnce) {
			if err := k.fill(ctx, slot, some); err != nil {
				return wrap("put keys", err)
			}
		}
		list = list[n:]
	}
	return nil
}

// takes says whether a key of that moment belongs into the slot.
func (s *keySlot) takes(at queue.Time) bool { return at >= s.first && at < s.first.Add(slotSpan) }

// open is the slot that a key of that moment goes to. A new slot begins when the last one is full, or of another
// time. The filter of a slot is made once, when the slot is whole. If the transaction fails, the slot goes on being
// filled.
func (k *Keys) open(ctx context.Context, at queue.Time) (*keySlot, error) {
	last := &keySlot{}
	if n := len(k.slots); n > 0 {
		last = k.slots[n-1]
	}
	if last.filling != nil && last.count < k.slotKeys && last.takes(at) {
		return last, nil
	}
	if last.filling != nil {
		whole := *last
		whole.filter, whole.filling = newFilter(last.filling), nil
		if err := k.s.tx(ctx, func(w *writer) error { return whole.put(w) }); err != nil {
			return nil, err
		}
		k.mu.Lock()
		*last = whole
		k.mu.Unlock()
	}
	slot := &keySlot{n: k.next, first: at, last: at, filling: map[uint64]keyBit{}}
	k.next++
	k.mu.Lock()
	defer k.mu.Unlock()
	k.slots = append(k.slots, slot)
	return slot, nil
}

// fill writes keys, which are sorted by their pages, into the slot that is being filled. Memory learns of the keys
// after the commit: a key that is in the set but not in the file would be lost by a crash.
func (k *Keys) fill(ctx context.Context, slot *keySlot, list []checkpoint.Key) error {
	next := *slot
	err := k.s.tx(ctx, func(w *writer) error {
		for rest := list; len(rest) > 0; {
			n, at := 1, keyPageOf(slot.n, rest[0].Hash)
			for n < len(rest) && keyPageOf(slot.n, rest[n].Hash) == at {
				n++
			}
			added, err := k.add(w, at, rest[:n])
			if err != nil {
				return err
			}
			next.count += added
			rest = rest[n:]
		}
		for i := range list {
			next.last = max(next.last, list[i].At)
		}
		return next.put(w)
	})
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range list {
		slot.filling[keyBits(list[i].Hash)] = keyBit{}
	}
	k.held.Add(int64(next.count - slot.count))
	slot.count, slot.last = next.count, next.last
	return nil
}

// add adds keys to a page, and says how many were not there. The whole page is written again, as its sum covers all
// of it.
func (k *Keys) add(w *writer, n int64, list []checkpoint.Key) (added int, err error) {
	page, err := k.read(w.keyPage, n)
	if err != nil {
		return 0, err
	}
	for i := range list {
		row := appendKey(nil, &list[i])
		if !holdsKey(page, row) {
			page = append(page, row...)
			added++
		}
	}
	if added == 0 {
		return 0, nil
	}
	_, err = w.putKeyPage.Exec(n, sum(0).number(n).bytes(page).stored(), page)
	return added, err
}

// Expire removes slots whose keys were all used before a moment: from memory at once, and from the
// file at most this many pages. more reports whether there are more. It removes the pages before the
// row of the slot. So after a crash, the next open finds the slot again, and it expires again.
func (k *Keys) Expire(ctx context.Context, before queue.Time, most int) (more bool, err error) {
	if !k.writing.TryLock() { // a checkpoint writes keys: expired ones can wait
		return false, nil
	}
	defer k.writing.Unlock()
	k.retire(before)
	if len(k.gone) == 0 {
		return false, nil
	}
	slot, all := k.gone[0], false
	err = k.s.tx(ctx, func(w *writer) error {
		n, err := w.dropKeyPages.Exec(keyPageOf(slot, queue.KeyHash{}), keyPageOf(slot+1, queue.KeyHash{})-1,
			int64(most))
		if all = n < int64(most); err == nil && all {
			_, err = w.dropKeySlot.Exec(slot)
		}
		return err
	})
	if err == nil && all {
		k.gone = k.gone[1:]
	}
	return err == nil && len(k.gone) > 0, wrap("expire keys", err)
}

// retire forgets the slots whose keys were all used before a moment.
func (k *Keys) retire(before queue.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.slots = slices.DeleteFunc(k.slots, func(slot *keySlot) bool {
		if slot.last >= before {
			return false
		}
		k.held.Add(-int64(slot.count))
		k.gone = append(k.gone, slot.n)
		return true
	})
}
