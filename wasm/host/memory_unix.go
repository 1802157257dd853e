//go:build unix

package host

import "syscall"

// systemPages gives the memories of guests addresses outside of the Go heap. There the collector is neither driven by them nor has callers
// pay for them: with memories on the heap, a guest that grew by 13 MB made the reserve that asked it help the collector for up to 90 ms.
func systemPages() *pages {
	return &pages{
		take: func(bytes int) ([]byte, error) {
			return syscall.Mmap(-1, 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		},
		give: func(all []byte) { _ = syscall.Munmap(all) }, // it fails for addresses only that are not mapped
	}
}
