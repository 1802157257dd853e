package reserver

// table finds the slot of a chunk's reservation. It uses open addressing with linear probing, and deletion by shifting back (Knuth, TAOCP
// 3, 6.4, algorithm R). So finding, putting and dropping touch one or two cache lines; a Go map touches several. Every reservation and
// every completion uses it.
//
// It grows and shrinks bit by bit, so that no call takes long however many reservations there are. While it moves, each put and drop takes
// some entries over from the old array. It takes whole runs of them, so that the entries that are left can still be found.
type table struct {
	entries []tableEntry // a power of two of them, at most 3/4 in use
	old     []tableEntry // not yet taken over; nil: all are
	from    int          // where in old the next run begins
	left    int          // places of old that were not yet looked at
	count   int
	shift   uint8 // 64 - log2 of the length
	oldBits uint8 // the same of old
}

// tableEntry is free where slot is 0: slots are kept plus 1.
type tableEntry struct {
	key  uint64
	slot uint32
}

const (
	minTable = 64
	moveMost = 32 // places of the old array that one put or drop looks at, and then to the end of a run
)

func home(key uint64, shift uint8) int {
	const golden = 0x9E3779B97F4A7C15 // Fibonacci hashing
	key ^= key >> 32
	return int(key * golden >> shift)
}

// place is the index of key in the entries, or of the free entry where it would be.
func place(entries []tableEntry, shift uint8, key uint64) int {
	i := home(key, shift)
	for entries[i].slot != 0 && entries[i].key != key {
		i = (i + 1) & (len(entries) - 1)
	}
	return i
}

func (t *table) find(key uint64) (slot uint32, ok bool) {
	if t.count == 0 {
		return 0, false
	}
	e := t.entries[place(t.entries, t.shift, key)]
	if e.slot == 0 && t.old != nil {
		e = t.old[place(t.old, t.oldBits, key)]
	}
	return e.slot - 1, e.slot != 0
}

// put adds a key that is not there.
func (t *table) put(key uint64, slot uint32) {
	if 4*(t.count+1) > 3*len(t.entries) {
		t.resize(max(minTable, 2*len(t.entries)))
	}
	t.move()
	t.entries[place(t.entries, t.shift, key)] = tableEntry{key, slot + 1}
	t.count++
}

// drop removes a key that is there.
func (t *table) drop(key uint64) {
	t.move()
	if at := place(t.entries, t.shift, key); t.entries[at].slot != 0 {
		cut(t.entries, t.shift, at)
	} else {
		cut(t.old, t.oldBits, place(t.old, t.oldBits, key))
	}
	t.count--
	if len(t.entries) > minTable && 16*t.count < len(t.entries) && t.old == nil {
		t.resize(len(t.entries) / 4)
	}
}

// cut frees an entry and closes the gap.
func cut(entries []tableEntry, shift uint8, hole int) {
	mask := len(entries) - 1
	for i := (hole + 1) & mask; entries[i].slot != 0; i = (i + 1) & mask {
		if home := home(entries[i].key, shift); (i-home)&mask >= (i-hole)&mask {
			entries[hole] = entries[i]
			hole = i
		}
	}
	entries[hole] = tableEntry{}
}

// resize begins to move to an array of n entries.
func (t *table) resize(n int) {
	for t.old != nil {
		t.move() // never in practice: a move is long over when the next one begins
	}
	if len(t.entries) > 0 {
		t.old, t.oldBits, t.from, t.left = t.entries, t.shift, 0, len(t.entries)
		for t.old[t.from].slot != 0 {
			t.from++ // runs begin behind a free entry
		}
	}
	t.entries, t.shift = make([]tableEntry, n), 64
	for ; n > 1; n /= 2 {
		t.shift--
	}
}

// move takes some entries over from the old array.
func (t *table) move() {
	if t.old == nil {
		return
	}
	mask := len(t.old) - 1
	for n := 0; t.left > 0; n++ {
		e := &t.old[t.from]
		if e.slot == 0 && n >= moveMost {
			return
		}
		if e.slot != 0 {
			t.entries[place(t.entries, t.shift, e.key)] = *e
			*e = tableEntry{}
		}
		t.from = (t.from + 1) & mask
		t.left--
	}
	t.old = nil
}

// Pages is a table of entries that are numbered from 0. It grows by a page at a time, and never copies an entry. So growing costs the same
// at any size, and pointers into it stay good.
type Pages[T any] struct {
	list []*[pageEntries]T
	n    uint32
}

// A page of holds has 64 KiB.
const (
	pageBits    = 10
	pageEntries = 1 << pageBits
)

// Len is how many entries there are.
func (p *Pages[T]) Len() int { return int(p.n) }

// At is the entry of a number below Len.
func (p *Pages[T]) At(number uint32) *T { return &p.list[number>>pageBits][number%pageEntries] }

// Grow adds an entry, which is zero, and returns its number.
func (p *Pages[T]) Grow() (number uint32) {
	if number = p.n; number%pageEntries == 0 {
		p.list = append(p.list, new([pageEntries]T))
	}
	p.n++
	return number
}
