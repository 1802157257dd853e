package host

import "github.com/tetratelabs/wazero/experimental"

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
	large  bool // the system was told to use huge pages
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

// Free gives the addresses back; it may be called again. An instance is closed only by the goroutine that has it, and what is kept of a
// batch is copied, so that nothing touches them later.
func (m *mapping) Free() {
	if m.all != nil && !m.heap {
		m.pages.give(m.all)
	}
	m.budget.give(m.mine + m.copied)
	m.all, m.heap, m.large, m.mine, m.copied = nil, false, false, 0, 0
}
