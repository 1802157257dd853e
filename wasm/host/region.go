package host

import (
	"unsafe"

	"github.com/tetratelabs/wazero/experimental"

	"github.com/quern-queue/quern/sdk/abi"
)

// fill writes a batch that was checked into the region. The processors that there is a compiler for store numbers as the ABI
// does, so columns are copied as they are.
func fill(region []byte, l *abi.Layout, b *abi.Batch, w *words, unwritten []byte) {
	l.Begin(region, b.Header)
	for k := range l.Columns {
		c, values := &l.Columns[k], &b.Columns[k]
		rows := c.Rows(b.Rows)
		at := region[l.Offset[k]:][:rows*c.Type.Size()]
		switch c.Type {
		case abi.I64:
			copy(at, bytesOf(values.I64))
		case abi.F64:
			copy(at, bytesOf(values.F64))
		case abi.U32:
			copy(at, bytesOf(values.U32))
		case abi.Str:
			w.translate(at, values.U32)
		}
		switch {
		case !c.Nullable:
		case c.Type == abi.Str:
			fillWordValidity(region[l.Validity[k]:][:rows], numbersOf[uint32](at, int(rows)), values)
		default:
			fillValidity(region[l.Validity[k]:][:rows], at, c, values)
		}
	}
	copy(region[l.Scores:], unwritten[:b.Rows*8])
}

// fillValidity marks the rows that are present and clears the values of the others, so that nothing shows through. It has no branches
// that depend on the rows: no one can foresee which of them lack a value, and a branch that the processor guesses wrongly costs more
// than the guest's whole work on the row.
func fillValidity(validity, at []byte, c *abi.Column, values *abi.Values) {
	present(validity, values)
	if c.Type.Size() == 8 {
		clearAbsent(numbersOf[uint64](at, len(validity)), validity)
	} else {
		clearAbsent(numbersOf[uint32](at, len(validity)), validity)
	}
}

// fillWordValidity does the same for strings, where the id 0 is an absent one.
func fillWordValidity(validity []byte, ids []uint32, values *abi.Values) {
	if values.Valid != nil {
		present(validity, values)
		clearAbsent(ids, validity)
	}
	ids = ids[:len(validity)]
	for row := range validity {
		validity[row] = byte((ids[row] | -ids[row]) >> 31)
	}
}

// present writes what the batch says of its rows; without a word about them all are there.
func present(validity []byte, values *abi.Values) {
	if values.Valid != nil {
		copy(validity, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values.Valid))), len(values.Valid)))
		return
	}
	for row := range validity {
		validity[row] = 1
	}
}

func clearAbsent[T uint32 | uint64](values []T, validity []byte) {
	for row := range values[:len(validity)] {
		values[row] &= -T(validity[row])
	}
}

// numbersOf are the n numbers that b holds. A column begins at a multiple of 16 in the region, and the region in the memory.
func numbersOf[T uint32 | uint64](b []byte, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// bytesOf is the memory of a slice of numbers.
func bytesOf[T int64 | uint32 | float64](values []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*int(unsafe.Sizeof(one)))
}

// Limits of the strings that a guest interns at its start.
const (
	maxInterned      = 4096
	maxInternedBytes = 256 << 10
)

// words are the strings of an instance. Those that the guest interned at its start have the first ids, for the life of the
// instance; those of a batch follow, and are forgotten with it. So nothing grows with the number of strings ever seen,
// and the ids of a batch depend on the batch only.
type words struct {
	ids   map[string]uint32
	texts []string
	bytes int

	batch []uint32 // the id of each string of the batch's dictionary
	extra []string // those that are not interned
}

// intern gives the id of text; 0 when there is no room for it.
func (w *words) intern(text string) uint32 {
	if id, known := w.ids[text]; known {
		return id
	}
	if len(w.texts) >= maxInterned || w.bytes+len(text) > maxInternedBytes {
		return 0
	}
	if w.ids == nil {
		w.ids = map[string]uint32{}
	}
	w.texts = append(w.texts, text)
	w.bytes += len(text)
	id := uint32(len(w.texts))
	w.ids[text] = id
	return id
}

// load takes over the dictionary of a batch.
func (w *words) load(dictionary []string) {
	w.batch, w.extra = w.batch[:0], w.extra[:0]
	if len(w.texts) == 0 {
		w.extra = append(w.extra, dictionary...)
		return
	}
	for _, text := range dictionary {
		id, known := w.ids[text]
		if !known {
			w.extra = append(w.extra, text)
			id = uint32(len(w.texts) + len(w.extra))
		}
		w.batch = append(w.batch, id)
	}
}

// translate writes the ids of a column. Without interned strings they are those of the dictionary.
func (w *words) translate(at []byte, ids []uint32) {
	if len(w.texts) == 0 {
		copy(at, bytesOf(ids))
		return
	}
	for row, id := range ids {
		if id > 0 {
			id = w.batch[id-1]
		}
		abi.PutU32(at[row*4:], id)
	}
}

// text gives the string of an id.
func (w *words) text(id uint32) (string, bool) {
	switch n := uint32(len(w.texts)); {
	case id == 0 || id > n+uint32(len(w.extra)):
		return "", false
	case id <= n:
		return w.texts[id-1], true
	default:
		return w.extra[id-n-1], true
	}
}

// pages is where the memories of guests come from.
type pages struct {
	take func(bytes int) ([]byte, error) // all zero; it touches nothing
	give func([]byte)                    // back: touching them after that crashes the process
}

// mapping is the memory of one instance. All addresses that it may ever have are reserved at once, so that it grows where it is, without
// a copy; the system gives them pages, which are zero, as they are touched.
type mapping struct {
	pages  *pages
	budget *Memory
	mine   int64  // bytes of the budget: the guest's memory
	copied int64  // likewise, of the copy that it is brought back to
	denied bool   // the budget had no room when it asked for more
	most   uint64 // bytes that it may ever have
	all    []byte
	heap   bool // the system had no addresses
	large  bool // the system was asked to use huge pages
}

// largeMemory is from where on a memory gets huge pages. Pages of 4 KiB that are touched for the first time took a guest 3 us each,
// which is ten times what it takes to clear them.
const largeMemory = 2 << 20

// Allocate is called once: a plugin has one memory.
func (m *mapping) Allocate(_, most uint64) experimental.LinearMemory {
	m.most = most
	return m
}

// reserve takes bytes of the budget for the guest's memory.
func (m *mapping) reserve(bytes int64) bool {
	if !m.budget.take(bytes) {
		m.denied = true
		return false
	}
	m.mine += bytes
	return true
}

// reserveCopy takes as many bytes again.
func (m *mapping) reserveCopy() bool {
	if !m.budget.take(m.mine) {
		return false
	}
	m.copied = m.mine
	return true
}

// Reallocate gives the memory a size; nil says that it cannot have it.
func (m *mapping) Reallocate(size uint64) []byte {
	if more := int64(size) - m.mine; more > 0 && size <= m.most && !m.reserve(more) {
		return nil
	}
	if m.all == nil && !m.heap {
		all, err := m.pages.take(int(max(m.most, size, 1)))
		m.all, m.heap = all, err != nil
	}
	if m.heap {
		return m.reallocateOnHeap(size)
	}
	if size > uint64(len(m.all)) {
		return nil
	}
	if size > largeMemory && !m.large {
		m.large = true
		hugePages(m.all)
	}
	return m.all[:size:size]
}

// reallocateOnHeap is for systems that have no addresses left: the memory moves as it grows, to twice the size at least, so that a guest
// that grows page by page does not have the host copy for ever.
func (m *mapping) reallocateOnHeap(size uint64) []byte {
	had := uint64(len(m.all))
	switch {
	case m.all != nil && size <= had:
	case m.all != nil && size > m.most:
		return nil
	default:
		grown := make([]byte, max(size, min(2*had, m.most), 1))
		copy(grown, m.all)
		m.all = grown
	}
	return m.all[:size:size]
}

// Free gives the addresses back; it may be called again. Nothing touches them later: an instance is closed only by the goroutine that
// has it, and the data that is kept of a batch is copied.
func (m *mapping) Free() {
	if m.all != nil && !m.heap {
		m.pages.give(m.all)
	}
	m.budget.give(m.mine + m.copied)
	m.all, m.heap, m.large, m.mine, m.copied = nil, false, false, 0, 0
}
