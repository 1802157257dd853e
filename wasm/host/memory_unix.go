//go:build unix

package host

import (
	"runtime"
	"syscall"

	"github.com/tetratelabs/wazero/experimental"
)

// allocator gives the memories of guests addresses outside of the Go heap. There they grow where they are, without a copy, and the
// collector is neither driven by them nor has callers pay for them: with memories on the heap, a guest that grew by 13 MB made the
// reserve that asked it help the collector for up to 90 ms.
func allocator() experimental.MemoryAllocator {
	return experimental.MemoryAllocatorFunc(func(_, most uint64) experimental.LinearMemory { return &mapping{most: most} })
}

// mapping is the memory of one instance. All addresses that it may ever have are reserved at once; the system gives them pages,
// which are zero, as they are touched.
type mapping struct {
	most    uint64
	all     []byte
	large   bool // the system was told
	cleanup runtime.Cleanup
}

// largeMemory is from where on a memory gets huge pages. Pages of 4 KiB that are touched for the first time took a guest 3 us each,
// which is ten times what it takes to clear them.
const largeMemory = 2 << 20

// Reallocate gives the memory a size. When the system has no addresses, a memory that begins comes from the heap, and nil says
// that one cannot grow.
func (m *mapping) Reallocate(size uint64) []byte {
	if m.all == nil {
		all, err := syscall.Mmap(-1, 0, int(max(m.most, size, 1)), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			m.all = make([]byte, max(size, 1))
			return m.all[:size:size]
		}
		m.all = all
		// The engine does not free what it gives up while it makes an instance.
		m.cleanup = runtime.AddCleanup(m, unmap, all)
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

// Free gives the addresses back. Whoever touches the memory after that takes the process down, so an instance is closed only by
// the goroutine that has it, and what is kept of a batch is copied.
func (m *mapping) Free() {
	if m.cleanup != (runtime.Cleanup{}) {
		m.cleanup.Stop()
		unmap(m.all)
	}
	*m = mapping{}
}

func unmap(all []byte) { _ = syscall.Munmap(all) } // it fails for addresses only that are not mapped
