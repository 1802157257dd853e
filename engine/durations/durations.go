// Package durations keeps how long chunks of a queue waited and ran lately, for all of them and for the meta values that were at work last.
// Pure.
//
//	Wait, Run ─► the queue's pair ─┬─ now     since a moment at most Window ago
//	         └─► a value's pair ───┴─ before  the Window before that
//
// Answers join both halves, so they are of the last 30 to 60 minutes. A value has a pair of its own while it is among the
// MostValues that are kept: a pair takes 2.4 KB at most, so a queue keeps 600 KB at most, whatever its values are.
//
// Chunks of a submission that took equally long are measured together. Up to about 10,000 such groups a second, all are measured. Beyond
// that a random share is, and each one counts for those that were passed over. So a busy queue pays some nanoseconds for a chunk, and its
// percentiles still come from thousands of chunks.
package durations

import (
	"math"
	"math/bits"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

const (
	// Window is how long a half lasts.
	Window = 30 * time.Minute

	// MostValues is how many values of a queue are kept, of all keys together.
	MostValues = 256

	// scanEvery is the shortest time between two replacements of a value by another. It bounds the cost of a queue in which every
	// submission has another value.
	scanEvery = time.Second

	perPower = 4  // buckets to each power of two: each is 19 % wide
	powers   = 36 // from a millisecond to two years
	slots    = 1 + perPower*powers
)

// Kept has the durations of a queue. All methods are safe for concurrent use. nil keeps nothing.
type Kept struct {
	shares [2]share // by kind

	mu     sync.Mutex
	since  queue.Time // when the present half began; 0: nothing was measured yet
	before queue.Time // the same of the one before it; 0: there is none
	all    pair
	values map[queue.MetaEntry]*pair
	looked queue.Time // when a value was forgotten for another, or none could be

	last  queue.Meta // of the last chunk: the next one is often of the same submission
	found []*pair    // its pairs
}

// pair has the measurements of both halves.
type pair struct {
	now, before half
	since       queue.Time // from when on it is measured
	seen        queue.Time // when something was measured last, or someone asked
}

// half has counts of each kind; nil: none yet.
type half [2]*counts

// The kinds.
const (
	wait = iota
	run
)

// counts are durations by bucket: the first one has those below a millisecond.
type counts struct {
	of      [slots]uint32
	n       uint64
	longest time.Duration
}

// Wait notes that n chunks of a submission waited this long for their first reservation.
func (k *Kept) Wait(meta queue.Meta, took time.Duration, n uint64, now queue.Time) {
	k.note(meta, wait, took, n, now)
}

// Passes spares a busy queue the calls of Wait for this many submissions of an answer, whose slowest chunk waited this long. If it returns
// false, the caller calls Wait for each of them.
func (k *Kept) Passes(submissions int, slowest time.Duration) bool {
	return k == nil || k.shares[wait].passes(int64(submissions), slowest)
}

// Run notes that n chunks of a submission were held this long each by consumers that reported the results.
func (k *Kept) Run(meta queue.Meta, took time.Duration, n uint64, now queue.Time) {
	k.note(meta, run, took, n, now)
}

func (k *Kept) note(meta queue.Meta, kind int, took time.Duration, n uint64, now queue.Time) {
	if k == nil || n == 0 {
		return
	}
	s := &k.shares[kind]
	if s.passes(1, took) {
		return
	}
	slot := slotOf(took)
	k.mu.Lock()
	defer k.mu.Unlock()
	n *= s.measured(now)
	k.turn(now)
	k.all.now.count(kind, slot, took, n)
	if len(meta) == 0 {
		return
	}
	if len(k.last) != len(meta) || &k.last[0] != &meta[0] {
		k.last, k.found = meta, k.found[:0]
		for _, entry := range meta {
			if p := k.pairOf(entry, now, false); p != nil {
				k.found = append(k.found, p)
			} else {
				k.last = nil // there may be room for it soon
			}
		}
	}
	for _, p := range k.found {
		p.seen = max(p.seen, now)
		p.now.count(kind, slot, took, n)
	}
}

// count counts n durations, in counts that are made when there is something to count.
func (h *half) count(kind, slot int, took time.Duration, n uint64) {
	c := h[kind]
	if c == nil {
		c = new(counts)
		h[kind] = c
	}
	c.of[slot] += uint32(min(n, math.MaxUint32-uint64(c.of[slot])))
	c.n += n
	c.longest = max(c.longest, took)
}

// turn begins a new half when the present one is over, and forgets values that neither half has.
func (k *Kept) turn(now queue.Time) {
	switch age := now.Sub(k.since); {
	case k.since == 0:
		k.since = now
		return
	case age < Window: // also when the clock was set back
		return
	case age < 2*Window:
		k.before = k.since
		k.slowest()
		k.all.before, k.all.now = k.all.now, half{}
		for entry, p := range k.values {
			if p.before, p.now = p.now, (half{}); p.before == (half{}) {
				delete(k.values, entry)
			}
		}
	default:
		k.slowest()
		k.before, k.all, k.values = 0, pair{}, nil
	}
	k.since, k.last = now, nil
}

// slowest records the longest time of all chunks of this half, measured or passed over, and resets it.
func (k *Kept) slowest() {
	for kind := range k.shares {
		took := time.Duration(k.shares[kind].longest.Swap(0))
		if c := k.all.now[kind]; c != nil {
			c.longest = max(c.longest, took)
		}
	}
}

// pairOf is the pair of a value; nil: it is not kept, and there is no room for it. A question about a value makes room.
func (k *Kept) pairOf(entry queue.MetaEntry, now queue.Time, asked bool) *pair {
	if p := k.values[entry]; p != nil {
		return p
	}
	if len(k.values) >= MostValues {
		if now.Sub(k.looked) < scanEvery && !asked {
			return nil
		}
		k.looked = now
		k.forget()
	}
	if k.values == nil {
		k.values = map[queue.MetaEntry]*pair{}
	}
	p := &pair{since: now, seen: now}
	k.values[entry] = p
	if asked {
		k.last = nil // it may be of the last chunk
	}
	return p
}

// forget drops the value that was seen least recently.
func (k *Kept) forget() {
	var oldest queue.MetaEntry
	seen := queue.Time(math.MaxInt64)
	for entry, p := range k.values {
		if p.seen < seen {
			oldest, seen = entry, p.seen
		}
	}
	delete(k.values, oldest)
	k.last = nil
}

// parts divide a power of two into buckets: 2^63 times 2^(1/4), 2^(2/4) and 2^(3/4).
var parts = [perPower - 1]uint64{10968499650544838656, 13043817825332783104, 15511800964685064192}

// slotOf is the bucket of a duration: bucket i above 0 begins at 2^((i-1)/perPower) milliseconds.
func slotOf(took time.Duration) int {
	ms := took.Milliseconds()
	if ms < 1 {
		return 0
	}
	zeros := bits.LeadingZeros64(uint64(ms))
	slot := 1 + (63-zeros)*perPower
	for _, begins := range parts {
		if uint64(ms)<<zeros >= begins {
			slot++
		}
	}
	return min(slot, slots-1)
}
