package host

import (
	"context"

	"github.com/tetratelabs/wazero/experimental"
)

// pages is where the memories of guests come from.
type pages struct {
	take func(bytes int) ([]byte, error) // all zero; it touches nothing
	give func([]byte)                    // back: whoever touches them after that takes the process down
}

// lend gives the instance that is made with the context it returns a memory from there. What the engine gave up while it made one it
// does not free, so give must be called when there came no instance of it; the engine frees the memory of an instance that it closes.
func (p *pages) lend(ctx context.Context) (lent context.Context, give func()) {
	if p == nil {
		return ctx, func() {}
	}
	m := &mapping{pages: p}
	return experimental.WithMemoryAllocator(ctx, m), m.Free
}

// mapping is the memory of one instance. All addresses that it may ever have are reserved at once, so that it grows where it is, without
// a copy; the system gives them pages, which are zero, as they are touched.
type mapping struct {
	pages *pages
	most  uint64 // bytes that it may ever have
	all   []byte
	heap  bool // the system had no addresses
	large bool // the system was told to use huge pages
}

// largeMemory is from where on a memory gets huge pages. Pages of 4 KiB that are touched for the first time took a guest 3 us each,
// which is ten times what it takes to clear them.
const largeMemory = 2 << 20

// Allocate is called once: a plugin has one memory.
func (m *mapping) Allocate(_, most uint64) experimental.LinearMemory {
	m.most = most
	return m
}

// Reallocate gives the memory a size; nil says that it cannot have it.
func (m *mapping) Reallocate(size uint64) []byte {
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
// batch is copied, so that nobody touches them later.
func (m *mapping) Free() {
	if m.all != nil && !m.heap {
		m.pages.give(m.all)
	}
	m.all, m.heap, m.large = nil, false, false
}
