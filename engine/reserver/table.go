package reserver

// table finds the slot of a chunk's reservation: open addressing with linear probing, deletion by shifting back (Knuth,
// TAOCP 3, 6.4, algorithm R), so that finding, putting and dropping touch one or two cache lines where a Go map touches
// several. Every reservation and every completion comes by here.
type table struct {
	entries []tableEntry // a power of two of them, at most 3/4 in use
	count   int
	shift   uint8 // 64 - log2 of the length
}

// tableEntry is free where slot is 0: slots are kept plus 1.
type tableEntry struct {
	key  uint64
	slot uint32
}

const minTable = 64

func (t *table) home(key uint64) int {
	const golden = 0x9E3779B97F4A7C15 // Fibonacci hashing
	key ^= key >> 32
	return int(key * golden >> t.shift)
}

// place is where key lies, or the free entry where it would.
func (t *table) place(key uint64) int {
	i := t.home(key)
	for t.entries[i].slot != 0 && t.entries[i].key != key {
		i = (i + 1) & (len(t.entries) - 1)
	}
	return i
}

func (t *table) find(key uint64) (slot uint32, ok bool) {
	if t.count == 0 {
		return 0, false
	}
	e := t.entries[t.place(key)]
	return e.slot - 1, e.slot != 0
}

// put adds a key that is not there.
func (t *table) put(key uint64, slot uint32) {
	if 4*(t.count+1) > 3*len(t.entries) {
		t.resize(max(minTable, 2*len(t.entries)))
	}
	t.entries[t.place(key)] = tableEntry{key, slot + 1}
	t.count++
}

// drop removes a key that is there.
func (t *table) drop(key uint64) {
	mask := len(t.entries) - 1
	hole := t.place(key)
	for i := (hole + 1) & mask; t.entries[i].slot != 0; i = (i + 1) & mask {
		if home := t.home(t.entries[i].key); (i-home)&mask >= (i-hole)&mask {
			t.entries[hole] = t.entries[i]
			hole = i
		}
	}
	t.entries[hole] = tableEntry{}
	t.count--
	if len(t.entries) > minTable && 16*t.count < len(t.entries) {
		t.resize(len(t.entries) / 4)
	}
}

func (t *table) resize(n int) {
	old := t.entries
	t.entries, t.shift = make([]tableEntry, n), 64
	for ; n > 1; n /= 2 {
		t.shift--
	}
	for _, e := range old {
		if e.slot != 0 {
			t.entries[t.place(e.key)] = e
		}
	}
}
