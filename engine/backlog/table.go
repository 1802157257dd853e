package backlog

// table maps chunk indexes to small numbers, or with bare set is a set of chunk indexes:
// open addressing, linear probing, deletion by shifting back. It costs 4 to 16 bytes per
// entry, allocates only when it grows, and (unlike a Go map) looks the same after the same
// calls. No chunk has the index 2^32-1, which marks an empty place.
//
// Deletion shifts entries back instead of leaving marks. So a table that is filled and emptied for
// months stays as fast as a new one, and a look-up ends at the first empty place.
type table struct {
	keys   []uint32
	values []uint32 // nil for a set
	count  int
	bare   bool
}

const emptyKey = 1<<32 - 1

func newTable(bare bool) *table { return &table{bare: bare} }

// place is where key is, or where it would be put.
func (t *table) place(key uint32) uint32 {
	mask := uint32(len(t.keys) - 1)
	i := scatter(key) & mask
	for t.keys[i] != key && t.keys[i] != emptyKey {
		i = (i + 1) & mask
	}
	return i
}

// scatter is the finaliser of MurmurHash3: chunk indexes come in runs, which must not pile up.
func scatter(x uint32) uint32 {
	x ^= x >> 16
	x *= 0x85ebca6b
	x ^= x >> 13
	x *= 0xc2b2ae35
	return x ^ x>>16
}

func (t *table) has(key uint32) bool {
	return t != nil && t.count > 0 && t.keys[t.place(key)] == key
}

func (t *table) find(key uint32) (uint32, bool) {
	if t == nil || t.count == 0 {
		return 0, false
	}
	i := t.place(key)
	if t.keys[i] != key {
		return 0, false
	}
	return t.values[i], true
}

// put adds key or overwrites its value.
func (t *table) put(key, value uint32) {
	if 4*(t.count+1) > 3*len(t.keys) {
		t.resize(max(8, 2*len(t.keys)))
	}
	i := t.place(key)
	if t.keys[i] == emptyKey {
		t.keys[i] = key
		t.count++
	}
	if !t.bare {
		t.values[i] = value
	}
}

// resize doubles at three quarters full: beyond that, linear probing meets long runs. The table does not shrink: it
// is likely to grow again, and it goes with its submission.
func (t *table) resize(size int) {
	keys, values := t.keys, t.values
	t.keys = make([]uint32, size)
	for i := range t.keys {
		t.keys[i] = emptyKey
	}
	if !t.bare {
		t.values = make([]uint32, size)
	}
	for i, key := range keys {
		if key == emptyKey {
			continue
		}
		at := t.place(key)
		t.keys[at] = key
		if !t.bare {
			t.values[at] = values[i]
		}
	}
}

// delete removes key and says whether it was there.
// The deleted entry may have pushed the entries behind the hole there, up to the next empty place. Each one moves
// into the hole unless its home is behind the hole, where a look-up would not begin early enough to find it:
//
//	home 3:  [3] [3'] [5] [ ]     delete 3  ─►  [3'] [ ] [5] [ ]     5 stays: its home is its place
func (t *table) delete(key uint32) bool {
	if t == nil || t.count == 0 {
		return false
	}
	hole := t.place(key)
	if t.keys[hole] != key {
		return false
	}
	mask := uint32(len(t.keys) - 1)
	for i := (hole + 1) & mask; t.keys[i] != emptyKey; i = (i + 1) & mask {
		home := scatter(t.keys[i]) & mask
		if (i-home)&mask < (i-hole)&mask {
			continue // it would come to stand before its home
		}
		t.keys[hole] = t.keys[i]
		if !t.bare {
			t.values[hole] = t.values[i]
		}
		hole = i
	}
	t.keys[hole] = emptyKey
	t.count--
	return true
}

func (t *table) len() int {
	if t == nil {
		return 0
	}
	return t.count
}

// appendKeys appends the keys in no useful order (but the same one after the same calls).
func (t *table) appendKeys(dst []uint32) []uint32 {
	if t == nil {
		return dst
	}
	for _, key := range t.keys {
		if key != emptyKey {
			dst = append(dst, key)
		}
	}
	return dst
}
