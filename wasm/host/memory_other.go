//go:build !unix

package host

import "github.com/tetratelabs/wazero/experimental"

// allocator leaves the memories of guests to the engine, on the Go heap.
func allocator() experimental.MemoryAllocator { return nil }
